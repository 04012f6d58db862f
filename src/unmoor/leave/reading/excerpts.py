"""What the requests that findings concern hold of it, for who asks to see text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from unmoor.leave.finding import SHOWN_FEATURES, SHOWN_REQUESTS, Excerpt, Finding, Piece
from unmoor.leave.reading.bodies import NOT_FIELDS, BodyReader
from unmoor.leave.reading.read import NotCut, ReadTraffic
from unmoor.leave.uses import Uses
from unmoor.traffic.entry import Entry, Prompt

MOST_CHARACTERS = 120

Tree = Mapping[str, Any]


def excerpts(findings: tuple[Finding, ...], read: ReadTraffic) -> tuple[Excerpt, ...]:
    """Those of the first lines of each finding, in order of lines; the log is read once more for them.

    Raises what `read` raises.
    """
    wanted: dict[int, dict[str, None]] = {}  # the features on each line
    for finding in findings:
        for line in finding.lines[:SHOWN_REQUESTS]:
            wanted.setdefault(line, {}).update(dict.fromkeys(finding.features[:SHOWN_FEATURES]))
    found: dict[int, Excerpt] = {}

    def watch(line: int, entry: Entry) -> None:
        if line in wanted and line not in found:
            found[line] = Excerpt(
                line=line, asked=_asked(entry), answered=_answered(entry.answer), pieces=_pieces(entry, wanted[line])
            )

    if wanted:
        read(NotCut(), watch)
    return tuple(found[line] for line in sorted(found))


def _asked(entry: Entry) -> str | None:
    if not isinstance(entry.content, Prompt) or not entry.content.parts:
        return None
    return _beginning(entry.content.parts[-1].text)


def _answered(answer: Tree | None) -> str | None:
    """The output as the model wrote it, where the log has that, else the content."""
    choice = _choice(answer)
    message = choice.get("message")
    told = message if isinstance(message, dict) else {"content": choice.get("text")}
    texts = (told.get(name) for name in ("raw", "raw_output", "content"))
    return next((_both_ends(text) for text in texts if isinstance(text, str)), None)


def _choice(answer: Tree | None) -> Tree:
    choices = (answer or {}).get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _pieces(entry: Entry, features: Mapping[str, None]) -> tuple[Piece, ...]:
    """The values under these features, where the request or its answer has them; of an answer's both ends."""
    body = entry.body or {}
    schemas = dict(_schemas(body)) if any(feature.startswith("schema ") for feature in features) else {}
    values = ((feature, schemas.get(feature, _value(feature, body, entry.answer))) for feature in features)
    return tuple(
        Piece(feature=feature, text=(_both_ends if feature.startswith("answer.") else _beginning)(_text(value)))
        for feature, value in values
        if value is not None
    )


def _schemas(body: Tree) -> Iterator[tuple[str, object]]:
    """The request's constraints, under the names that findings give them."""
    uses = Uses()
    BodyReader(uses).read(1, body)
    for constraint in (*uses.constraints.values(), *uses.tool_schemas.values()):
        yield f"schema {constraint.key}", constraint.content


def _value(feature: str, body: Tree, answer: Tree | None) -> object:
    """What stands at a feature's path; None for messages, tools and prompts, of which `asked` shows the last."""
    place, _, path = feature.partition(".")
    first, *rest = path.split(".")
    if place == "answer":
        value = _choice(answer).get(first, (answer or {}).get(first))
    elif first in NOT_FIELDS:
        return None
    else:
        extra = body.get("extra_body")
        value = body.get(first, extra.get(first) if isinstance(extra, dict) else None)
    for name in rest:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _beginning(text: str) -> str:
    """The text in one line, cut off at its end."""
    line = _escaped(text[: MOST_CHARACTERS + 1])
    return "".join(line) if _size(line) <= MOST_CHARACTERS else "".join(_fitting(line, MOST_CHARACTERS - 1)) + "…"


def _both_ends(text: str) -> str:
    """The text in one line, cut out in its middle: what parsers and stop strings decide is at the end."""
    line = _escaped(text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + text[-MOST_CHARACTERS:])
    if _size(line) <= MOST_CHARACTERS:
        return "".join(line)
    end = _fitting(line[::-1], MOST_CHARACTERS // 2 - 1)
    return "".join([*_fitting(line, MOST_CHARACTERS // 2), "…", *end[::-1]])


def _escaped(text: str) -> list[str]:
    """Characters that would break the line, steer a terminal or fit no file are written as escapes."""
    return [one if one.isprintable() else one.encode("unicode_escape").decode() for one in text]


def _size(line: list[str]) -> int:
    return sum(map(len, line))


def _fitting(line: list[str], most: int) -> list[str]:
    """The first of these that are no longer than `most` together; none is cut."""
    size = 0
    for count, one in enumerate(line):
        size += len(one)
        if size > most:
            return line[:count]
    return line
