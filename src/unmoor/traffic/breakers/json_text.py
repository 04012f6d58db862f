"""JSON inside a text, with the members of its objects in one order and every other byte where it was."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_SCALAR = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|True|False|None|NaN")
_OPENING = re.compile(r"\{\s*[\"']")
_DEEPEST = 64


class _NotJsonError(ValueError):
    """The text is not JSON from here on."""


def json_spans(text: str) -> Iterator[tuple[int, int, str, tuple[str, ...]]]:
    """The outermost objects in `text`: where each begins and ends, itself with sorted members, its keys as they came.

    An object printed by Python, in single quotes, counts as one. Each object is as long as before.
    """
    at = 0
    while (opening := _OPENING.search(text, at)) is not None:
        keys: list[str] = []
        try:
            ordered, at = _value(text, opening.start(), keys, _DEEPEST)
        except _NotJsonError:
            at = opening.end()
        else:
            yield opening.start(), at, ordered, tuple(keys)


def members_sorted(text: str) -> str:
    """`text` with the members of every JSON object in it sorted by key."""
    kept, at = list[str](), 0
    for start, end, ordered, _ in json_spans(text):
        kept += (text[at:start], ordered)
        at = end
    return "".join((*kept, text[at:])) if kept else text


def _value(text: str, at: int, keys: list[str], deeper: int) -> tuple[str, int]:
    """The value at `at` with sorted members, and where it ends; its keys are added to `keys` as they come."""
    first = text[at : at + 1]
    if deeper == 0:
        raise _NotJsonError
    if first == "{":
        return _object(text, at, keys, deeper)
    if first == "[":
        return _array(text, at, keys, deeper)
    match = _STRING.match(text, at) if first in "\"'" and first else _SCALAR.match(text, at)
    if match is None:
        raise _NotJsonError
    return match[0], match.end()


def _object(text: str, at: int, keys: list[str], deeper: int) -> tuple[str, int]:
    members: list[tuple[str, str]] = []
    spaces: list[tuple[str, str]] = []
    at += 1
    while True:
        lead = _matched(_SPACE, text, at)
        if not members and text[at + len(lead) : at + len(lead) + 1] == "}":
            return "{" + lead + "}", at + len(lead) + 1
        key = _matched(_STRING, text, at + len(lead))
        keys.append(key)
        start = at = at + len(lead) + len(key)
        at += len(_matched(_SPACE, text, at))
        if text[at : at + 1] != ":":
            raise _NotJsonError
        at = at + 1 + len(_matched(_SPACE, text, at + 1))
        colon = text[start:at]
        value, at = _value(text, at, keys, deeper - 1)
        trail = _matched(_SPACE, text, at)
        members.append((key, key + colon + value))
        spaces.append((lead, trail))
        at += len(trail) + 1
        if text[at - 1 : at] == "}":
            break
        if text[at - 1 : at] != ",":
            raise _NotJsonError
    ordered = [member for _, member in sorted(members, key=lambda member: member[0])]
    return "{" + ",".join(a + member + b for (a, b), member in zip(spaces, ordered, strict=True)) + "}", at


def _array(text: str, at: int, keys: list[str], deeper: int) -> tuple[str, int]:
    kept = ["["]
    at += 1
    while True:
        lead = _matched(_SPACE, text, at)
        at += len(lead)
        kept.append(lead)
        if len(kept) == 2 and text[at : at + 1] == "]":  # noqa: PLR2004 - the bracket and the space behind it
            return "[" + lead + "]", at + 1
        value, at = _value(text, at, keys, deeper - 1)
        trail = _matched(_SPACE, text, at)
        at += len(trail) + 1
        kept += (value, trail, text[at - 1 : at])
        if text[at - 1 : at] == "]":
            return "".join(kept), at
        if text[at - 1 : at] != ",":
            raise _NotJsonError


def _matched(pattern: re.Pattern[str], text: str, at: int) -> str:
    match = pattern.match(text, at)
    if match is None:
        raise _NotJsonError
    return match[0]
