"""Values that a server logged as Python writes them: taken out of a line as literals, never evaluated."""

from __future__ import annotations

import ast
import re

QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
"""The pattern of a quoted text, for patterns that step over one; it needs re.DOTALL."""

IDS = r"\[(?:\d{1,18}(?:, \d{1,18})*)?\]"
"""The pattern of a list of token ids."""

_QUOTED = re.compile(QUOTED, re.DOTALL)
_IDS = re.compile(IDS)
_BRACE_OR_QUOTED = re.compile(rf"{_QUOTED.pattern}|[{{}}]", re.DOTALL)


def text_at(line: str, place: int) -> str | None:
    """The text that is quoted at `place`; None where there is none, or its end is cut off."""
    found = _QUOTED.match(line, place)
    told = literal(found[0]) if found else None
    return told if isinstance(told, str) else None


def ids_at(line: str, place: int) -> tuple[list[int], int]:
    """The token ids that are listed at `place`, and where the list ends; none and `place` where there is no list."""
    found = _IDS.match(line, place)
    if found is None:
        return [], place
    return [int(told) for told in found[0][1:-1].split(",") if told], found.end()


def braces_at(line: str, place: int) -> str | None:
    """The braces at `place` with all that is in them; None where there are none, or their end is cut off."""
    if not line.startswith("{", place):
        return None
    depth = 0
    for found in _BRACE_OR_QUOTED.finditer(line, place):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return line[place : found.end()]
    return None


def literal(told: str) -> object:
    """The value that `told` writes; None for anything but a literal."""
    try:
        return ast.literal_eval(told)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def end_of_text(line: str, place: int) -> int:
    """Where the text that is quoted at `place` ends; `place` itself where there is none."""
    found = _QUOTED.match(line, place)
    return found.end() if found else place
