"""How an engine is started, taken apart: shell commands, containers' manifests, its own configuration files."""
