"""Checkpoint files: GGUF and safetensors headers and metadata, hardened against hostile input."""
