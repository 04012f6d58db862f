"""An answer over HTTP is the same record however it is framed and however its bytes are split, and no bytes raise."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.record import Outcome, Record, e2e_s, ttfa_s, ttft_s
from unmoor.engines.wire import AnswerForm
from unmoor.measure.client.arrival_clock import ArrivalClock
from unmoor.measure.client.exchange import Exchange, record_of
from unmoor.measure.client.load import PlannedRequest

SENT_NS = 10


def data(content: object) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def event(kind: str, **content: object) -> bytes:
    return f"event: {kind}\n".encode() + data({"type": kind, **content})


USAGE = {"prompt_tokens": 9, "completion_tokens": 3}
STREAMS = {
    "chat": b"".join(
        [
            data({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
            *(data({"choices": [{"index": 0, "delta": {"content": "0\r\n\r\n"}}]}) for _ in range(3)),
            data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
            data({"choices": [], "usage": USAGE}),
            b"data: [DONE]\n\n",
        ]
    ),
    "completions": b"".join(
        [
            *(data({"choices": [{"index": 0, "text": "a"}]}) for _ in range(3)),
            data({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}], "usage": USAGE}),
            b"data: [DONE]\r\n\r\n",
        ]
    ),
    "responses": b"".join(
        [
            event("response.created", response={"status": "in_progress"}),
            *(event("response.output_text.delta", delta="a") for _ in range(3)),
            event(
                "response.completed",
                response={"status": "completed", "usage": {"input_tokens": 9, "output_tokens": 3}},
            ),
        ]
    ),
}
WHOLE = {
    "chat": json.dumps(
        {"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}], "usage": USAGE}
    ).encode(),
    "responses": json.dumps(
        {"object": "response", "status": "completed", "usage": {"input_tokens": 9, "output_tokens": 3}, "output": []}
    ).encode(),
}
INFORM = [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"]


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    marks = sorted({0, len(body), *draw(st.lists(st.integers(0, len(body)), max_size=12))})
    extension = draw(st.sampled_from([b"", b";a", b";a=b", b';a="b;c"']))
    zeros = draw(st.sampled_from([b"", b"0", b"00"]))
    pieces = [body[a:b] for a, b in pairwise(marks)]
    framed = b"".join(zeros + b"%x" % len(one) + extension + b"\r\n" + one + b"\r\n" for one in pieces)
    trailers = draw(st.sampled_from([b"", b"X-Took: 1\r\n", b"X-Took: 1\r\nX-More: 2\r\n"]))
    return framed + b"0" + extension + b"\r\n" + trailers + b"\r\n"


@st.composite
def answers(draw: st.DrawFn, body: bytes) -> tuple[bytes, bool]:
    """The bytes of a whole answer, and whether only the end of the connection ends it."""
    inform = b"".join(draw(st.lists(st.sampled_from(INFORM), max_size=2)))
    framing = draw(st.sampled_from(["chunked", "length", "close", "1.0"]))
    extra = draw(st.sampled_from([b"", b"Server: x\r\n", b"content-type:text/event-stream\r\nX-Empty:\r\n"]))
    if framing == "chunked":
        coding = draw(st.sampled_from([b"Transfer-Encoding: chunked", b"transfer-encoding:Chunked"]))
        return inform + b"HTTP/1.1 200 OK\r\n" + extra + coding + b"\r\n\r\n" + draw(chunked(body)), False
    if framing == "length":
        return inform + b"HTTP/1.1 200 \r\n" + extra + b"content-LENGTH: %d\r\n\r\n" % len(body) + body, False
    head = b"HTTP/1.0 200 OK\r\n" if framing == "1.0" else inform + b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
    return head + extra + b"\r\n" + body, True


def taken(pieces: list[bytes], *, closes: bool = True) -> Exchange:
    """An exchange that got these reads, one a nanosecond, as the loop would hand them over."""
    exchange = Exchange(SENT_NS, ArrivalClock(kernel=False))
    for at_ns, piece in enumerate(pieces, start=SENT_NS + 1):
        if exchange.take(at_ns, piece, b""):
            exchange.settle()
        if exchange.over:
            return exchange
    if closes:
        exchange.lost(SENT_NS + len(pieces) + 1, clean=True)
    exchange.settle()
    return exchange


def record(exchange: Exchange, form: AnswerForm) -> Record:
    request = PlannedRequest(index=3, due_s=0.0, prompt="the prompt", max_tokens=3, form=form)
    return record_of(exchange, request, SENT_NS, None)


def cut(draw: st.DataObject, wire: bytes) -> list[bytes]:
    every = draw.draw(st.booleans())
    marks = {
        0,
        len(wire),
        *(range(len(wire)) if every else draw.draw(st.lists(st.integers(0, len(wire)), max_size=30))),
    }
    return [wire[a:b] for a, b in pairwise(sorted(marks))]


@pytest.mark.parametrize("endpoint", list(STREAMS))
@given(st.data())
def test_a_stream_is_the_same_record_in_any_framing_and_splitting(endpoint: str, data: st.DataObject) -> None:
    wire, by_close = data.draw(answers(STREAMS[endpoint]))
    pieces = cut(data, wire)
    exchange = taken(pieces, closes=by_close)
    found = record(exchange, AnswerForm())
    assert exchange.over
    assert (found.outcome, found.error, found.status) == (Outcome.OK, None, 200)
    assert (found.input_tokens, found.output_tokens, found.tokens_from) == (9, 3, "server")
    assert len(found.chunk_at_ns) == 3
    assert list(found.chunk_at_ns) == sorted(found.chunk_at_ns)
    assert found.first_byte_at_ns == SENT_NS + 1
    assert found.first_answer_at_ns == found.first_token_at_ns == found.chunk_at_ns[0]
    last_ns = SENT_NS + len(pieces) + by_close
    assert found.closed_at_ns == last_ns
    assert exchange.leaves_connection_usable is not by_close


@pytest.mark.parametrize("endpoint", list(WHOLE))
@given(st.data())
def test_an_answer_in_one_piece_is_the_same_record_in_any_framing_and_splitting(
    endpoint: str, data: st.DataObject
) -> None:
    wire, by_close = data.draw(answers(WHOLE[endpoint]))
    pieces = cut(data, wire)
    found = record(taken(pieces, closes=by_close), AnswerForm(stream=False))
    assert (found.outcome, found.error, found.output_tokens) == (Outcome.OK, None, 3)
    assert (found.first_token_at_ns, found.first_answer_at_ns, found.chunk_at_ns) == (None, None, ())
    assert (ttft_s(found), ttfa_s(found)) == (None, None)
    assert found.last_token_at_ns is not None
    assert found.closed_at_ns is not None
    assert SENT_NS < found.last_token_at_ns <= found.closed_at_ns
    assert e2e_s(found) == (found.last_token_at_ns - SENT_NS) / 1e9


@pytest.mark.parametrize("form", [AnswerForm(), AnswerForm(stream=False)])
@given(st.data())
def test_an_answer_that_breaks_off_before_its_end_is_a_failure(form: AnswerForm, data: st.DataObject) -> None:
    """By the body's own account or by HTTP's: never ok without a last event, never after a broken chunk."""
    body = STREAMS["chat"][: -len(b"data: [DONE]\n\n")] if form.stream else WHOLE["chat"]
    wire, by_close = data.draw(answers(body))
    if not by_close:
        pieces = cut(data, wire[: data.draw(st.integers(0, len(wire) - 1))])
        found = record(taken(pieces), form)
        assert found.outcome in {Outcome.CUT, Outcome.HTTP_ERROR}
        assert found.error
        assert ttft_s(found) is None


@given(st.data())
def test_no_bytes_raise(data: st.DataObject) -> None:
    wire, _ = data.draw(answers(data.draw(st.sampled_from([*STREAMS.values(), *WHOLE.values()]))))
    for _ in range(data.draw(st.integers(0, 4))):
        start, length = data.draw(st.integers(0, len(wire))), data.draw(st.integers(0, 12))
        wire = wire[:start] + data.draw(st.binary(max_size=6)) + wire[start + length :]
    form = AnswerForm(stream=data.draw(st.booleans()), n=data.draw(st.integers(1, 2)), schema=b"{}")
    found = record(taken(cut(data, wire)), form)
    assert found.ok or found.error


@given(st.lists(st.binary(max_size=40), max_size=8), st.booleans(), st.booleans())
def test_no_bytes_at_all_are_an_answer_by_chance(pieces: list[bytes], clean: bool, streamed: bool) -> None:  # noqa: FBT001
    exchange = Exchange(SENT_NS, ArrivalClock(kernel=False))
    for at_ns, piece in enumerate(pieces, start=SENT_NS + 1):
        exchange.take(at_ns, piece, b"")
    exchange.lost(SENT_NS + 100, clean=clean)
    exchange.settle()
    found = record(exchange, AnswerForm(stream=streamed))
    assert not found.ok
    assert found.error


@pytest.mark.parametrize(
    ("header", "retry_after_s"),
    [
        (b"Retry-After: 30", 30.0),
        (b"retry-after:0", 0.0),
        (b"Retry-After: Tue, 01 Dec 2026 12:00:00 GMT", None),
        (b"Retry-After: soon", None),
        (b"Retry-After: -1", None),
        (b"Retry-After: " + b"9" * 5000, 999999999.0),
        (b"X-Other: 30", None),
    ],
)
@pytest.mark.parametrize("status", [b"429 Too Many Requests", b"503 Service Unavailable"])
def test_how_long_a_refusing_server_wants_to_be_left_alone_is_kept(
    status: bytes, header: bytes, retry_after_s: float | None
) -> None:
    wire = b"HTTP/1.1 " + status + b"\r\n" + header + b'\r\nContent-Length: 16\r\n\r\n{"error":"busy"}'
    found = record(taken([wire]), AnswerForm())
    assert (found.outcome, found.error) == (Outcome.HTTP_ERROR, "busy")
    assert found.retry_after_s == retry_after_s


def test_who_counted_is_nobody_where_the_output_was_not_counted() -> None:
    body = STREAMS["completions"].replace(b'"completion_tokens": 3', b'"completion_tokens": -3')
    found = record(taken([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body]), AnswerForm())
    assert (found.outcome, found.input_tokens, found.output_tokens, found.tokens_from) == (Outcome.OK, 9, None, None)


def test_an_exchange_keeps_no_text_once_it_is_recorded() -> None:
    body = WHOLE["chat"].replace(b'"a"', b'"{\\"secret\\": 1}"')
    form = AnswerForm(stream=False, schema=b'{"required":["secret"]}')
    found = record(taken([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body]), form)
    assert found.valid is True
    assert "secret" not in repr(found)
