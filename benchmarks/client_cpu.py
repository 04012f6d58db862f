"""CPU that a load generator needs per chunk: `replay()` beside the client loops that benchmarks are usually made of.

    pip install unmoor httpx aiohttp
    python benchmarks/client_cpu.py [--rounds 5] [--json]

All clients ask the same fake engine for the same streams and note the same things: the time of every chunk with
content, the usage block and the finish_reason; but the bare epoll loop, which only reads and stamps. Each measurement
is a process of its own that has warmed up first; what is counted is its CPU time, user and system, over the load alone.
Rounds alternate and each gives one ratio, so that a noisy machine blurs the spread, not the comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import re
import select
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from unmoor.core.record import Record
from unmoor.engines.wire import chat_body
from unmoor.measure.address import address_of, request_bytes
from unmoor.measure.arrival_clock import ArrivalClock
from unmoor.measure.replay import PlannedRequest, Target, replay
from unmoor.measure.wire_loop import CONNECT_AHEAD_NS, WireLoop

Load = Callable[[str, int, float], int]
"""Sends so many requests, so many seconds apart, to a URL; gives the chunks with content that came back."""

_CONTENT = re.compile(rb'"content":"[^"]')
PROMPT = "word " * 200
SHAPES: dict[str, tuple[int, float, dict[str, float]]] = {
    # name: (requests, seconds between them, script of the answer)
    "32 streams of 128 chunks, 20 ms apart": (32, 0.0, {"ttft_s": 0.1, "gap_s": 0.02, "tokens": 128}),
    "200 answers of 4 chunks, 100 a second": (200, 0.01, {"ttft_s": 0.02, "gap_s": 0.01, "tokens": 4}),
}


def with_replay(url: str, requests: int, gap_s: float) -> int:
    """Ours."""
    records: list[Record] = []
    planned = [PlannedRequest(index=i, due_s=i * gap_s, prompt=PROMPT, max_tokens=128) for i in range(requests)]
    replay(Target(url=url, served_name="fake"), planned, sink=records.append, timeout_s=60.0)
    return sum(len(record.chunk_at_ns) for record in records)


def with_user_stamps(url: str, requests: int, gap_s: float) -> int:
    """Ours without the kernel's stamps, as it is where there are none."""
    target = Target(url=url, served_name="fake")
    address = address_of(target)
    planned = [PlannedRequest(index=i, due_s=i * gap_s, prompt=PROMPT, max_tokens=128) for i in range(requests)]
    wires = [(request, request_bytes(target, address, request)) for request in planned]
    records: list[Record] = []
    clock = ArrivalClock(kernel=False)
    WireLoop(address, wires, note=records.append, pulse=lambda: None, clock=clock, timeout_s=60.0).run(
        time.monotonic_ns() + CONNECT_AHEAD_NS
    )
    return sum(len(record.chunk_at_ns) for record in records)


def with_bare_epoll(url: str, requests: int, gap_s: float) -> int:
    """The least that can be done in Python: wait, read, take the time. Nothing is understood, nothing can go wrong."""
    host, _, port = url.removeprefix("http://").partition(":")
    body = chat_body("fake", PROMPT, 128)
    wire = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    epoll, open_sockets, idle = select.epoll(), dict[int, socket.socket](), list[socket.socket]()
    read: list[tuple[int, bytes]] = []
    start_s, sent, ended = time.perf_counter(), 0, 0
    while ended < requests:
        while sent < requests and start_s + sent * gap_s <= time.perf_counter():
            if not idle:
                idle.append(socket.create_connection((host, int(port))))
                open_sockets[idle[-1].fileno()] = idle[-1]
                epoll.register(idle[-1], select.EPOLLIN)
            idle.pop().sendall(wire)
            sent += 1
        wait_s = start_s + sent * gap_s - time.perf_counter() if sent < requests else 1.0
        for descriptor, _ in epoll.poll(max(0.0, wait_s)):
            data = open_sockets[descriptor].recv(1 << 16)
            read.append((time.monotonic_ns(), data))
            if data.endswith(b"0\r\n\r\n"):
                ended += 1
                idle.append(open_sockets[descriptor])
    for connection in open_sockets.values():
        connection.close()
    return sum(len(_CONTENT.findall(data)) for _, data in read)


def with_httpx(url: str, requests: int, gap_s: float) -> int:
    """A line loop over httpx, one shared client without limits."""
    httpx = importlib.import_module("httpx")

    async def lines(client: Any) -> AsyncIterator[str]:  # noqa: ANN401 - a package that is not a dependency
        headers = {"Content-Type": "application/json"}
        async with client.stream(
            "POST", f"{url}/v1/chat/completions", content=chat_body("fake", PROMPT, 128), headers=headers
        ) as answer:
            async for line in answer.aiter_lines():
                yield line

    async def run() -> int:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(timeout=60.0, limits=limits, trust_env=False) as client:
            return await _all(lambda: _read(lines(client)), requests, gap_s)

    return asyncio.run(run())


