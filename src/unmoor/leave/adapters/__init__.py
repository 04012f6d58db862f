"""LoRA adapters on disk, read from their configuration and headers."""
