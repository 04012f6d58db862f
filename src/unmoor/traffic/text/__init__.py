"""Prompts as text, turned into chained symbols: by bytes, or by a model's own tokenizer and chat template."""
