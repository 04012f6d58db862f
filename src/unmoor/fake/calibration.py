"""The calibration server: streams at an exact pace for less CPU than any client needs to read them, and says how exact.

    python -m unmoor.fake.calibration --answer '{"chunks": 128, "gap_s": 0.02}'

It prints its URL, answers both streaming endpoints of the OpenAI-compatible API with the same bytes whatever is asked,
and ends when its standard input does. A line there, an `Answer` as JSON or an empty one, is what requests get from then
on; for each line it prints a `Kept`: how well it kept its own pace since the line before.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import select
import selectors
import socket
import struct
import sys
import time
from array import array
from contextlib import suppress
from heapq import heapify, heappop, heappush, heapreplace
from time import monotonic_ns, time_ns

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.core.calibration import Answer, Kept
from unmoor.core.errors import UnmoorError, UsageError, WorldError
from unmoor.fake.calibration_answer import Wire, models, wire_of

_HOST = "127.0.0.1"
_SO_TIMESTAMPNS = 35
"""Linux, asm-generic/socket.h: the kernel's time of arrival, which comes with each read."""
_TIMESPEC = struct.Struct("@ll")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_READ_BYTES = 1 << 18
_MOST_REQUEST_BYTES = 64 << 20
_ACCEPTS = 64
_SENDS = 128
"""Chunks sent in one turn, before requests are looked for again."""
_BACKLOG = 4096
_MOST_WAITED_NS = 60_000_000_000
"""A wait longer than this is a wall clock that was set."""


class _Stream:
    """A connection and the answer that is under way on it, if one is."""

    __slots__ = ("gap_ns", "gone", "got", "left", "needed", "sent_at_ns", "socket", "unsent", "wire", "writes")

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.got = b""
        self.needed = 0
        self.wire: Wire | None = None
        self.writes = 0
        self.left = 0
        self.gap_ns = 0
        self.sent_at_ns = 0
        self.unsent = b""
        self.gone = False


