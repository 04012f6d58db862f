"""Server-sent events in a body's bytes, by the standard and whatever the servers make of it."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

from unmoor.engines.wire.error_text import UNREADABLE

DONE: Final = b"[DONE]"
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_DATA, _BLANK = b"data: ", b"\n\n"


class Event(NamedTuple):
    """One event: the offset in the body at which it is complete, its name (may be empty) and its data."""

    end: int
    name: bytes
    content: bytes


def events(body: bytes) -> Iterator[Event]:
    """The events of a whole body, in order; those without data are none, comments and other fields are nobody's.

    A last event without its blank line counts if its data is whole. A line `error: ...` of its own, as older
    llama-servers send it, is an event named "error".
    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    start, name, content = len(BOM_UTF8) if body.startswith(BOM_UTF8) else 0, b"", list[bytes]()
    for match in _LINE_END.finditer(body, start):
        line, start = body[start : match.start()], match.end()
        if not line:
            if content:
                yield Event(start, name, b"\n".join(content))
            name, content = b"", []
            continue
        name = _take(line, name, content)
    name = _take(body[start:], name, content)
    if content and _whole(last := b"\n".join(content)):
        yield Event(len(body), name, last)


def plain_events(body: bytes) -> tuple[list[int], list[bytes]] | None:
    """The ends and the data of a body in the one framing that nearly every server uses, at a fraction of the cost.

    That is `data: {...}`, a line feed and a blank line for each event, and "[DONE]" last of all, if at all. None for
    any other body, which `events` understands.
    """
    if not body.startswith(_DATA + b"{") or not body.endswith(_BLANK) or b"\r" in body:
        return None
    contents = body[len(_DATA) : -len(_BLANK)].split(_BLANK + _DATA)
    if body.count(b"\n") != len(_BLANK) * len(contents):  # another line somewhere
        return None
    around = len(_DATA) + len(_BLANK)
    return list(accumulate(len(content) + around for content in contents)), contents


def _take(line: bytes, name: bytes, content: list[bytes]) -> bytes:
    """Takes one line of an event, and gives the event's name as it then is."""
    field, _, value = line.partition(b":")
    value = value.removeprefix(b" ")
    if field == b"data":
        content.append(value)
    elif field == b"event":
        return value
    elif field == b"error":
        content.append(value)
        return b"error"
    return name


def _whole(content: bytes) -> bool:
    try:
        return content.strip() == DONE or isinstance(msgspec.json.decode(content), dict)
    except UNREADABLE:
        return False