def with_aiohttp(url: str, requests: int, gap_s: float) -> int:
    """A line loop over aiohttp, one shared session without limits."""
    aiohttp = importlib.import_module("aiohttp")

    async def lines(session: Any) -> AsyncIterator[str]:  # noqa: ANN401 - a package that is not a dependency
        headers = {"Content-Type": "application/json"}
        async with session.post(
            f"{url}/v1/chat/completions", data=chat_body("fake", PROMPT, 128), headers=headers
        ) as answer:
            async for line in answer.content:
                yield line.decode().rstrip()

    async def run() -> int:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            return await _all(lambda: _read(lines(session)), requests, gap_s)

    return asyncio.run(run())


async def _all(one: Callable[[], Awaitable[int]], requests: int, gap_s: float) -> int:
    start_s = time.perf_counter()

    async def at(index: int) -> int:
        await asyncio.sleep(max(0.0, start_s + index * gap_s - time.perf_counter()))
        return await one()

    return sum(await asyncio.gather(*(at(index) for index in range(requests))))


async def _read(lines: AsyncIterator[str]) -> int:
    times: list[float] = []
    async for line in lines:
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        now_s = time.perf_counter()
        chunk = json.loads(line[6:])
        chunk.get("usage")
        for choice in chunk["choices"]:
            choice.get("finish_reason")
            if choice["delta"].get("content"):
                times.append(now_s)
    return len(times)


def cpu_us_per_chunk(load: Load, url: str, requests: int, gap_s: float, tokens: int) -> float:
    """Process CPU per chunk, in microseconds. Raises RuntimeError when chunks are missing."""
    before_s = time.process_time()
    chunks = load(url, requests, gap_s)
    spent_s = time.process_time() - before_s
    if chunks != requests * tokens:
        raise RuntimeError(f"{chunks} chunks of {requests * tokens} came back")
    return spent_s * 1e6 / chunks


def compare(shape: str, rounds: int) -> dict[str, Any]:
    """One shape, all clients, so many rounds: microseconds per chunk each, and each peer's ratio to ours by round."""
    spent: dict[str, list[float]] = {name: [] for name in CLIENTS}
    with _engine(SHAPES[shape][2]) as engine:
        for _ in range(rounds):
            for name in CLIENTS:
                argv = [sys.executable, __file__, "--client", name, "--url", engine, "--shape", shape]
                done = subprocess.run(argv, check=True, capture_output=True, text=True)  # noqa: S603 - ourselves
                spent[name].append(float(done.stdout))
    return {
        "shape": shape,
        "us_per_chunk": {name: _spread(values) for name, values in spent.items()},
        "ratio_to_replay": {
            name: _spread([peer / ours for peer, ours in zip(spent[name], spent["replay"], strict=True)])
            for name in CLIENTS
            if name != "replay"
        },
    }


@contextmanager
def _engine(script: dict[str, float]) -> Iterator[str]:
    argv = [sys.executable, "-m", "unmoor.fake.engine", "--script", json.dumps(script)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as engine:  # noqa: S603 - our own command line
        try:
            yield engine.stdout.readline().strip() if engine.stdout else ""
        finally:
            engine.terminate()


def measure(name: str, shape: str, url: str) -> float:
    """One client's CPU per chunk, in microseconds, in this process."""
    requests, gap_s, script = SHAPES[shape]
    CLIENTS[name](url, 1, 0.0)  # imports and first calls are no cost of a chunk
    return cpu_us_per_chunk(CLIENTS[name], url, requests, gap_s, int(script["tokens"]))


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def main() -> None:
    """Runs every shape and prints a table, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    for internal in ("--client", "--url", "--shape"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.client:
        print(measure(chosen.client, chosen.shape, chosen.url))
        return
    results = [compare(shape, chosen.rounds) for shape in SHAPES]
    if chosen.json:
        print(json.dumps(results, indent=2))
        return
    for result in results:
        print(f"\n{result['shape']}, {chosen.rounds} rounds")
        for name, spread in result["us_per_chunk"].items():
            print(
                f"  {name:20} {spread['median']:6.1f} µs per chunk ({spread['min']:.1f} to {spread['max']:.1f})", end=""
            )
            ratio = result["ratio_to_replay"].get(name)
            print(f"   {ratio['median']:.1f} x ({ratio['min']:.1f} to {ratio['max']:.1f})" if ratio else "")


CLIENTS: dict[str, Load] = {
    "replay": with_replay,
    "replay, user stamps": with_user_stamps,
    "bare epoll": with_bare_epoll,
    "httpx": with_httpx,
    "aiohttp": with_aiohttp,
}


if __name__ == "__main__":
    main()
