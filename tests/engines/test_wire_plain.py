"""The short way through a plain stream says what the long way says, whatever the events hold."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from unmoor.engines.wire.answer import read_stream
from unmoor.engines.wire.sse import events, plain_events


def token(**delta: object) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}).encode()


END = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": None}).encode()
USAGE = b'{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}'
ODD = [
    b"{",
    b"}",
    b"{}",
    b"{},{}",
    b'{"choices":[{}',
    b"{}]}",
    b"{} {}",
    b"{}x",
    b"[DONE]",
    b"[1]",
    b"",
    b"null",
    b"{\xff}",
]
PIECES = st.lists(
    st.sampled_from(
        [
            token(content="a"),
            token(role="assistant"),
            token(reasoning="b"),
            token(content="c", reasoning="d"),
            END,
            USAGE,
            *ODD,
        ]
    ),
    max_size=8,
)


def framed(contents: list[bytes]) -> bytes:
    return b"".join(b"data: %b\n\n" % content for content in contents)


@given(PIECES, st.lists(st.integers(0, 400), max_size=6))
@example([b'{"choices":[{}', b"{}]}", b"{},{}"], [])
@example([b"{}", b"[DONE]", b"{}"], [])
def test_both_ways_say_the_same(contents: list[bytes], cuts: list[int]) -> None:
    body = framed(contents)
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    reads = [(100 + place, body[start:end]) for place, (start, end) in enumerate(pairwise(edges))]
    reads = [read for read in reads if read[1]]
    # A comment in front takes the long way, and is nobody's event.
    assert read_stream(reads) == read_stream([(99, b": hello\n"), *reads])


@given(PIECES)
def test_plain_events_are_the_events(contents: list[bytes]) -> None:
    body = framed(contents)
    plain = plain_events(body)
    if plain is not None:
        found = list(events(body))
        assert plain == ([event.end for event in found], [event.content for event in found])


def test_the_framing_of_nearly_every_server_is_plain() -> None:
    assert plain_events(framed([token(content="a"), END, USAGE, b"[DONE]"])) is not None
    assert plain_events(framed([token(content="a"), END])) is not None
    for other in (
        b"",
        b"\n\n",
        b"data: {}\n",
        b"data:{}\n\n",
        b"data: {}\r\n\r\n",
        b"data: {}\n\n\n",
        b"event: x\ndata: {}\n\n",
    ):
        assert plain_events(other) is None
