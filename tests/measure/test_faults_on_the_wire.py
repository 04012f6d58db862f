"""Every way in which a server fails, on real sockets: each a failure of its own kind, and no other request is hurt."""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from unmoor.core.record import Outcome, Record, e2e_s, scheduled_ttft_s, ttft_s
from unmoor.engines.wire import AnswerForm, Endpoint
from unmoor.fake.engine import FakeEngine
from unmoor.fake.script import Script
from unmoor.measure.client.load import PlannedRequest, Target
from unmoor.measure.client.replay import replay

IN_ONE = AnswerForm(stream=False)
Speak = Callable[[socket.socket], None]
"""What a server does with one request: it writes to the connection, or ends it."""


def data(content: object) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


TOKEN = data({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]})
END = data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
GOOD = HEAD + chunk(TOKEN) + chunk(TOKEN + END) + b"0\r\n\r\n"


def whole(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def says(*pieces: bytes) -> Speak:
    def speak(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return speak


def closes_after(*pieces: bytes) -> Speak:
    def speak(connection: socket.socket) -> None:
        says(*pieces)(connection)
        connection.shutdown(socket.SHUT_RDWR)

    return speak


def resets_after(*pieces: bytes) -> Speak:
    def speak(connection: socket.socket) -> None:
        says(*pieces)(connection)
        time.sleep(0.1)  # a reset overtakes what is not yet read
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    return speak


def stalls_after(*pieces: bytes) -> Speak:
    def speak(connection: socket.socket) -> None:
        says(*pieces)(connection)
        while connection.recv(1 << 16):
            pass

    return speak


def never_ends(connection: socket.socket) -> None:
    """One event, as long as anybody takes it."""
    connection.sendall(HEAD + chunk(TOKEN) + b"fffffff0\r\ndata: ")
    megabyte = b"x" * (1 << 20)
    while True:
        connection.sendall(megabyte)


class Server:
    """A server on a real socket. A request's prompt is the name of what is done with it: "cut in a chunk 3", say."""

    def __init__(self, does: dict[str, Speak], port: int = 0) -> None:
        self._does = does
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while (prompt := _prompt(connection)) is not None:
                self._does[prompt.rstrip(" 0123456789")](connection)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()


def _prompt(connection: socket.socket) -> str | None:
    """The prompt of the next request; None at the end of the connection."""
    got = b""
    while (found := re.match(rb"[\s\S]*?content-length: (\d+)[\s\S]*?\r\n\r\n", got, re.IGNORECASE)) is None or len(
        got
    ) < found.end() + int(found[1]):
        if not (more := connection.recv(1 << 16)):
            return None
        got += more
    asked = json.loads(got[found.end() :])
    return str(asked["messages"][0]["content"])


@contextmanager
def served(does: dict[str, Speak]) -> Iterator[Server]:
    server = Server({"good": says(GOOD), **does})
    try:
        yield server
    finally:
        server.close()


def plan(*prompts: str, gap_s: float = 0.0, form: AnswerForm | None = None) -> list[PlannedRequest]:
    return [
        PlannedRequest(index=at, due_s=at * gap_s, prompt=prompt, max_tokens=4, form=form)
        for at, prompt in enumerate(prompts)
    ]


def play(
    url: str, planned: list[PlannedRequest], *, timeout_s: float = 20.0, endpoint: Endpoint = "chat"
) -> list[Record]:
    records: list[Record] = []
    target = Target(url=url, served_name="fake", endpoint=endpoint)
    replay(target, planned, sink=records.append, timeout_s=timeout_s)
    return sorted(records, key=lambda record: record.index)


BEFORE = "the connection ended before an answer"
LATE = "no end of the answer within 3 s"
UNFINISHED = "the stream ended without a finish_reason"
BROKEN = "the connection broke before the end of the stream"
FAULTS: dict[str, tuple[Speak, Outcome, str]] = {
    "closed in the status line": (closes_after(b"HTTP/1.1 2"), Outcome.CUT, BEFORE),
    "closed in the headers": (closes_after(b"HTTP/1.1 200 OK\r\nContent-Ty"), Outcome.CUT, BEFORE),
    "reset in the headers": (resets_after(b"HTTP/1.1 200 OK\r\nContent-Ty"), Outcome.CUT, BEFORE),
    "closed after the headers": (closes_after(HEAD), Outcome.CUT, UNFINISHED),
    "closed in the size of a chunk": (closes_after(HEAD + chunk(TOKEN) + b"1"), Outcome.CUT, UNFINISHED),
    "closed in a chunk": (closes_after(HEAD + chunk(TOKEN)[:-9]), Outcome.CUT, UNFINISHED),
    "reset in a chunk": (resets_after(HEAD + chunk(TOKEN)[:-9]), Outcome.CUT, UNFINISHED),
    "closed between chunks": (closes_after(HEAD + chunk(TOKEN)), Outcome.CUT, UNFINISHED),
    "finished and then closed in a chunk": (
        closes_after(HEAD + chunk(TOKEN) + b"ff\r\n" + END.removesuffix(b"data: [DONE]\n\n")), Outcome.CUT, BROKEN),
    "stalled in the headers": (stalls_after(b"HTTP/1.1 200 OK\r\n"), Outcome.TIMEOUT, LATE),
    "stalled in the stream": (stalls_after(HEAD + chunk(TOKEN)), Outcome.TIMEOUT, LATE),
    "never answered": (stalls_after(), Outcome.TIMEOUT, LATE),
    "failed after ok": (
        says(HEAD + chunk(TOKEN) + chunk(data({"error": {"message": "out of memory"}})) + b"0\r\n\r\n"),
        Outcome.STREAM_ERROR, "out of memory"),
    "aborted": (
        says(HEAD + chunk(TOKEN) + chunk(END.replace(b"stop", b"abort")) + b"0\r\n\r\n"),
        Outcome.STREAM_ERROR, "finish_reason abort"),
    "too many": (
        says(whole("429 Too Many Requests", b'{"error":"slower"}', "Retry-After: 7")), Outcome.HTTP_ERROR, "slower"),
    "overloaded": (
        says(whole("503 Service Unavailable", b"no healthy upstream", "Retry-After: 2")),
        Outcome.HTTP_ERROR, "no healthy upstream"),
    "a chunk without a size": (says(HEAD + b"zz\r\n"), Outcome.HTTP_ERROR, "the answer is not HTTP"),
    "all of it in one piece": (
        says(whole("200 OK", b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}')),
        Outcome.STREAM_ERROR, "answered in one piece, so there is no time to first token"),
}  # fmt: skip


@pytest.fixture(scope="module")
def played() -> dict[str, list[Record]]:
    """One run in which each fault happens twice, with a good answer before, between and after."""
    names = [name for name in FAULTS for _ in range(2)]
    prompts = [prompt for name in names for prompt in ("good", name)] + ["good"]
    with served({name: speak for name, (speak, _, _) in FAULTS.items()}) as server:
        records = play(server.url, plan(*prompts, gap_s=0.01), timeout_s=3.0)
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(prompts[record.index], []).append(record)
    return found


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_fault_is_a_failure_of_its_own_kind(name: str, played: dict[str, list[Record]]) -> None:
    _, outcome, said = FAULTS[name]
    assert [(record.outcome, record.error) for record in played[name]] == [(outcome, said)] * 2
    for record in played[name]:
        assert (ttft_s(record), scheduled_ttft_s(record), e2e_s(record), record.valid) == (None, None, None, None)
        assert record.closed_at_ns is not None


def test_no_fault_hurts_another_request(played: dict[str, list[Record]]) -> None:
    good = played["good"]
    assert len(good) == 2 * len(FAULTS) + 1
    assert {(record.outcome, len(record.chunk_at_ns)) for record in good} == {(Outcome.OK, 2)}


def test_how_long_the_server_wants_to_be_left_alone_is_kept(played: dict[str, list[Record]]) -> None:
    assert [record.retry_after_s for record in (*played["too many"], *played["overloaded"])] == [7.0, 7.0, 2.0, 2.0]
    assert {record.retry_after_s for record in played["good"]} == {None}


def test_a_server_that_closes_between_requests_without_a_word_fails_none() -> None:
    with served({"closing": closes_after(GOOD)}) as server:
        records = play(server.url, plan(*["closing"] * 30, gap_s=0.02))
    assert {record.outcome for record in records} == {Outcome.OK}


def test_a_listener_that_accepts_nobody_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        records = play(url, plan("good"), timeout_s=0.5)
    assert (records[0].outcome, records[0].first_byte_at_ns) == (Outcome.TIMEOUT, None)


def test_a_server_that_restarts_cuts_refuses_and_is_found_again() -> None:
    slow = stalls_after(HEAD + chunk(TOKEN))
    first = Server({"good": says(GOOD), "slow": slow})
    down, up, servers = threading.Event(), threading.Event(), [first]

    def restart() -> None:
        down.wait()
        first.close()
        up.wait()
        servers.append(Server({"good": says(GOOD)}, port=first.port))

    thread = threading.Thread(target=restart)
    thread.start()
    records: list[Record] = []

    def sink(record: Record) -> None:
        records.append(record)
        if record.outcome is Outcome.OK:
            down.set()
        if record.outcome is Outcome.REFUSED:
            up.set()

    prompts = ["slow", *["good"] * 200]
    try:
        replay(Target(url=first.url, served_name="f"), plan(*prompts, gap_s=0.02), sink=sink, timeout_s=20.0)
    finally:
        down.set()
        up.set()
        thread.join()
        for server in servers[1:]:
            server.close()
    outcomes = [record.outcome for record in sorted(records, key=lambda record: record.index)]
    assert len(outcomes) == len(prompts)
    assert (outcomes[0], outcomes[1], outcomes[-1]) == (Outcome.CUT, Outcome.OK, Outcome.OK)
    assert Outcome.REFUSED in outcomes
    assert set(outcomes) <= {Outcome.OK, Outcome.CUT, Outcome.REFUSED}


MEMORY = """
import resource, sys
from unmoor.measure.client.load import PlannedRequest, Target
from unmoor.measure.client.replay import replay
kinds = []
prompts = ["endless", "good", "good"]
planned = [PlannedRequest(index=i, due_s=i / 100, prompt=prompt, max_tokens=4) for i, prompt in enumerate(prompts)]
started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sink = lambda record: kinds.append((record.index, record.outcome.value, record.error))
replay(Target(url=sys.argv[1], served_name="f"), planned, sink=sink, timeout_s=50)
print(sorted(kinds))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - started) // 1024)
"""


def test_an_event_without_an_end_is_broken_off_within_bounded_memory() -> None:
    """It would be 4 GB. The client gives up at 64 MiB, of which it may for a moment hold more than one copy."""
    with served({"endless": never_ends}) as server:
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, server.url], capture_output=True, text=True, check=False, timeout=60
        )
    assert done.returncode == 0, done.stderr
    kinds, grown_mb = done.stdout.splitlines()
    assert kinds == str([(0, "stream_error", "an answer of more than 64 MiB"), (1, "ok", None), (2, "ok", None)])
    assert int(grown_mb) < 3 * 64


# In one piece


SHORT = b'{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}'
ONE_PIECE: list[tuple[str, Speak, Outcome, str]] = [
    ("closed in the body", closes_after(whole("200 OK", SHORT)[:-9]), Outcome.CUT,
     "the connection broke before the end of the answer"),
    ("reset in the body", resets_after(whole("200 OK", SHORT)[:-9]), Outcome.CUT,
     "the connection broke before the end of the answer"),
    ("unfinished", says(whole("200 OK", SHORT.replace(b'"stop"', b"null"))), Outcome.CUT,
     "the answer ended without a finish_reason"),
    ("aborted", says(whole("200 OK", SHORT.replace(b"stop", b"abort"))), Outcome.STREAM_ERROR, "finish_reason abort"),
    ("half of its JSON", says(whole("200 OK", SHORT[:-9])), Outcome.STREAM_ERROR,
     "an answer of 65 bytes is not a completion"),
    ("an error after all", says(whole("200 OK", b'{"error":"busy"}')), Outcome.STREAM_ERROR, "busy"),
    ("nothing", says(whole("200 OK", b"")), Outcome.STREAM_ERROR, "an empty answer"),
    ("events", says(GOOD), Outcome.STREAM_ERROR, "a stream of events, which was not asked for"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "speak", "outcome", "said"), ONE_PIECE, ids=[row[0] for row in ONE_PIECE])
def test_an_answer_in_one_piece_fails_by_kinds_too(name: str, speak: Speak, outcome: Outcome, said: str) -> None:
    with served({name: speak}) as server:
        (record,) = play(server.url, plan(name, form=IN_ONE))
    assert (record.outcome, record.error) == (outcome, said)
    assert (record.last_token_at_ns, e2e_s(record)) == (None, None)


# The other endpoints


ENDPOINTS: list[Endpoint] = ["completions", "responses"]
SCRIPTS: list[tuple[dict[str, object], Outcome]] = [
    ({}, Outcome.OK),
    ({"finish_reason": "length"}, Outcome.OK),
    ({"leading": 2}, Outcome.OK),
    ({"pings": 3}, Outcome.OK),
    ({"crlf": True}, Outcome.OK),
    ({"http_1_0": True}, Outcome.OK),
    ({"fault": "error_first"}, Outcome.STREAM_ERROR),
    ({"fault": "error_mid"}, Outcome.STREAM_ERROR),
    ({"fault": "ends_early"}, Outcome.CUT),
    ({"fault": "cut"}, Outcome.CUT),
    ({"fault": "one_piece"}, Outcome.STREAM_ERROR),
    ({"finish_reason": "abort"}, Outcome.STREAM_ERROR),
    ({"finish_reason": None}, Outcome.CUT),
    ({"status": 503, "retry_after_s": 3}, Outcome.HTTP_ERROR),
]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize(("changes", "outcome"), SCRIPTS, ids=[str(row[0]) for row in SCRIPTS])
def test_the_other_endpoints_fail_by_the_same_kinds(
    changes: dict[str, object], outcome: Outcome, endpoint: Endpoint
) -> None:
    script = Script(**{"ttft_s": 0.01, "gap_s": 0.005, "tokens": 6, **changes})  # type: ignore[arg-type] # a row of a table
    with FakeEngine(script) as engine:
        (record,) = play(engine.url, plan("a b c"), endpoint=endpoint)
    assert record.outcome is outcome
    assert (ttft_s(record) is not None) is record.ok
    if record.ok:
        assert (record.input_tokens, record.output_tokens, len(record.chunk_at_ns)) == (3, 6, 6)
    assert (record.error is None) is record.ok
