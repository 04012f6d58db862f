"""Whole answers of each endpoint as events, and every way in which the standard lets a server write them down."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from hypothesis import strategies as st

DONE = "[DONE]"


def _choice(finish: str | None = None, **said: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": finish, **said}]}


_USAGE = {"prompt_tokens": 20, "completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 1}}
_COUNTED = {"input_tokens": 20, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1}}

ANSWERS: dict[str, list[tuple[str, object]]] = {
    "chat": [
        ("", _choice(delta={"role": "assistant", "content": ""})),
        ("", _choice(delta={"reasoning_content": "hm\r\n"})),
        ("", _choice(delta={"content": "Grüße 🌍"})),
        ("", _choice(delta={"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]})),
        ("", _choice("stop", delta={})),
        ("", {"choices": [], "usage": _USAGE}),
        ("", DONE),
    ],
    "completions": [
        ("", _choice(text="data: no event\n\n")),
        ("", _choice(text="")),
        ("", _choice(text="\ufeffa")),
        ("", _choice("length", text="b") | {"usage": _USAGE}),
        ("", DONE),
    ],
    "responses": [
        ("response.created", {"response": {"status": "in_progress"}}),
        ("response.reasoning_text.delta", {"delta": "hm"}),
        ("response.output_text.delta", {"delta": "Grüße\n\n"}),
        ("response.output_text.delta", {"delta": "🌍"}),
        ("response.completed", {"response": {"status": "completed", "usage": _COUNTED}}),
    ],
}
"""Each has three events with content."""

WITH_CONTENT = {"chat": (1, 2, 3), "completions": (0, 2, 3), "responses": (1, 2, 3)}
FIRST_ANSWER = {"chat": 2, "completions": 0, "responses": 2}
FINISH = {"chat": "stop", "completions": "length", "responses": "completed"}

_ASIDE = st.sampled_from([":", ": ping", ":data: {", "id: 7", "id", "retry: 10", "data2: x", "unknown", "eventual: x"])


@st.composite
def written(draw: st.DrawFn, endpoint: str) -> tuple[bytes, list[int]]:
    """The answer of an endpoint as a body, and the offset at which each of its events is complete."""
    body, ends = draw(st.sampled_from([b"", b"\xef\xbb\xbf"])), list[int]()
    events = ANSWERS[endpoint]
    for name, content in events:
        lines = draw(_lines(name, content))
        last = len(ends) == len(events) - 1 and draw(st.booleans())  # the last one may lack its blank line
        for at, line in enumerate([*lines, ""] if not last else lines):
            end = draw(st.sampled_from([b"\n", b"\r", b"\r\n"]))
            if not line and end == b"\n" and body.endswith(b"\r"):
                end = b"\r\n"  # the two would be one end of one line
            body += line.encode() + (b"" if last and at == len(lines) - 1 and draw(st.booleans()) else end)
        ends.append(len(body))
    return body, ends


@st.composite
def _lines(draw: st.DrawFn, name: str, content: object) -> list[str]:
    if content == DONE:
        text = DONE
    else:
        said = {"type": name, **content} if name and isinstance(content, dict) else content
        text = json.dumps(said, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    lines = [f"data:{draw(st.sampled_from(['', ' ']))}{line}" for line in text.split("\n")]
    if name and draw(st.booleans()):
        lines.insert(draw(st.integers(0, len(lines))), f"event:{draw(st.sampled_from(['', ' ']))}{name}")
    for aside in draw(st.lists(_ASIDE, max_size=3)):
        lines.insert(draw(st.integers(0, len(lines))), aside)
    return lines


@st.composite
def split(draw: st.DrawFn, data: bytes) -> list[tuple[int, bytes]]:
    """The bytes in any number of reads, each with a time of its own."""
    every = draw(st.booleans())
    cuts = range(len(data)) if every else draw(st.lists(st.integers(0, len(data)), max_size=40))
    marks = sorted({0, len(data), *cuts})
    return [(at, data[a:b]) for at, (a, b) in enumerate(pairwise(marks), start=1)]


def times_at(reads: Sequence[tuple[int, bytes]], offsets: Sequence[int]) -> list[int]:
    """When the byte before each offset came."""
    ends = list(accumulate(len(piece) for _, piece in reads))
    return [reads[bisect_left(ends, offset)][0] for offset in offsets]
