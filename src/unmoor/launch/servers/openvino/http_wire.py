"""HTTP/1.1 as a small server needs it, over asyncio streams: requests in, JSON or server-sent events out."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import Any

MAX_HEAD_BYTES = 32 * 1024
MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_LENGTH_DIGITS = 18
INTERNAL = 500
IDLE_S = 75.0
BODY_S = 60.0
LINGER_S = 2.0
LINGER_BYTES = 4 * MAX_BODY_BYTES

# Twice, these would say two things about where a request ends or whom it is for.
ONCE = {"content-length", "transfer-encoding", "host"}

REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 408: "Request Timeout",
    411: "Length Required", 413: "Content Too Large", 431: "Request Header Fields Too Large",
    500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


class Refusal(Exception):  # noqa: N818 - an answer to a client, not a fault of ours
    """A request that is answered with an error. `param` names the field at fault."""

    def __init__(self, status: int, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param

    def body(self) -> dict[str, Any]:
        """The error in OpenAI's shape."""
        kind = "BadRequestError" if self.status < INTERNAL else "InternalServerError"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.status}}


@dataclass(frozen=True, slots=True)
class Incoming:
    """One request. `path` is without its query; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    chunks: bool = True

    @property
    def keep_alive(self) -> bool:
        """Whether the connection stays open after the answer."""
        return "close" not in _words(self.headers.get("connection", ""))


class Reader(asyncio.StreamReader):
    """A reader that knows at once that its client will send no more, whatever is still unread.

    A client that only ends its sending looks the same as one that has left, and is taken for one, as servers do.
    """

    ended = False

    def feed_eof(self) -> None:
        """Called by asyncio at the end of what the client sends."""
        self.ended = True
        super().feed_eof()


async def linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads away what a refused client still sends: closing on it would reset the connection, and lose the answer."""
    with contextlib.suppress(ConnectionError, TimeoutError):
        await writer.drain()
        writer.write_eof()
        async with asyncio.timeout(LINGER_S):
            for _ in range(LINGER_BYTES // MAX_HEAD_BYTES):
                if not await reader.read(MAX_HEAD_BYTES):
                    return


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Incoming | None:
    """The next request of a connection; None when the client has closed it, or was silent for `IDLE_S`.

    Raises Refusal for one that cannot be read; the connection is then of no more use.
    """
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), IDLE_S)
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
        return None
    except asyncio.LimitOverrunError:
        raise Refusal(431, f"more than {MAX_HEAD_BYTES} bytes of headers") from None
    method, path, headers, version = _parse_head(head)
    if "transfer-encoding" in headers:
        raise Refusal(411, "send the body with a Content-Length")
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit():
        raise Refusal(400, "Content-Length is not a number")
    if len(length) > MAX_LENGTH_DIGITS or int(length) > MAX_BODY_BYTES:
        raise Refusal(413, f"the body has more than {MAX_BODY_BYTES} bytes")
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        body = await asyncio.wait_for(reader.readexactly(int(length)), BODY_S)
    except TimeoutError:
        raise Refusal(408, f"the body did not come within {BODY_S:.0f} s") from None
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return Incoming(method, path, headers, body, chunks=version != "HTTP/1.0")


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str], str]:
    first, *rest = head.decode("latin-1").split("\r\n")
    method, _, rest_of_line = first.partition(" ")
    target, _, version = rest_of_line.partition(" ")
    if not method or not target.startswith("/") or version not in {"HTTP/1.0", "HTTP/1.1"}:
        raise Refusal(400, "not an HTTP/1 request")
    headers: dict[str, str] = {}
    for line in filter(None, rest):
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise Refusal(400, "a header line that cannot be read")
        if name.lower() in ONCE and name.lower() in headers:
            raise Refusal(400, f"more than one {name.title()}")
        known = headers.get(name.lower())
        headers[name.lower()] = value.strip() if known is None else f"{known}, {value.strip()}"
    if version == "HTTP/1.0" and "keep-alive" not in _words(headers.get("connection", "")):
        headers["connection"] = "close"
    return method, target.partition("?")[0], headers, version


def _words(value: str) -> set[str]:
    return {word.strip().lower() for word in value.split(",")}


def answer(
    writer: asyncio.StreamWriter, status: int, body: bytes, *, kind: str, keep_alive: bool, head_only: bool = False
) -> None:
    """Writes a whole answer, or (to HEAD) only what stands before its body."""
    lines = (
        f"HTTP/1.1 {status} {REASONS[status]}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
    )
    writer.write("\r\n".join((*lines, "", "")).encode() + (b"" if head_only else body))


def answer_json(
    writer: asyncio.StreamWriter, status: int, value: Any, *, keep_alive: bool, head_only: bool = False
) -> None:
    """Writes a whole answer as JSON."""
    body = json.dumps(value).encode()
    answer(writer, status, body, kind="application/json", keep_alive=keep_alive, head_only=head_only)


class EventStream:
    """Server-sent events, each written the moment it is there: in a chunk of its own, or (HTTP/1.0) as it is."""

    def __init__(self, writer: asyncio.StreamWriter, *, keep_alive: bool, chunks: bool = True) -> None:
        self._writer = writer
        self._chunks = chunks
        coding = "Transfer-Encoding: chunked\r\n" if chunks else ""
        connection = "keep-alive" if keep_alive else "close"
        self._head = (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
            f"{coding}Connection: {connection}\r\n\r\n"
        ).encode()

    async def send(self, value: Any) -> None:
        """Writes one event; waits only while a slow client leaves too much unread."""
        self._write(f"data: {json.dumps(value)}\n\n".encode())
        await self._writer.drain()

    async def close(self) -> None:
        """Ends the stream as OpenAI's do."""
        self._write(b"data: [DONE]\n\n")
        if self._chunks:
            self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def _write(self, event: bytes) -> None:
        head, self._head = self._head, b""
        self._writer.write(head + (f"{len(event):x}\r\n".encode() + event + b"\r\n" if self._chunks else event))
