"""The scripted server: plays one case on a real socket of 127.0.0.1, and keeps when each thing went out."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from types import TracebackType
from typing import Self, cast

import httptools
import msgspec

from unmoor.fake.conformance.answers import MODEL, Answer, Event, error_body
from unmoor.fake.conformance.cases import Case

_HOST = "127.0.0.1"
_OK, _NOT_FOUND = 200, 404
_PATHS = {b"/v1/chat/completions": "chat", b"/v1/completions": "completions"}
_PIECE_GAP_S = 0.002


class Played(msgspec.Struct, kw_only=True):
    """One request as the server saw it, in seconds of its monotonic clock; None for what did not go out.

    `other` says that it got the case's other answer. `ended_at_s` is when the last byte of the answer went out.
    """

    received_at_s: float
    other: bool
    first_token_at_s: float | None = None
    last_token_at_s: float | None = None
    ended_at_s: float | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Ask(msgspec.Struct):
    stream_options: _StreamOptions | None = None


class CaseServer:
    """A server that plays `case` as long as its `with` block lasts. `played` holds every request, in order."""

    def __init__(self, case: Case) -> None:
        self.played: list[Played] = []
        self.elsewhere = 0
        self._case = case
        self._free_at_s = 0.0
        self._socket = socket.create_server((_HOST, 0), backlog=1024)
        self._loop = asyncio.new_event_loop()
        self._leaving = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="unmoor-conformance", daemon=True)
        self.connections: set[_Connection] = set()

    @property
    def url(self) -> str:
        """Where it answers, without `/v1`."""
        return f"http://{_HOST}:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._leaving.set)
        self._thread.join()
        self._loop.close()
        self._socket.close()

    def answer(self, path: bytes) -> tuple[Answer, Played, float] | None:
        """The next answer, its entry in `played`, and the moment from which its times count; None for another path."""
        if _PATHS.get(path) != self._case.endpoint:
            self.elsewhere += path in _PATHS
            return None
        now_s = self._loop.time()
        other = self._case.other if len(self.played) % 2 else None
        played = Played(received_at_s=now_s, other=other is not None)
        self.played.append(played)
        start_s = max(now_s, self._free_at_s)
        self._free_at_s = start_s + self._case.serial_s
        return other or self._case.good, played, start_s

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._live())

    async def _live(self) -> None:
        server = await self._loop.create_server(lambda: _Connection(self), sock=self._socket)
        await self._leaving.wait()
        server.close()
        for connection in list(self.connections):
            connection.drop()
        answers = asyncio.all_tasks() - {asyncio.current_task()}
        for answer in answers:
            answer.cancel()
        await asyncio.gather(*answers, return_exceptions=True)


class _Connection(asyncio.Protocol):
    """One connection of a client. Requests are answered one after the other."""

    def __init__(self, server: CaseServer) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._body = b""
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def drop(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Called by asyncio; a client that leaves ends its answer."""
        self._server.connections.discard(self)
        self._transport = None
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.drop()

    def on_url(self, url: bytes) -> None:
        """Called by the parser."""
        self._path += url

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._body += body

    def on_message_complete(self) -> None:
        """Called by the parser when a request is read."""
        path, body = self._path.partition(b"?")[0], self._body
        self._path = self._body = b""
        found = self._server.answer(path)
        if found is not None:
            answer, played, start_s = found
            play = self._play(answer, played, start_s, usage=_asks_for_usage(body))
            self._task = asyncio.get_running_loop().create_task(play)
        elif path in {b"/v1/models", b"/models"}:
            listed = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": MODEL}]}
            self._whole(_OK, msgspec.json.encode(listed))
        elif path == b"/health":
            self._whole(_OK, b"")
        else:
            self._whole(_NOT_FOUND, error_body("this case is not played here", _NOT_FOUND))

    async def _play(self, answer: Answer, played: Played, start_s: float, *, usage: bool) -> None:
        loop = asyncio.get_running_loop()
        if answer.status != _OK:
            await _until(start_s + answer.events[0].at_s)
            self._whole(answer.status, answer.events[0].content, answer.headers)
            return
        self._write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        last_token_s = answer.last_token_s
        for event in answer.events:
            if event.usage and not usage:
                continue
            await _until(start_s + event.at_s)
            await self._send(event, answer.cuts)
            if event.token:
                played.first_token_at_s = played.first_token_at_s or loop.time()
            if event.token and event.at_s == last_token_s:
                played.last_token_at_s = loop.time()
        if answer.ending == "cut":
            self._write(b"ff\r\ndata: {")
            await asyncio.sleep(0)
            self._reset()
        else:
            self._write(b"0\r\n\r\n")
        played.ended_at_s = loop.time()

    async def _send(self, event: Event, cuts: tuple[int, ...]) -> None:
        """Writes an event, each of its pieces as an HTTP chunk of its own."""
        content = event.content
        ends = [*sorted({cut % len(content) for cut in cuts if abs(cut) < len(content)}), len(content)]
        start = 0
        for end in ends:
            if start:
                await asyncio.sleep(_PIECE_GAP_S)
            self._write(f"{end - start:x}\r\n".encode() + content[start:end] + b"\r\n")
            start = end

    def _whole(self, status: int, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> None:
        head = f"HTTP/1.1 {status} Scripted\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers)
        self._write(head.encode() + b"\r\n" + body)

    def _write(self, content: bytes) -> None:
        if self._transport is not None:
            self._transport.write(content)

    def _reset(self) -> None:
        """Breaks the connection as a dying process does: with a TCP reset, which may overtake nothing that was sent."""
        if self._transport is not None:
            connection = self._transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()


def _asks_for_usage(body: bytes) -> bool:
    try:
        options = msgspec.json.decode(body, type=_Ask).stream_options
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return options is not None and bool(options.include_usage)


async def _until(at_s: float) -> None:
    """Waits for a moment of the loop's clock; never returns before it."""
    await asyncio.sleep(max(0.0, at_s - asyncio.get_running_loop().time()))
