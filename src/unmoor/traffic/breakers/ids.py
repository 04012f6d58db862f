"""Ids as programs write them into prompts: uuids, hex, counters, e-mail addresses, names with numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ID_RE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|\b(?=[\w-]*\d)\w+(?:-\w+)+\b"
    r"|\b[0-9a-f]{8,}\b|#?\b\d+\b",
    re.IGNORECASE,
)
MOST_CHARACTERS = 64
MOST_WORDS = 3


def id_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where `text` has what only a program would write, or a number."""
    for match in _ID_RE.finditer(text):
        yield match.span()


def is_written_by_a_program(text: str) -> bool:
    """Whether there is something in `text` that only a program would write, or a number."""
    return _ID_RE.search(text) is not None


def is_short(text: str) -> bool:
    """Whether `text` is as short as an id or a name is: one line of at most three words."""
    core = text.strip()
    return len(core) <= MOST_CHARACTERS and "\n" not in core and len(core.split()) <= MOST_WORDS
