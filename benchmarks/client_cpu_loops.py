"""Our client, with the kernel's time stamps and without, and the least that a Python loop can do, as loads."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence

import msgspec

from unmoor.core.record import Record, send_lag_s
from unmoor.core.stats import quantile
from unmoor.engines.wire import chat_body
from unmoor.measure.client.address import address_of, request_bytes
from unmoor.measure.client.arrival_clock import ArrivalClock
from unmoor.measure.client.load import PlannedRequest, Target
from unmoor.measure.client.replay import replay
from unmoor.measure.client.wire_loop import CONNECT_AHEAD_NS, WireLoop
from unmoor.measure.headroom.calibration_server import MODEL

PROMPT = "word " * 20


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a load of ours saw: its chunks, and its own error in seconds. `answers` came whole."""

    answers: int
    chunks: int
    send_lag_p99_s: float | None = None
    receive_lag_p99_s: float | None = None
    achieved_rps: float | None = None
    offered_rps: float | None = None


def with_replay(url: str, requests: int, rate_rps: float) -> Seen:
    """Ours, as `unmoor load` runs it."""
    answers, chunks = 0, 0

    def sink(record: Record) -> None:
        nonlocal answers, chunks
        answers += record.ok
        chunks += len(record.chunk_at_ns)

    report = replay(Target(url=url, served_name=MODEL), _plan(requests, rate_rps), sink=sink, timeout_s=120.0)
    return Seen(
        answers=answers,
        chunks=chunks,
        send_lag_p99_s=report.send_lag_p99_s,
        receive_lag_p99_s=report.receive_lag_p99_s,
        achieved_rps=report.achieved_rps,
        offered_rps=report.offered_rps,
    )


def with_user_stamps(url: str, requests: int, rate_rps: float) -> Seen:
    """Ours without the kernel's stamps, as it is where there are none."""
    target = Target(url=url, served_name=MODEL)
    address = address_of(target)
    wires = [(request, request_bytes(target, address, request)) for request in _plan(requests, rate_rps)]
    records: list[Record] = []
    clock = ArrivalClock(kernel=False)
    WireLoop(address, wires, note=records.append, pulse=lambda: None, clock=clock, timeout_s=120.0).run(
        time.monotonic_ns() + CONNECT_AHEAD_NS
    )
    return _seen(records)


def with_bare_epoll(url: str, requests: int, rate_rps: float) -> Seen:
    """The least that can be done in Python: wait, read, take the time. Nothing is understood, nothing can go wrong."""
    return _bare(url, requests, rate_rps, kernel=False)


def with_bare_kernel_stamps(url: str, requests: int, rate_rps: float) -> Seen:
    """The same with the kernel's time stamp of every read, kept as it comes."""
    return _bare(url, requests, rate_rps, kernel=True)


def _bare(url: str, requests: int, rate_rps: float, *, kernel: bool) -> Seen:
    host, _, port = url.removeprefix("http://").partition(":")
    body = chat_body(MODEL, PROMPT, 128)
    wire = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    epoll, open_sockets, idle = select.epoll(), dict[int, socket.socket](), list[socket.socket]()
    read: list[tuple[int, bytes, bytes]] = []
    start_s, sent, ended = time.perf_counter(), 0, 0
    while ended < requests:
        while sent < requests and start_s + sent / rate_rps <= time.perf_counter():
            if not idle:
                idle.append(socket.create_connection((host, int(port))))
                if kernel:
                    idle[-1].setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
                open_sockets[idle[-1].fileno()] = idle[-1]
                epoll.register(idle[-1], select.EPOLLIN)
            idle.pop().sendall(wire)
            sent += 1
        wait_s = start_s + sent / rate_rps - time.perf_counter() if sent < requests else 1.0
        for descriptor, _ in epoll.poll(max(0.0, wait_s)):
            stamp = b""
            if kernel:
                data, stamps, _, _ = open_sockets[descriptor].recvmsg(1 << 16, _STAMP_BYTES)
                stamp = stamps[0][2] if stamps else b""
            else:
                data = open_sockets[descriptor].recv(1 << 16)
            read.append((time.monotonic_ns(), data, stamp))
            if data.endswith(b"0\r\n\r\n"):
                ended += 1
                idle.append(open_sockets[descriptor])
    for connection in open_sockets.values():
        connection.close()
    return Seen(answers=ended, chunks=sum(data.count(b'" word"') for _, data, _ in read))


def _plan(requests: int, rate_rps: float) -> list[PlannedRequest]:
    return [PlannedRequest(index=i, due_s=i / rate_rps, prompt=PROMPT, max_tokens=128) for i in range(requests)]


def _seen(records: Sequence[Record]) -> Seen:
    lags = [lag for record in records if (lag := send_lag_s(record)) is not None]
    return Seen(
        answers=sum(record.ok for record in records),
        chunks=sum(len(record.chunk_at_ns) for record in records),
        send_lag_p99_s=quantile(lags, 0.99),
    )


_SO_TIMESTAMPNS = 35
"""Linux, asm-generic/socket.h; Python 3.11 has no name for it."""
_STAMP_BYTES = socket.CMSG_SPACE(16)

LOOPS = {
    "ours": with_replay,
    "ours, user stamps": with_user_stamps,
    "bare epoll": with_bare_epoll,
    "bare epoll, kernel stamps": with_bare_kernel_stamps,
}
