"""Leaving: what would break on another engine, found on paper first; then rehearsed; then done."""
