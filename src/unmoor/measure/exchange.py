"""One request and its answer on one connection. Bytes are stamped as they come and understood after the end."""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import cast

import httptools

from unmoor.core.record import Outcome, Record
from unmoor.engines.wire import StreamReading, read_body, read_stream, withhold
from unmoor.measure.load import PlannedRequest

_OK = 200
_INFORMATIONAL = range(100, 200)
_ERROR_BODY_BYTES = 1 << 16
_ANSWER_BYTES = 64 << 20
"""What one answer may bring, some 250 000 events: a server that never ends must not take the client's memory."""


class Exchange(asyncio.Protocol):
    """A connection that carries one request. `ended` is set when nothing more can come.

    The receiving side does as little as can be: it takes the time, lets the parser find the frames, keeps the bytes.
    """

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.sent_at_ns: int | None = None
        self.first_byte_at_ns: int | None = None
        self.closed_at_ns: int | None = None
        self.body: list[tuple[int, bytes]] = []
        self.status: int | None = None
        self.complete = False
        self.unreadable: str | None = None
        self.encoding: str | None = None
        self.abandoned = False
        self._read: list[bytes] = []
        self._bytes = 0
        self._length_known = False
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None

    @property
    def usable(self) -> bool:
        """Whether a request can be sent: connected, nothing sent, nothing received, nothing ended."""
        return self._transport is not None and not self.ended.is_set() and self.sent_at_ns is None

    def send(self, request: bytes) -> None:
        """Writes a whole HTTP request at once."""
        assert self._transport is not None, "an exchange is sent on after it is connected"  # noqa: S101 - a caller's bug
        self.sent_at_ns = monotonic_ns()
        self._transport.write(request)

    def abandon(self) -> None:
        """Closes the connection without waiting for anything; nothing happens to one that has ended."""
        if not self.ended.is_set():
            self.abandoned = True
            self._end(monotonic_ns())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio when the connection stands."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio with what one read brought."""
        now = monotonic_ns()
        if self.first_byte_at_ns is None:
            self.first_byte_at_ns = now
        self._bytes += len(data)
        try:
            if self._parser is not None:
                self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.unreadable = "the server wants to speak another protocol"
        except httptools.HttpParserError:
            # What follows a whole answer is not part of it, whatever it is.
            self.unreadable = None if self.complete else "the answer is not HTTP"
        if self._read:
            self.body.append((now, b"".join(self._read)))
            self._read.clear()
        if self.complete or self.unreadable or self._has_enough():
            self._end(now)

    def _has_enough(self) -> bool:
        if self.status not in {None, _OK}:
            return self._bytes > _ERROR_BODY_BYTES
        return self.too_long

    @property
    def too_long(self) -> bool:
        """Whether it was ended for its size."""
        return self._bytes > _ANSWER_BYTES

    def connection_lost(self, error: Exception | None) -> None:
        """Called by asyncio when the connection is gone: the end of an answer without a length (RFC 9112, 6.3)."""
        if self.status is not None and error is None and not self._length_known:
            self.complete = True
        self._end(monotonic_ns())

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser; finds out whether this answer says where it ends."""
        if name.lower() == b"content-length" or (name.lower() == b"transfer-encoding" and b"chunked" in value.lower()):
            self._length_known = True
        if name.lower() == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
            self.encoding = value.decode("latin-1")[:32]

    def on_headers_complete(self) -> None:
        """Called by the parser when the status and headers are there."""
        if self._parser is not None and not self.complete:
            self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """Called by the parser with body bytes, already out of their HTTP chunks."""
        if not self.complete:  # what a second answer says is nobody's
            self._read.append(body)

    def on_message_complete(self) -> None:
        """Called by the parser at the end of an answer; one that only informs is followed by the real one."""
        if self.status in _INFORMATIONAL and not self.complete:
            self.status, self._length_known = None, False
        else:
            self.complete = True

    def _end(self, at_ns: int) -> None:
        if self.closed_at_ns is not None:
            return
        self.closed_at_ns = at_ns
        # The collector is off during a replay, so the cycles that hold bytes are undone by hand.
        self._parser = None
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        self.ended.set()


def record_of(
    exchange: Exchange, request: PlannedRequest, scheduled_at_ns: int, stopped: Outcome | None, *, stop_reason: str = ""
) -> Record:
    """What became of one request. `stopped` says that we ended it (timeout, cancelled), and wins over what was seen.

    Messages are kept, text is not: what an error repeats of the prompt is withheld.
    """
    reading, outcome, error = _judge(exchange)
    if stopped is not None:
        outcome, error = stopped, stop_reason
    usage = reading.usage
    return Record(
        index=request.index,
        outcome=outcome,
        scheduled_at_ns=scheduled_at_ns,
        sent_at_ns=exchange.sent_at_ns,
        first_byte_at_ns=exchange.first_byte_at_ns,
        first_token_at_ns=reading.first_token_at_ns,
        last_token_at_ns=reading.last_token_at_ns,
        closed_at_ns=exchange.closed_at_ns,
        chunk_at_ns=reading.chunk_at_ns,
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        cached_tokens=usage.cached_tokens if usage else None,
        tokens_from="server" if usage else None,
        finish_reason=reading.finish_reason,
        status=exchange.status,
        error=withhold(error, request.prompt) if error else None,
    )


def refused(request: PlannedRequest, scheduled_at_ns: int, reason: str) -> Record:
    """The record of a request for which no connection could be had."""
    return Record(
        index=request.index,
        outcome=Outcome.REFUSED,
        scheduled_at_ns=scheduled_at_ns,
        closed_at_ns=monotonic_ns(),
        error=reason,
    )


def _judge(exchange: Exchange) -> tuple[StreamReading, Outcome, str | None]:
    nothing = StreamReading()
    if exchange.unreadable is not None:
        return nothing, Outcome.HTTP_ERROR, exchange.unreadable
    if exchange.status is None:
        return nothing, Outcome.CUT, "the connection ended before an answer"
    if exchange.status != _OK:
        body = b"".join(piece for _, piece in exchange.body)[:_ERROR_BODY_BYTES]
        said = f"an error compressed with {exchange.encoding}" if exchange.encoding else read_body(body).error
        return nothing, Outcome.HTTP_ERROR, said or "an error without a message"
    fault = _no_stream(exchange)
    if fault is not None:
        return nothing, Outcome.STREAM_ERROR, fault
    return _judge_stream(exchange, read_stream(exchange.body))


def _no_stream(exchange: Exchange) -> str | None:
    """Why an answer with the right status is not a stream of events; None for one that may be."""
    if exchange.too_long:
        return f"an answer of more than {_ANSWER_BYTES >> 20} MiB"
    if exchange.encoding is not None:
        return f"the answer is compressed with {exchange.encoding}, which was not asked for"
    if exchange.body and exchange.body[0][1].lstrip().startswith(b"{"):
        # A stream of events never begins with a brace: the server answered in one piece.
        error = read_body(b"".join(piece for _, piece in exchange.body)).error
        return error or "answered in one piece, so there is no time to first token"
    return None


def _judge_stream(exchange: Exchange, reading: StreamReading) -> tuple[StreamReading, Outcome, str | None]:
    outcome = reading.outcome
    if outcome is Outcome.STREAM_ERROR:
        return reading, outcome, reading.error or f"finish_reason {reading.finish_reason}"
    if outcome is Outcome.CUT:
        return reading, outcome, "the stream ended without a finish_reason"
    if not (exchange.complete or reading.saw_done):
        return reading, Outcome.CUT, "the connection broke before the end of the stream"
    return reading, outcome, None
