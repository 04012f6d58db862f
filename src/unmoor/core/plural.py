"""How many of a thing, in words."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """The count with its noun: "1 block", "2 blocks", "0 blocks"; for nouns that take an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
