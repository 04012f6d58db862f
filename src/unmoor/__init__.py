"""Choose an LLM inference runtime on evidence, and stay able to leave it."""

__version__ = "0.1.0"
