"""A fake OpenAI-compatible engine on a real socket of 127.0.0.1, exact to its script.

From Python it runs in a thread of its own, on a port of its own:

    with FakeEngine(Script(ttft_s=0.2, tokens=8)) as engine:
        ...  # engine.url

From a shell: `python -m unmoor.fake.engine --port 8000 --script '{"ttft_s": 0.2}'`.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, cast

import httptools
import msgspec

from unmoor.core.errors import UnmoorError, UsageError, WorldError
from unmoor.fake.frames import frames, whole_answer
from unmoor.fake.script import Ask, Script, error_body

_HOST = "127.0.0.1"
_OK, _BAD_REQUEST, _NOT_FOUND, _BROKEN = 200, 400, 404, 500
_REASONS = {_OK: "OK", _BAD_REQUEST: "Bad Request", _NOT_FOUND: "Not Found"}
_ENDPOINTS = (b"/v1/chat/completions", b"/v1/completions", b"/v1/responses")
_ASIDE_S = 0.1

Choose = Callable[[Ask], Script]


class FakeEngine:
    """A fake engine that answers as long as its `with` block lasts. `seen` holds every request body it read.

    `script` is one for all requests, or a function that picks one for each. `pages` are other paths ("/metrics") and
    what makes the body of each; None from it is a 500. Raises WorldError if the port is taken.
    """

    def __init__(
        self,
        script: Script | Choose | None = None,
        *,
        model: str = "fake",
        port: int = 0,
        pages: Mapping[str, Callable[[], bytes | None]] | None = None,
    ) -> None:
        chosen = script if script is not None else Script()
        self.seen: list[bytes] = []
        self._choose: Choose = chosen if callable(chosen) else lambda _: chosen
        self._model = model
        self._pages = {path.encode(): page for path, page in (pages or {}).items()}
        self._socket = _listen(port)
        self._loop = asyncio.new_event_loop()
        self._leaving = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="unmoor-fake-engine", daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
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

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._live())

    async def _live(self) -> None:
        connections: set[_Connection] = set()
        server = await self._loop.create_server(
            lambda: _Connection(self._choose, self._model, self.seen, connections, self._pages), sock=self._socket
        )
        await self._leaving.wait()
        server.close()
        for connection in list(connections):
            connection.drop()
        answers = asyncio.all_tasks() - {asyncio.current_task()}
        for answer in answers:
            answer.cancel()
        await asyncio.gather(*answers, return_exceptions=True)


class _Connection(asyncio.Protocol):
    """One client. Requests are answered one after the other."""

    def __init__(
        self,
        choose: Choose,
        model: str,
        seen: list[bytes],
        connections: set[_Connection],
        pages: Mapping[bytes, Callable[[], bytes | None]],
    ) -> None:
        self._pages = pages
        self._choose = choose
        self._model = model
        self._seen = seen
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._body = b""
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Task[None] | None = None

    def drop(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Called by asyncio; a client that leaves ends its answer, as in a real engine."""
        self._connections.discard(self)
        self._transport = None
        if self._answer is not None:
            self._answer.cancel()

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._whole(_BAD_REQUEST, error_body("nested", "this is not HTTP", _BAD_REQUEST))
            self._close()

    def on_url(self, url: bytes) -> None:
        """Called by the parser."""
        self._path, self._body = self._path + url, b""

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._body += body

    def on_message_complete(self) -> None:
        """Called by the parser when a request is read."""
        received_at_s = asyncio.get_running_loop().time()
        path, self._path = self._path.partition(b"?")[0], b""
        if path not in _ENDPOINTS:
            self._side_door(path)
            return
        self._seen.append(self._body)
        try:
            ask = msgspec.json.decode(self._body, type=Ask)
        except msgspec.MsgspecError as error:
            self._whole(_BAD_REQUEST, error_body("nested", str(error), _BAD_REQUEST))
            return
        self._answer = asyncio.get_running_loop().create_task(self._reply(self._choose(ask), ask, received_at_s))

    def _side_door(self, path: bytes) -> None:
        bodies = {
            b"/health": b"",
            b"/v1/models": msgspec.json.encode({"object": "list", "data": [{"id": self._model, "object": "model"}]}),
        }
        if path in self._pages:
            page = self._pages[path]()
            self._whole(_OK if page is not None else _BROKEN, page or b"")
        elif path in bodies:
            self._whole(_OK, bodies[path])
        else:
            self._whole(_NOT_FOUND, error_body("detail", "Not Found", _NOT_FOUND))

    async def _reply(self, script: Script, ask: Ask, received_at_s: float) -> None:
        if script.fault == "silent":
            return
        if script.fault == "closes":
            self._close()
        elif script.fault == "garbage":
            self._write(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        elif script.fault == "slow_head":
            await self._drip(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 4096)
        elif script.status != _OK:
            error = error_body(script.error_shape, script.error_message, script.status)
            self._whole(script.status, error, retry_after_s=script.retry_after_s)
        elif not ask.stream or script.fault == "one_piece":
            await _until(received_at_s + script.ttft_s)
            self._whole(_OK, whole_answer(script, ask))
        else:
            await self._stream(script, ask, received_at_s)

    async def _stream(self, script: Script, ask: Ask, received_at_s: float) -> None:
        if script.http_1_0:
            self._write(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        else:
            self._write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at_s, frame in frames(script, ask):
            await _until(received_at_s + at_s)
            self._write(frame if script.http_1_0 else f"{len(frame):x}\r\n".encode() + frame + b"\r\n")
        if script.fault == "cut":
            await _until(asyncio.get_running_loop().time() + script.gap_s)
            self._reset()
        elif script.http_1_0:
            self._close()
        else:
            self._write(b"0\r\n\r\n")

    async def _drip(self, head: bytes) -> None:
        for byte in head:
            self._write(bytes([byte]))
            await asyncio.sleep(_ASIDE_S)

    def _whole(self, status: int, body: bytes, *, retry_after_s: int | None = None) -> None:
        wait = "" if retry_after_s is None else f"Retry-After: {retry_after_s}\r\n"
        head = f"HTTP/1.1 {status} {_REASONS.get(status, 'Scripted')}\r\nContent-Type: application/json\r\n{wait}"
        self._write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def _write(self, content: bytes) -> None:
        if self._transport is not None:
            self._transport.write(content)

    def _reset(self) -> None:
        """Breaks the connection as a dying process or a proxy does: with a TCP reset."""
        if self._transport is not None:
            connection = self._transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def _until(at_s: float) -> None:
    """Waits for a moment of the loop's clock; never returns before it."""
    await asyncio.sleep(max(0.0, at_s - asyncio.get_running_loop().time()))


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise WorldError(
            "the port cannot be used",
            where=f"{_HOST}:{port}",
            seen=error.strerror or str(error),
            hint="name another with --port, or 0 for any that is free",
        ) from error
    return listener


def _script(text: str) -> Script:
    try:
        return msgspec.json.decode(text, type=Script)
    except msgspec.MsgspecError as error:
        raise UsageError(
            "the script cannot be used",
            where="--script",
            seen=str(error),
            expected=f"a JSON object with any of: {', '.join(Script.__struct_fields__)}",
            hint="its fields are those of `Script` in unmoor.fake.script, each with a default",
        ) from error


def main(arguments: list[str] | None = None) -> int:
    """Serves until Ctrl-C. Returns the exit code: 2 for a bad script, 1 for a port that is taken."""
    parser = argparse.ArgumentParser(prog="python -m unmoor.fake.engine", description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="port of 127.0.0.1; 0, the default, takes a free one")
    parser.add_argument("--model", default="fake", help="the model's name at /v1/models")
    parser.add_argument(
        "--script",
        default="{}",
        help='what every answer does, as JSON: {"ttft_s": 0.2, "gap_s": 0.02, "tokens": 64}; all in unmoor.fake.script',
    )
    chosen = parser.parse_args(arguments)
    try:
        with FakeEngine(_script(chosen.script), model=chosen.model, port=chosen.port) as engine:
            print(engine.url, flush=True)  # noqa: T201 - the one thing that a caller waits for
            threading.Event().wait()
    except UnmoorError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this program's own edge
        return error.exit_code
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
