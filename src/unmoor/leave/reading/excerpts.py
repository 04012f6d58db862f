"""How the requests that findings concern begin, for who asks to see text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unmoor.leave.finding import Excerpt, Finding
from unmoor.leave.reading.read import NotCut, ReadTraffic
from unmoor.traffic.entry import Entry, Prompt

MOST_CHARACTERS = 120
SHOWN_LINES = 3
"""So many requests of each finding are shown."""

_LOOKED_AT = 4 * MOST_CHARACTERS


def excerpts(findings: tuple[Finding, ...], read: ReadTraffic) -> tuple[Excerpt, ...]:
    """Those of the first lines of each finding, in order of lines; the log is read once more for them.

    Raises what `read` raises.
    """
    wanted = {line for finding in findings for line in finding.lines[:SHOWN_LINES]}
    found: dict[int, Excerpt] = {}

    def watch(line: int, entry: Entry) -> None:
        if line in wanted and line not in found:
            found[line] = Excerpt(line=line, asked=_asked(entry), answered=_answered(entry.answer))

    if wanted:
        read(NotCut(), watch)
    return tuple(found[line] for line in sorted(found))


def _asked(entry: Entry) -> str | None:
    if not isinstance(entry.content, Prompt) or not entry.content.parts:
        return None
    return _one_line(entry.content.parts[-1].text)


def _answered(answer: Mapping[str, Any] | None) -> str | None:
    choices = (answer or {}).get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        return None
    message = first.get("message")
    text = message.get("content") if isinstance(message, dict) else first.get("text")
    return _one_line(text) if isinstance(text, str) else None


def _one_line(text: str) -> str:
    """Blanks for what would break the line, steer a terminal or fit no file."""
    shown = "".join(one if one.isprintable() else " " for one in text[:_LOOKED_AT])
    line = " ".join(shown.split())
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"
