"""One request and its answer. Bytes are kept with their time as they come, and understood after the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import httptools

from unmoor.core.record import Outcome, Record
from unmoor.engines.wire import (
    STREAMED,
    AnswerForm,
    AnswerReading,
    Usage,
    all_text,
    error_text,
    read_answer,
    withhold,
)
from unmoor.measure.client.arrival_clock import ArrivalClock, Read
from unmoor.measure.client.load import PlannedRequest

_OK = 200
_INFORMATIONAL = range(100, 200)
_ERROR_BODY_BYTES = 1 << 16
_ANSWER_BYTES = 64 << 20
"""What one answer may bring, some 250 000 events: a server that never ends must not take the client's memory."""

_MOST_DIGITS = 9
_BLANK_LINE = b"\r\n\r\n"
"""How a chunked answer ends, with trailers or without (RFC 9112, 7.1)."""


_NOT_COUNTED = Usage()


class Exchange:
    """What came in answer to one request.

    The receiving side, `take`, does as little as can be: it keeps the bytes with the time and the kernel's stamp, and
    guesses whether they are the last. `settle` has the clock translate the stamps and the HTTP parser read what is
    kept, and knows: nothing rests on the guess but how soon one looks.
    """

    def __init__(self, sent_at_ns: int, clock: ArrivalClock) -> None:
        self.sent_at_ns = sent_at_ns
        self.first_byte_at_ns: int | None = None
        self.closed_at_ns: int | None = None
        self.body: list[tuple[int, bytes]] = []
        self.status: int | None = None
        self.complete = False
        self.unreadable: str | None = None
        self.encoding: str | None = None
        self.retry_after_s: float | None = None
        self._clock = clock
        self._last_byte_at_ns = sent_at_ns
        self._kept: list[Read] = []
        self._read: list[bytes] = []
        self._bytes = 0
        self._bound_bytes = _ANSWER_BYTES
        self._in_head = True
        self._chunked = False
        self._length: int | None = None
        self._rest: int | None = None
        self._keeps_alive = False
        self._more_than_asked = False
        self._lost: tuple[int, bool] | None = None
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def take(self, read_at_ns: int, data: bytes, stamp: bytes) -> bool:
        """Keeps what one read brought; whether the end may have come, so that it is time to `settle`."""
        self._kept.append((read_at_ns, data, stamp))
        self._bytes += len(data)
        if self._in_head:
            self.settle()
            return self.over
        if self._bytes > self._bound_bytes:
            return True
        if self._rest is not None:
            self._rest -= len(data)
            return self._rest <= 0
        return self._chunked and (
            data.endswith(_BLANK_LINE) or (len(data) < len(_BLANK_LINE) and _tail(self._kept) == _BLANK_LINE)
        )

    def settle(self) -> None:
        """Has the parser read what was kept since the last time; nothing of an answer that is too long is kept."""
        arrivals_ns = self._clock.arrivals_ns(self._kept, self._last_byte_at_ns)
        if arrivals_ns:
            self._last_byte_at_ns = arrivals_ns[-1]
            if self.first_byte_at_ns is None:
                self.first_byte_at_ns = arrivals_ns[0]
        if self.too_long:
            self._kept.clear()
            self.body.clear()
        for at_ns, (_, data, _) in zip(arrivals_ns, self._kept, strict=False):
            if self.closed_at_ns is not None:
                self._more_than_asked = True
                break
            self._parse(data)
            if self._read:
                self.body.append((at_ns, b"".join(self._read)))
                self._read.clear()
            if self.complete or self.unreadable:
                self._close(at_ns)
        self._kept.clear()
        if self._bytes > self._bound_bytes:
            self._close(self._last_byte_at_ns)
        if self._lost is not None and self.closed_at_ns is None:
            at_ns, clean = self._lost
            # The end of an answer without a length, when the connection was closed and not broken (RFC 9112, 6.3).
            self.complete = clean and self.status is not None and not self._chunked and self._length is None
            self._close(at_ns)

    def lost(self, at_ns: int, *, clean: bool) -> None:
        """Notes that the connection was closed, or broken; what came before is understood by the next `settle`."""
        self._lost = (at_ns, clean)

    def abandon(self, at_ns: int) -> None:
        """Nobody waits for the rest; what came is understood."""
        self.settle()
        self._close(at_ns)

    @property
    def unsettled_since_ns(self) -> int | None:
        """When the last was read of what the parser has not seen; None where it has seen all."""
        return self._kept[-1][0] if self._kept else None

    @property
    def over(self) -> bool:
        """Whether nothing more is wanted, as far as the parser has read."""
        return self.closed_at_ns is not None

    @property
    def too_long(self) -> bool:
        """Whether it was ended for its size."""
        return self._bytes > _ANSWER_BYTES

    @property
    def leaves_connection_usable(self) -> bool:
        """Whether another request may follow: a whole answer, nothing after it, and the server did not say close."""
        return self.complete and self._keeps_alive and not self._more_than_asked

    def on_message_begin(self) -> None:
        """Called by the parser; after a whole answer, it is one that nobody asked for."""
        self._more_than_asked = self._more_than_asked or self.complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser; finds out whether this answer says where it ends."""
        name = name.lower()
        if name == b"content-length" and value.strip().isdigit():
            self._length = int(value)
        elif name == b"transfer-encoding" and b"chunked" in value.lower():
            self._chunked = True
        elif name == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
            self.encoding = value.decode("latin-1")[:32]
        elif name == b"retry-after" and value.strip().isdigit():  # a date there is one of another machine's clock
            self.retry_after_s = float(value[:_MOST_DIGITS])

    def on_headers_complete(self) -> None:
        """Called by the parser when the status and headers are there."""
        if self._parser is None or self.complete:
            return
        self.status = self._parser.get_status_code()
        if self.status not in _INFORMATIONAL:
            self._in_head = False
            self._bound_bytes = _ANSWER_BYTES if self.status == _OK else _ERROR_BODY_BYTES
            self._rest = None if self._chunked else self._length

    def on_body(self, body: bytes) -> None:
        """Called by the parser with body bytes, already out of their HTTP chunks."""
        if self.complete:  # what a second answer says is nobody's
            return
        self._read.append(body)

    def on_message_complete(self) -> None:
        """Called by the parser at the end of an answer; one that only informs is followed by the real one."""
        if self.complete or self._parser is None:
            return
        if self.status in _INFORMATIONAL:
            self.status, self._length, self._chunked = None, None, False
        else:
            self.complete = True
            self._keeps_alive = self._parser.should_keep_alive()

    def _parse(self, data: bytes) -> None:
        in_head = self._in_head
        try:
            if self._parser is not None:
                self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.unreadable = "the server wants to speak another protocol"
        except httptools.HttpParserError:
            # What follows a whole answer is not part of it, whatever it is.
            self.unreadable = None if self.complete else "the answer is not HTTP"
            self._more_than_asked = True
        if in_head and self._rest is not None:
            self._rest -= sum(map(len, self._read))  # later reads are all body, and counted as they come

    def _close(self, at_ns: int) -> None:
        if self.closed_at_ns is None:
            self.closed_at_ns = at_ns
        # The collector is off during a replay, so the cycle that holds the bytes is undone by hand.
        self._parser = None


def _tail(kept: Sequence[Read]) -> bytes:
    """The last four bytes of what was kept, over as many reads as it takes."""
    return b"".join(data for _, data, _ in kept[-len(_BLANK_LINE) :])[-len(_BLANK_LINE) :]


def record_of(
    exchange: Exchange,
    request: PlannedRequest,
    scheduled_at_ns: int,
    stopped: Outcome | None,
    *,
    stop_reason: str = "",
    count: Callable[[str], int] | None = None,
) -> Record:
    """What became of one request. `stopped` says that we ended it (timeout, cancelled), and wins over what was seen.

    `count` counts the tokens of a whole answer that the server did not count.

    Messages are kept, text is not: what an error repeats of the prompt is withheld.
    """
    form = request.form or STREAMED
    reading, outcome, error = _judge(exchange, form)
    if stopped is not None:
        outcome, error = stopped, stop_reason
    usage = reading.usage or _NOT_COUNTED
    output_tokens, tokens_from = usage.output_tokens, None if usage.output_tokens is None else "server"
    if output_tokens is None and count is not None and outcome is Outcome.OK:
        output_tokens, tokens_from = count(all_text(exchange.body)), "tokenizer"
    return Record(
        index=request.index,
        outcome=outcome,
        scheduled_at_ns=scheduled_at_ns,
        sent_at_ns=exchange.sent_at_ns,
        first_byte_at_ns=exchange.first_byte_at_ns,
        first_token_at_ns=reading.first_token_at_ns,
        first_answer_at_ns=reading.first_answer_at_ns,
        last_token_at_ns=reading.last_token_at_ns if form.stream else _whole_at_ns(exchange, outcome),
        closed_at_ns=exchange.closed_at_ns,
        chunk_at_ns=reading.chunk_at_ns,
        input_tokens=usage.input_tokens,
        output_tokens=output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        tokens_from=tokens_from,
        choices=form.n if form.n > 1 else None,
        finish_reason=reading.finish_reason,
        status=exchange.status,
        error=withhold(error, request.prompt) if error else None,
        valid=reading.valid if outcome is Outcome.OK else None,
        model=request.model,
        retry_after_s=exchange.retry_after_s,
    )


def _whole_at_ns(exchange: Exchange, outcome: Outcome) -> int | None:
    """When the last byte of an answer in one piece was there."""
    return exchange.body[-1][0] if outcome is Outcome.OK else None


def refused(request: PlannedRequest, scheduled_at_ns: int, closed_at_ns: int, reason: str) -> Record:
    """The record of a request for which no connection could be had."""
    return Record(
        index=request.index,
        outcome=Outcome.REFUSED,
        scheduled_at_ns=scheduled_at_ns,
        closed_at_ns=closed_at_ns,
        error=reason,
        model=request.model,
    )


def _judge(exchange: Exchange, form: AnswerForm) -> tuple[AnswerReading, Outcome, str | None]:
    nothing = AnswerReading()
    if exchange.unreadable is not None:
        return nothing, Outcome.HTTP_ERROR, exchange.unreadable
    if exchange.status is None:
        return nothing, Outcome.CUT, "the connection ended before an answer"
    if exchange.status != _OK:
        body = b"".join(piece for _, piece in exchange.body)[:_ERROR_BODY_BYTES]
        said = f"an error compressed with {exchange.encoding}" if exchange.encoding else error_text(body)
        return nothing, Outcome.HTTP_ERROR, said
    fault = _no_answer(exchange)
    if fault is not None:
        return nothing, Outcome.STREAM_ERROR, fault
    if not form.stream and not exchange.complete:
        return nothing, Outcome.CUT, "the connection broke before the end of the answer"
    return _judge_answer(exchange, read_answer(exchange.body, form), form)


def _no_answer(exchange: Exchange) -> str | None:
    """Why what came with the right status cannot be read as an answer; None where it may be one."""
    if exchange.too_long:
        return f"an answer of more than {_ANSWER_BYTES >> 20} MiB"
    if exchange.encoding is not None:
        return f"the answer is compressed with {exchange.encoding}, which was not asked for"
    return None


def _judge_answer(
    exchange: Exchange, reading: AnswerReading, form: AnswerForm
) -> tuple[AnswerReading, Outcome, str | None]:
    outcome = reading.outcome
    if outcome is Outcome.STREAM_ERROR:
        return reading, outcome, reading.error or f"finish_reason {reading.finish_reason}"
    if outcome is Outcome.CUT:
        what, whose = "stream" if form.stream else "answer", " for every choice" if form.n > 1 else ""
        return reading, outcome, f"the {what} ended without a finish_reason{whose}"
    if not (exchange.complete or reading.ended):
        return reading, Outcome.CUT, "the connection broke before the end of the stream"
    return reading, outcome, None
