"""Connections that are kept, lost and restarted, bytes split anywhere, and whose clock is on what arrives."""

from __future__ import annotations

import json
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.record import Outcome, Record
from unmoor.fake.engine import FakeEngine
from unmoor.fake.script import Script
from unmoor.measure.client.arrival_clock import ArrivalClock
from unmoor.measure.client.load import PlannedRequest, ReplayReport, Target
from unmoor.measure.client.replay import replay


def plan(count: int, gap_s: float = 0.0, prompt: str = "one two three") -> list[PlannedRequest]:
    return [PlannedRequest(index=i, due_s=i * gap_s, prompt=prompt, max_tokens=4) for i in range(count)]


def play(url: str, planned: list[PlannedRequest], *, timeout_s: float = 20.0) -> tuple[list[Record], ReplayReport]:
    records: list[Record] = []
    report = replay(Target(url=url, served_name="fake"), planned, sink=records.append, timeout_s=timeout_s)
    return sorted(records, key=lambda record: record.index), report


def frame(content: object) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


EVENTS = [
    frame({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}),
    frame({"choices": [{"index": 0, "delta": {"content": "0\r\n\r\n"}, "finish_reason": None}]}),
    frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n",
]
STREAM = b"".join(EVENTS)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(map(chunk, EVENTS)) + b"0\r\n\r\n"
TRAILED = CHUNKED.removesuffix(b"\r\n") + b"X-Took: 3\r\n\r\n"
CRLF_EVENTS = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(STREAM.replace(b"\n", b"\r\n")) + b"0\r\n\r\n"
LENGTH = HEAD + b"Content-Length: %d\r\n\r\n" % len(STREAM) + STREAM

Speak = Callable[[socket.socket, int, int], None]
"""What a server does with a request: its connection, which connection that is, and which request on it."""


def read_request(connection: socket.socket) -> bool:
    """Whether a whole request came; False at the end of the connection."""
    got = b""
    while b"\r\n\r\n" not in got:
        data = connection.recv(1 << 16)
        if not data:
            return False
        got += data
    head, _, body = got.partition(b"\r\n\r\n")
    missing = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]) - len(body)
    while missing:
        missing -= len(connection.recv(min(missing, 1 << 16)))
    return True


class Server:
    """A server on a real socket, a thread for each connection; `asked` has the requests of each connection in order."""

    def __init__(self, speak: Speak) -> None:
        self.asked: list[int] = []
        self._speak = speak
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                self.asked.append(0)
                thread = threading.Thread(target=self._serve, args=(connection, len(self.asked) - 1))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, suppress(OSError):
            while read_request(connection):
                self.asked[number] += 1
                self._speak(connection, number, self.asked[number] - 1)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()


@contextmanager
def served(speak: Speak) -> Iterator[Server]:
    server = Server(speak)
    try:
        yield server
    finally:
        server.close()


@pytest.mark.parametrize(
    "answer", [CHUNKED, TRAILED, CRLF_EVENTS, LENGTH], ids=["chunked", "trailer", "crlf", "length"]
)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 64, 1 << 16])
def test_an_answer_is_the_same_however_its_bytes_are_split(answer: bytes, size: int) -> None:
    def dribble(connection: socket.socket, _number: int, _turn: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(answer), size):
            connection.sendall(answer[at : at + size])

    with served(dribble) as server:
        records, report = play(server.url, plan(3, gap_s=0.6))
    assert [(record.outcome, record.error) for record in records] == [(Outcome.OK, None)] * 3
    assert [len(record.chunk_at_ns) for record in records] == [2, 2, 2]
    assert sum(server.asked) == 3
    assert (report.failures, report.retried) == (0, 0)


def test_a_connection_is_used_again_after_a_whole_answer() -> None:
    def answer(connection: socket.socket, _number: int, _turn: int) -> None:
        connection.sendall(CHUNKED)

    with served(answer) as server:
        records, _ = play(server.url, plan(6, gap_s=0.4))
    assert [record.outcome for record in records] == [Outcome.OK] * 6
    assert sum(server.asked) == 6
    assert max(server.asked) > 1


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKED.replace(HEAD, HEAD + b"Connection: close\r\n"),
        CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"Transfer-Encoding: chunked\r\n", b"Content-Length: 0\r\n"),
        CHUNKED + CHUNKED,
        LENGTH + b"more than was asked",
    ],
    ids=["close", "http 1.0", "two answers glued", "more than its length"],
)
def test_a_connection_is_not_used_again_when_its_server_is_done_or_not_to_be_trusted(answer: bytes) -> None:
    def speak(connection: socket.socket, _number: int, _turn: int) -> None:
        connection.sendall(answer)

    with served(speak) as server:
        records, report = play(server.url, plan(4, gap_s=0.4))
    assert len(records) == 4
    assert max(server.asked) == 1
    assert report.retried == 0


