"""Text from elsewhere as it may be shown: a terminal does what control characters say."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with a blank for each character that is not printed, line feeds excepted."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else " " for one in text)