class CalibrationServer:
    """One loop that reads requests to their end, no further, and sends chunks when they are due."""

    def __init__(self, answer: Answer, *, port: int = 0) -> None:
        """Raises WorldError for a port that cannot be had."""
        self._selector = selectors.DefaultSelector()
        self._listener = _listen(port)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._due: list[tuple[int, int, _Stream]] = []
        self._number = 0  # of what was put in _due: two of one moment are sent in that order
        self._connections = 0
        self._control = b""
        self._asked = 0
        self._asked_at_ns = (0, 0)
        self._begin(answer)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{_HOST}:{self._listener.getsockname()[1]}"

    def serve(self, orders: int, told: int) -> None:
        """Answers until the descriptor `orders` ends. Each line there is answered by one on `told`."""
        os.set_blocking(orders, False)
        ended = False

        def obey() -> None:
            nonlocal ended
            ended = not self._obey(orders, told)

        try:
            self._selector.register(orders, selectors.EVENT_READ, obey)
        except OSError:
            raise UsageError(
                "the calibration server ends with its standard input, which cannot be waited for",
                where="standard input",
                expected="a pipe or a terminal",
                hint="start it from a terminal, or with a pipe that stays open",
            ) from None
        while not ended:
            self._turn()

    def _turn(self) -> None:
        wait_ns = self._due[0][0] - monotonic_ns() if self._due else None
        if wait_ns is None or wait_ns > 0:
            # Not by the selector, which counts in milliseconds.
            select.select([self._selector], [], [], None if wait_ns is None else wait_ns / 1e9)
        for key, events in self._selector.select(0):
            if isinstance(key.data, _Stream):
                self._serve(key.data, events)
            else:
                key.data()
        self._send_due()

    # What is sent

    def _send_due(self) -> None:
        due, late_ns, gaps_ns = self._due, self._late_ns, self._gaps_ns
        now_ns = monotonic_ns()
        for _ in range(_SENDS):
            if not due or due[0][0] > now_ns:
                return
            at_ns, number, stream = due[0]
            wire = stream.wire
            if stream.gone or wire is None:
                heappop(due)
                continue
            first = stream.left == stream.writes
            stream.left -= 1
            now_ns = monotonic_ns()
            late_ns.append(now_ns - at_ns)
            if not first:
                gaps_ns.append(now_ns - stream.sent_at_ns)
            stream.sent_at_ns = now_ns
            if stream.left:
                heapreplace(due, (at_ns + stream.gap_ns, number, stream))
                self._send(stream, wire.first if first else wire.middle)
                self._chunks += 1
            else:
                heappop(due)
                self._send(stream, wire.last)
                self._chunks += wire.chunks_in_last
                stream.wire = None
                if stream.got:
                    self._read_on(stream, now_ns)

    def _send(self, stream: _Stream, wire: bytes) -> None:
        if stream.unsent:
            self._blocked += 1
            stream.unsent += wire
            return
        try:
            taken = stream.socket.send(wire)
        except BlockingIOError:
            taken = 0
        except OSError:
            self._drop(stream)
            return
        if taken < len(wire):
            self._blocked += 1
            stream.unsent = wire[taken:]
            self._selector.modify(stream.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, stream)

    def _send_on(self, stream: _Stream) -> None:
        try:
            stream.unsent = stream.unsent[stream.socket.send(stream.unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self._drop(stream)
            return
        if not stream.unsent:
            self._selector.modify(stream.socket, selectors.EVENT_READ, stream)

    # What comes

    def _accept(self) -> None:
        for _ in range(_ACCEPTS):
            try:
                connection, _address = self._listener.accept()
            except OSError:  # none left, or no descriptor for one
                return
            connection.setblocking(False)  # noqa: FBT003 - the socket's own signature
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if sys.platform == "linux":
                connection.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            self._selector.register(connection, selectors.EVENT_READ, _Stream(connection))
            self._connections += 1

    def _serve(self, stream: _Stream, events: int) -> None:
        if events & selectors.EVENT_WRITE and stream.unsent:
            self._send_on(stream)
        if not events & selectors.EVENT_READ or stream.gone:
            return
        try:
            data, stamps, _, _ = stream.socket.recvmsg(_READ_BYTES, _ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data, stamps = b"", []
        if not data or len(stream.got) > _MOST_REQUEST_BYTES:
            self._drop(stream)
            return
        stream.got += data
        if stream.wire is None and len(stream.got) >= stream.needed:
            self._read_on(stream, monotonic_ns() - _waited_ns(stamps))

    def _read_on(self, stream: _Stream, at_ns: int) -> None:
        """Begins the answer to a request that is there whole; `at_ns` is when its last bytes were."""
        head_end = stream.got.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = stream.got[:head_end]
        stream.needed = head_end + 4 + _content_length(head)
        if len(stream.got) < stream.needed:
            return
        stream.got, stream.needed = stream.got[stream.needed :], 0
        path = head.split(b" ", 2)[1] if head.count(b" ") > 1 else b""
        if not path.endswith(b"/completions"):
            self._send(stream, _aside(path))
            return
        stream.wire = self._wires[path.endswith(b"/chat/completions")]
        stream.writes = stream.left = self._answer.writes
        stream.gap_ns = round(self._answer.gap_s * 1e9)
        self._asked_at_ns = (self._asked_at_ns[0] or at_ns, at_ns)
        self._asked += 1
        self._number += 1
        heappush(self._due, (at_ns + round(self._answer.first_s * 1e9), self._number, stream))

    def _drop(self, stream: _Stream) -> None:
        if stream.gone:
            return
        stream.gone = True
        self._cut += stream.wire is not None
        self._connections -= 1
        self._selector.unregister(stream.socket)
        stream.socket.close()

    # What is told

    def _obey(self, orders: int, told: int) -> bool:
        """Reads what was ordered; False when nothing more will be."""
        try:
            data = os.read(orders, 1 << 16)
        except BlockingIOError:
            return True
        *lines, self._control = (self._control + data).split(b"\n")
        try:
            for line in lines:
                os.write(told, self._told(line) + b"\n")
        except OSError:
            return False
        return bool(data)

    def _told(self, line: bytes) -> bytes:
        try:
            answer = msgspec.json.decode(line, type=Answer) if line.strip() else self._answer
        except (msgspec.MsgspecError, ValueError) as error:
            return msgspec.json.encode({"error": str(error)})
        kept = self._kept()
        self._begin(answer)
        return msgspec.json.encode(kept)

    def _begin(self, answer: Answer) -> None:
        self._answer = answer
        self._wires = [wire_of(answer, chat=False), wire_of(answer, chat=True)]
        self._late_ns: array[int] = array("q")
        self._gaps_ns: array[int] = array("q")
        self._asked_at_ns = (0, 0)
        self._asked = self._chunks = self._blocked = self._cut = 0
        self._due = [due for due in self._due if not due[2].gone]
        heapify(self._due)
        self._began = (monotonic_ns(), time.process_time())

    def _kept(self) -> Kept:
        late_s, gaps_s = (np.array(values, dtype=np.float64) / 1e9 for values in (self._late_ns, self._gaps_ns))
        began_ns, cpu_s = self._began
        asked_ns = self._asked_at_ns[1] - self._asked_at_ns[0]
        return Kept(
            requests=self._asked,
            request_rps=(self._asked - 1) * 1e9 / asked_ns if asked_ns > 0 else None,
            chunks=self._chunks,
            writes=len(late_s),
            late_p50_s=_quantile(late_s, 0.5),
            late_p99_s=_quantile(late_s, 0.99),
            late_max_s=_quantile(late_s, 1.0),
            gap_p50_s=_quantile(gaps_s, 0.5),
            gap_p99_s=_quantile(gaps_s, 0.99),
            gap_max_s=_quantile(gaps_s, 1.0),
            blocked=self._blocked,
            cut=self._cut,
            open_connections=self._connections,
            cpu_s=time.process_time() - cpu_s,
            wall_s=(monotonic_ns() - began_ns) / 1e9,
        )


def _waited_ns(stamps: list[tuple[int, int, bytes]]) -> int:
    """How long ago the kernel had what was read, by its stamp; 0 where there is none to believe.

    Both readings are of the wall clock, so that its distance from the monotonic one does not matter.
    """
    for level, kind, stamp in stamps:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(stamp) == _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack(stamp)
            waited_ns: int = time_ns() - seconds * 1_000_000_000 - nanoseconds
            return waited_ns if 0 <= waited_ns <= _MOST_WAITED_NS else 0
    return 0


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return 0


def _aside(path: bytes) -> bytes:
    """The answer to anything but a request for tokens: what models there are, or that all is well."""
    body = models() if path.endswith(b"/models") else b"{}"
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def _quantile(values: NDArray[np.float64], q: float) -> float | None:
    return float(np.quantile(values, q)) if values.size else None


def _listen(port: int) -> socket.socket:
    try:
        listener = socket.create_server((_HOST, port), backlog=_BACKLOG)
    except OSError as error:
        raise WorldError(
            "the port cannot be used",
            where=f"{_HOST}:{port}",
            seen=error.strerror or str(error),
            hint="name another with --port, or 0 for any that is free",
        ) from error
    listener.setblocking(False)  # noqa: FBT003 - the socket's own signature
    return listener


def allow_connections() -> None:
    """Raises this process's limit on open files as far as it may: a connection is one, and 1,024 is a common limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _answer(text: str) -> Answer:
    try:
        return msgspec.json.decode(text, type=Answer)
    except (msgspec.MsgspecError, ValueError) as error:
        raise UsageError(
            "no such answer",
            where="--answer",
            seen=str(error),
            expected=f"a JSON object with any of: {', '.join(Answer.__struct_fields__)}",
            hint="its fields are those of `Answer` in unmoor.core.calibration, each with a default",
        ) from error


def main(arguments: list[str] | None = None) -> int:
    """Serves until standard input ends. Returns the exit code: 2 for a bad answer, 1 for a port that is taken."""
    parser = argparse.ArgumentParser(prog="python -m unmoor.fake.calibration", description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="port of 127.0.0.1; 0, the default, takes a free one")
    parser.add_argument(
        "--answer", default="{}", help="what every request gets, as JSON (unmoor.core.calibration.Answer)"
    )
    chosen = parser.parse_args(arguments)
    try:
        allow_connections()
        server = CalibrationServer(_answer(chosen.answer), port=chosen.port)
        print(server.url, flush=True)  # noqa: T201 - the one thing that a caller waits for
        gc.freeze()
        gc.disable()  # a collection would be a pause that no schedule knows of; nothing here makes cycles
        server.serve(sys.stdin.fileno(), sys.stdout.fileno())
    except UnmoorError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this program's own edge
        return error.exit_code
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