def test_a_request_lost_on_a_stale_connection_is_sent_again_and_no_failure() -> None:
    def tired(connection: socket.socket, _number: int, turn: int) -> None:
        if turn:
            connection.shutdown(
                socket.SHUT_RDWR
            )  # as a server whose keep-alive ran out while the request was under way
        else:
            connection.sendall(LENGTH)

    with served(tired) as server:
        records, report = play(server.url, plan(4, gap_s=0.4))
    assert [record.outcome for record in records] == [Outcome.OK] * 4
    assert report.retried > 0
    assert [caveat.code for caveat in report.caveats] == ["sent_again"]
    assert report.failures == 0
    assert sum(server.asked) == 4 + report.retried
    assert all((record.sent_at_ns or 0) >= record.scheduled_at_ns for record in records)


def test_a_kept_connection_that_ends_long_after_the_request_is_the_engines_failure() -> None:
    def crash(connection: socket.socket, _number: int, turn: int) -> None:
        if turn:
            time.sleep(1.3)  # an engine that dies at work, not a connection that was closed before
            connection.shutdown(socket.SHUT_RDWR)
        else:
            connection.sendall(LENGTH)

    with served(crash) as server:
        records, report = play(server.url, plan(2, gap_s=0.4))
    assert [record.outcome for record in records] == [Outcome.OK, Outcome.CUT]
    assert (report.failures, report.retried) == (1, 0)


def test_a_request_is_sent_again_once_at_most() -> None:
    def tired(connection: socket.socket, number: int, turn: int) -> None:
        if number or turn:
            connection.shutdown(socket.SHUT_RDWR)
        else:
            connection.sendall(LENGTH)

    with served(tired) as server:
        records, report = play(server.url, plan(2, gap_s=0.4))
    assert [record.outcome for record in records] == [Outcome.OK, Outcome.CUT]
    assert records[1].error == "the connection ended before an answer"
    assert report.retried == 1


def test_a_server_that_restarts_is_found_again() -> None:
    with FakeEngine(Script(ttft_s=0.01, gap_s=0.01, tokens=2)) as first:
        port = int(first.url.rpartition(":")[2])
        records: list[Record] = []
        thread = threading.Thread(target=lambda: records.extend(play(first.url, plan(30, gap_s=0.1))[0]))
        thread.start()
        while len(first.seen) < 5:
            time.sleep(0.01)
    time.sleep(0.5)
    with FakeEngine(Script(ttft_s=0.01, gap_s=0.01, tokens=2), port=port) as second:
        thread.join()
        assert second.seen
    outcomes = [record.outcome for record in records]
    assert len(outcomes) == 30
    assert (outcomes[0], outcomes[-1]) == (Outcome.OK, Outcome.OK)
    assert Outcome.REFUSED in outcomes


def test_a_server_that_half_closes_after_its_answer_has_answered() -> None:
    def half(connection: socket.socket, _number: int, _turn: int) -> None:
        connection.sendall(HEAD + b"\r\n" + STREAM)
        connection.shutdown(socket.SHUT_WR)

    with served(half) as server:
        records, _ = play(server.url, plan(2, gap_s=0.3))
    assert [(record.outcome, len(record.chunk_at_ns)) for record in records] == [(Outcome.OK, 2)] * 2


def test_a_prompt_larger_than_the_socket_takes_is_sent_to_its_end() -> None:
    def slow(connection: socket.socket, _number: int, _turn: int) -> None:
        connection.sendall(LENGTH)

    with served(slow) as server:
        records, _ = play(server.url, plan(2, gap_s=0.3, prompt="word " * 4_000_000))
    assert [record.outcome for record in records] == [Outcome.OK] * 2
    assert sum(server.asked) == 2


def test_arrivals_are_stamped_in_order_and_after_the_sending() -> None:
    with FakeEngine(Script(ttft_s=0.02, gap_s=0.002, tokens=50)) as engine:
        records, report = play(engine.url, plan(20, gap_s=0.01))
    assert report.failures == 0
    for record in records:
        times = [record.sent_at_ns or 0, record.first_byte_at_ns or 0, *record.chunk_at_ns, record.closed_at_ns or 0]
        assert all(before <= after for before, after in pairwise(times))
        assert times[-1] <= report.ended_at_ns
    if report.clock == "kernel":
        assert report.receive_lag_p50_s is not None
        assert 0 <= report.receive_lag_p50_s <= (report.receive_lag_p99_s or 0) <= (report.receive_lag_max_s or 0)
    else:
        assert (report.receive_lag_p50_s, report.receive_lag_p99_s, report.receive_lag_max_s) == (None, None, None)


