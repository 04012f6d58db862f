"""Values that a server logged as Python writes them: taken out of a line as literals, never evaluated."""

from __future__ import annotations

import ast
import re

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)


def text_at(line: str, place: int) -> str | None:
    """The text that is quoted at `place`; None where there is none, or its end is cut off."""
    found = _QUOTED.match(line, place)
    told = literal(found[0]) if found else None
    return told if isinstance(told, str) else None


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
