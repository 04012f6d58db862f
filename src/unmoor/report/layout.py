"""Headings, wrapped paragraphs and columns of a plain text report, 100 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 100


def heading(text: str) -> str:
    """A line across the page with `text` at its start."""
    return f"── {text} {'─' * max(0, WIDTH - len(text) - 4)}"


def wrapped(text: str, first: str, *, at_hyphens: bool = True) -> list[str]:
    """`text` after `first`, wrapped so that it hangs under itself; `first` alone for an empty text.

    Without `at_hyphens` names of options stay whole.
    """
    room = max(WIDTH, len(first) + 24)
    return textwrap.wrap(
        text,
        room,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=at_hyphens,
    ) or [first.rstrip()]


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their widest cell; the first is flush left, the others flush right. Rows are of one length."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  " + "  ".join((first, *rest)).rstrip())
    return lines