def stamp(wall_ns: int) -> bytes:
    return struct.pack("@ll", *divmod(wall_ns, 1_000_000_000))


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_kernel_stamp_is_on_the_monotonic_clock_and_never_after_the_read(count: int) -> None:
    clock, before_ns = ArrivalClock(), time.monotonic_ns()
    stamps = [stamp(time.time_ns()) for _ in range(count)]
    read_at_ns = time.monotonic_ns() + 1_000_000
    arrivals = clock.arrivals_ns([(read_at_ns + n, b"x", one) for n, one in enumerate(stamps)], before_ns)
    assert len(arrivals) == count
    assert arrivals == sorted(arrivals)
    assert before_ns <= arrivals[0]
    assert arrivals[-1] <= read_at_ns
    assert (len(clock.lags_ns), clock.dropped, clock.unstamped, clock.source) == (count, 0, 0, "kernel")
    assert list(clock.lags_ns) == [read_at_ns + n - at for n, at in enumerate(arrivals)]


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("step_s", [-3600, -2, 2, 3600])
def test_a_stamp_from_a_clock_that_was_set_is_dropped_and_counted(step_s: int, count: int) -> None:
    clock, before_ns = ArrivalClock(), time.monotonic_ns()
    read_at_ns = time.monotonic_ns()
    reads = [(read_at_ns, b"x", stamp(time.time_ns() + step_s * 1_000_000_000))] * count
    assert clock.arrivals_ns(reads, before_ns) == [read_at_ns] * count
    assert (len(clock.lags_ns), clock.dropped, clock.source) == (0, count, "user")


def test_a_read_without_a_stamp_has_the_readers_time() -> None:
    clock = ArrivalClock()
    assert clock.arrivals_ns([(7, b"x", b"")], 3) == [7]
    assert (clock.dropped, clock.unstamped, clock.source) == (0, 1, "user")


@given(st.lists(st.tuples(st.integers(-3, 8), st.sampled_from(["stamped", "bare", "short"])), min_size=17, max_size=40))
def test_many_reads_at_once_are_as_each_for_itself(steps: list[tuple[int, str]]) -> None:
    """Stamps that step back, lie after the read, are missing or broken: together they say what each says alone."""
    clock = ArrivalClock()
    wall_ns, reads = time.time_ns() - 1_000_000_000, []
    read_at_ns = time.monotonic_ns() - 900_000_000
    for step, kind in steps:
        wall_ns += step * 20_000_000
        read_at_ns += 20_000_000
        packed = {"stamped": stamp(wall_ns), "bare": b"", "short": stamp(wall_ns)[:8]}[kind]
        reads.append((read_at_ns, b"x", packed))
    before_ns, one_by_one = read_at_ns - 10_000_000_000, []
    for read in reads:
        (before_ns,) = clock.arrivals_ns([read], before_ns)
        one_by_one.append(before_ns)
    alone = (list(clock.lags_ns), clock.dropped, clock.unstamped)
    assert clock.arrivals_ns(reads, read_at_ns - 10_000_000_000) == one_by_one
    lags = list(clock.lags_ns)
    assert lags == alone[0] * 2
    assert (clock.dropped, clock.unstamped) == (2 * alone[1], 2 * alone[2])


def test_two_thousand_streams_at_once_all_come_whole() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 6000:
        pytest.skip(f"the limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 6000), hard))
    try:
        with FakeEngine(Script(ttft_s=3.0, gap_s=0.5, tokens=3)) as engine:
            records, report = play(engine.url, plan(2000, gap_s=0.0005), timeout_s=60.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert {record.outcome for record in records} == {Outcome.OK}
    assert [len(record.chunk_at_ns) for record in records] == [3] * 2000
    assert (report.requests, report.failures) == (2000, 0)


def test_a_request_sent_twice_was_sent_when_it_was_first_sent() -> None:
    def speak(connection: socket.socket, number: int, asked: int) -> None:
        if number == 0 and asked == 1:  # the kept connection ends after half a second, without a byte
            time.sleep(0.5)
            connection.shutdown(socket.SHUT_RDWR)
            return
        connection.sendall(CHUNKED)

    with served(speak) as server:
        records, report = play(server.url, plan(2, gap_s=0.4))
    assert report.retried == 1
    assert [record.outcome for record in records] == [Outcome.OK] * 2
    late = records[1]
    assert late.sent_at_ns is not None
    assert late.sent_at_ns - late.scheduled_at_ns < 400_000_000
    assert (late.first_token_at_ns or 0) - late.sent_at_ns >= 500_000_000
