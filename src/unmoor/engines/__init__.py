"""What is known of each engine, one file each, and the OpenAI-compatible wire without I/O."""
