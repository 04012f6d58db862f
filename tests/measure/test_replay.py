"""The conformance matrix of a load generator, over real sockets: what each ending is, and what it is not.

Times are asserted from below and by order, never tightly: a noisy machine may be late, but no clock may be early.
"""

from __future__ import annotations

import codecs
import gc
import gzip
import json
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise

import pytest

from unmoor.core.errors import RunError, UsageError
from unmoor.core.record import Outcome, Record, e2e_s, meets, scheduled_ttft_s, tpot_s, ttft_s
from unmoor.core.slo import Slo
from unmoor.fake.engine import FakeEngine
from unmoor.fake.script import Ask, Script
from unmoor.measure.client.replay import PlannedRequest, ReplayReport, Target, replay

PROMPT = "one two three four five"
TTFT_S, GAP_S, TOKENS = 0.15, 0.03, 6


def plan(count: int = 1, gap_s: float = 0.0) -> list[PlannedRequest]:
    return [PlannedRequest(index=i, due_s=i * gap_s, prompt=PROMPT, max_tokens=TOKENS) for i in range(count)]


def play(
    url: str, planned: list[PlannedRequest] | None = None, *, timeout_s: float = 10.0
) -> tuple[list[Record], ReplayReport]:
    records: list[Record] = []
    report = replay(Target(url=url, served_name="fake"), planned or plan(), sink=records.append, timeout_s=timeout_s)
    return records, report


def one(script: Script, *, timeout_s: float = 10.0) -> Record:
    with FakeEngine(script) as engine:
        records, report = play(engine.url, timeout_s=timeout_s)
    assert (report.planned, report.requests, report.partial) == (1, 1, False)
    assert report.failures == (not records[0].ok)
    return records[0]


def script(**changes: object) -> Script:
    return Script(**{"ttft_s": TTFT_S, "gap_s": GAP_S, "tokens": TOKENS, **changes})  # type: ignore[arg-type] # a table


WHOLE: list[dict[str, object]] = [
    {},
    {"role_event": False},
    {"leading": 3, "leading_channel": "reasoning_content"},
    {"leading": 3, "leading_channel": "reasoning"},
    {"channel": "reasoning_content"},
    {"channel": "tool_calls", "finish_reason": "tool_calls"},
    {"channel": "function_call"},
    {"pings": 3},
    {"usage": False},
    {"crlf": True},
    {"http_1_0": True},
    {"done_after_s": 0.3},
    {"finish_reason": "length"},
]
BROKEN: list[tuple[dict[str, object], Outcome, str]] = [
    ({"fault": "error_first"}, Outcome.STREAM_ERROR, "the fake engine was told to fail"),
    ({"fault": "error_mid"}, Outcome.STREAM_ERROR, "the fake engine was told to fail"),
    ({"finish_reason": "abort"}, Outcome.STREAM_ERROR, "finish_reason abort"),
    ({"finish_reason": "error"}, Outcome.STREAM_ERROR, "finish_reason error"),
    ({"fault": "cut"}, Outcome.CUT, "the stream ended without a finish_reason"),
    ({"fault": "cut", "http_1_0": True}, Outcome.CUT, "the stream ended without a finish_reason"),
    ({"fault": "ends_early"}, Outcome.CUT, "the stream ended without a finish_reason"),
    ({"finish_reason": None}, Outcome.CUT, "the stream ended without a finish_reason"),
    ({"fault": "closes"}, Outcome.CUT, "the connection ended before an answer"),
    ({"fault": "garbage"}, Outcome.HTTP_ERROR, "the answer is not HTTP"),
    ({"fault": "one_piece"}, Outcome.STREAM_ERROR, "answered in one piece"),
]
ERROR_FAULTS, SHAPES, STATUSES = ("error_first", "error_mid"), ("nested", "flat", "text"), (400, 404, 500, 503)


@pytest.fixture(scope="module")
def played() -> dict[str, Record]:
    """Every row of the matrix in one replay, side by side, by what its script says: the good do not mind the bad."""
    rows = [*WHOLE, *(changes for changes, _, _ in BROKEN)]
    rows += [{"fault": fault, "error_shape": shape} for fault in ERROR_FAULTS for shape in SHAPES]
    rows += [{"status": status, "error_shape": shape} for status in STATUSES for shape in (*SHAPES, "detail", "plain")]

    def choose(ask: Ask) -> Script:
        return script(**rows[int((ask.messages or [])[0]["content"].rsplit(" ", 1)[1])])

    planned = [
        PlannedRequest(index=i, due_s=i * 0.02, prompt=f"one two three four {i}", max_tokens=TOKENS)
        for i in range(len(rows))
    ]
    with FakeEngine(choose) as engine:
        records, report = play(engine.url, planned)
    assert (report.requests, report.failures) == (len(rows), len(rows) - len(WHOLE))
    return {str(rows[record.index]): record for record in records}


@pytest.mark.parametrize("changes", WHOLE, ids=str)
def test_whole_answers_are_ok_and_timed_at_their_first_and_last_token(
    changes: dict[str, object], played: dict[str, Record]
) -> None:
    record = played[str(changes)]
    assert record.outcome is Outcome.OK, record.error
    assert record.status == 200
    first, last = ttft_s(record), e2e_s(record)
    assert first is not None
    assert last is not None
    assert first >= TTFT_S
    assert last >= TTFT_S + GAP_S * (TOKENS - 1)
    # One chunk for each event with content, so neither the role nor a ping nor [DONE] was taken for a token.
    assert len(record.chunk_at_ns) == TOKENS
    assert (record.first_token_at_ns, record.last_token_at_ns) == (record.chunk_at_ns[0], record.chunk_at_ns[-1])
    assert record.sent_at_ns is not None
    assert record.closed_at_ns is not None
    done_s = TTFT_S + GAP_S * (TOKENS - 1) + float(str(changes.get("done_after_s", 0.0)))
    assert (record.closed_at_ns - record.sent_at_ns) / 1e9 >= done_s
    if changes.get("usage", True):
        assert (record.input_tokens, record.output_tokens, record.cached_tokens) == (5, TOKENS, 0)
        assert record.tokens_from == "server"
        assert tpot_s(record) is not None
    else:
        assert (record.input_tokens, record.output_tokens, record.tokens_from) == (None, None, None)
        assert tpot_s(record) is None


def test_several_tokens_in_an_event_are_one_chunk_and_all_are_counted() -> None:
    record = one(script(tokens_per_event=3))
    assert record.outcome is Outcome.OK
    assert (len(record.chunk_at_ns), record.output_tokens) == (2, TOKENS)


@pytest.mark.parametrize(("changes", "outcome", "message"), BROKEN, ids=str)
def test_answers_that_are_not_whole_are_failures_without_a_latency(
    changes: dict[str, object], outcome: Outcome, message: str, played: dict[str, Record]
) -> None:
    record = played[str(changes)]
    assert record.outcome is outcome
    assert record.error is not None
    assert record.error.startswith(message)
    assert (ttft_s(record), tpot_s(record), e2e_s(record), scheduled_ttft_s(record)) == (None,) * 4
    assert not meets(record, Slo(ttft_s=100.0))
    assert record.closed_at_ns is not None


@pytest.mark.parametrize("fault", ERROR_FAULTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_an_error_event_is_read_in_every_shape(fault: str, shape: str, played: dict[str, Record]) -> None:
    record = played[str({"fault": fault, "error_shape": shape})]
    assert (record.outcome, record.error) == (Outcome.STREAM_ERROR, "the fake engine was told to fail")
    assert record.output_tokens is None


@pytest.mark.parametrize("shape", [*SHAPES, "detail", "plain"])
@pytest.mark.parametrize("status", STATUSES)
def test_a_status_that_is_not_200_is_an_http_error_with_its_message(
    status: int, shape: str, played: dict[str, Record]
) -> None:
    record = played[str({"status": status, "error_shape": shape})]
    assert (record.outcome, record.status) == (Outcome.HTTP_ERROR, status)
    assert record.error == "the fake engine was told to fail"
    assert ttft_s(record) is None


def test_an_error_that_quotes_the_prompt_is_kept_without_it() -> None:
    record = one(script(status=400, error_message=f"bad input: '{PROMPT}'"))
    assert record.error is not None
    assert "two three" not in record.error


@pytest.mark.parametrize("fault", ["silent", "slow_head"])
def test_a_server_that_does_not_come_to_an_end_is_a_timeout(fault: str) -> None:
    record = one(script(fault=fault), timeout_s=0.3)
    assert record.outcome is Outcome.TIMEOUT
    assert record.sent_at_ns is not None
    assert record.closed_at_ns is not None
    assert (record.closed_at_ns - record.sent_at_ns) / 1e9 >= 0.3
    assert (ttft_s(record), record.status) == (None, None)


def test_a_timeout_in_the_middle_of_a_stream_is_one() -> None:
    record = one(script(gap_s=0.2, tokens=50), timeout_s=0.5)
    assert record.outcome is Outcome.TIMEOUT
    assert record.first_token_at_ns is not None
    assert ttft_s(record) is None
    assert record.output_tokens is None


def test_a_server_that_accepts_nothing_refuses() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        records, report = play(f"http://127.0.0.1:{port}")
    assert records[0].outcome is Outcome.REFUSED
    assert records[0].error == "Connection refused"
    assert (records[0].sent_at_ns, ttft_s(records[0])) == (None, None)
    assert (report.failures, report.send_lag_max_s, report.achieved_rps) == (1, None, None)


@contextmanager
def raw_server(*answers: bytes, reset: bool = False, pause_s: float = 0.02) -> Iterator[str]:
    """A server that says these bytes, whatever it is asked, one write each, and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            with suppress(ConnectionError):  # the client may have had enough
                for answer in answers:
                    connection.sendall(answer)
                    time.sleep(pause_s)
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    thread.join()
    listener.close()


def frame(content: object) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


STREAM = (
    frame({"choices": [{"index": 0, "delta": {"content": "é"}, "finish_reason": None}]})
    + frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    + b"data: [DONE]\n\n"
)
HEAD = b"Content-Type: text/event-stream\r\n"


@pytest.mark.parametrize(
    "answers",
    [
        (b"HTTP/1.0 200 OK\r\n" + HEAD + b"\r\n", STREAM),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + HEAD + b"\r\n", STREAM),
        (b"HTTP/1.1 200 OK\r\n" + HEAD + b"Content-Length: %d\r\n\r\n" % len(STREAM), STREAM),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + HEAD + b"\r\n", STREAM),
        (b"HTTP/1.1 200 OK\r\n" + HEAD + b"\r\n", *(STREAM[at : at + 7] for at in range(0, len(STREAM), 7))),
    ],
    ids=["http 1.0", "connection close", "length", "100 continue", "seven bytes a read"],
)
def test_every_way_to_frame_an_answer_is_understood(answers: tuple[bytes, ...]) -> None:
    with raw_server(*answers) as url:
        records, _ = play(url)
    assert (records[0].outcome, records[0].error) == (Outcome.OK, None)
    assert len(records[0].chunk_at_ns) == 1


def with_length(status: bytes, body: bytes, headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, headers, len(body), body)


DEEP_USAGE = b'data: {"choices":[],"usage":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001 + b"\n\n"
HOSTILE = [
    (with_length(b"200 OK", DEEP_USAGE), Outcome.STREAM_ERROR, "is not a chunk of a completion"),
    (with_length(b"200 OK", DEEP_USAGE.rstrip()), Outcome.CUT, "ended without a finish_reason"),
    (with_length(b"500 X", b"[" * 60_000 + b"]" * 60_000), Outcome.HTTP_ERROR, "[["),
    (with_length(b"500 X", b"e" * 5_000_000), Outcome.HTTP_ERROR, "eee"),
    (
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nxxxx",
        Outcome.HTTP_ERROR,
        "the server wants to speak another protocol",
    ),
    (
        with_length(b"200 OK", gzip.compress(STREAM), b"Content-Encoding: gzip\r\n"),
        Outcome.STREAM_ERROR,
        "the answer is compressed with gzip",
    ),
    (with_length(b"400 X", gzip.compress(b"no"), b"Content-Encoding: gzip\r\n"), Outcome.HTTP_ERROR, "compressed"),
]


@pytest.mark.parametrize(("answer", "outcome", "said"), HOSTILE, ids=[str(row[0][:60]) for row in HOSTILE])
def test_a_hostile_answer_is_a_failure_of_its_own_and_nothing_more(answer: bytes, outcome: Outcome, said: str) -> None:
    with raw_server(answer) as url:
        records, _ = play(url)
    assert records[0].outcome is outcome
    assert said in (records[0].error or "")
    assert len(records[0].error or "") <= 300


def test_a_second_answer_on_the_connection_adds_nothing_to_the_first() -> None:
    answer = with_length(b"200 OK", STREAM)
    with raw_server(answer + answer + b"nonsense") as url:
        records, _ = play(url)
    assert (records[0].outcome, len(records[0].chunk_at_ns)) == (Outcome.OK, 1)


def test_a_byte_order_mark_costs_no_token() -> None:
    with raw_server(with_length(b"200 OK", codecs.BOM_UTF8 + STREAM)) as url:
        records, _ = play(url)
    assert (records[0].outcome, len(records[0].chunk_at_ns)) == (Outcome.OK, 1)


def test_an_answer_without_an_end_is_broken_off_before_it_fills_the_memory() -> None:
    megabyte = b": " + b"x" * (1 << 20) + b"\n\n"
    with raw_server(b"HTTP/1.1 200 OK\r\n\r\n", *([megabyte] * 100), pause_s=0.0) as url:
        records, _ = play(url, timeout_s=30.0)
    assert records[0].outcome is Outcome.STREAM_ERROR
    assert records[0].error == "an answer of more than 64 MiB"


@pytest.mark.parametrize("reset", [False, True])
def test_an_answer_shorter_than_its_length_is_cut(reset: bool) -> None:  # noqa: FBT001 - a row of a table
    cut = STREAM.removesuffix(b"data: [DONE]\n\n")
    head = b"HTTP/1.1 200 OK\r\n" + HEAD + b"Content-Length: 99999\r\n\r\n"
    with raw_server(head, cut, reset=reset) as url:
        records, _ = play(url)
    assert records[0].outcome is Outcome.CUT


def test_an_open_loop_waits_for_nobody() -> None:
    with FakeEngine(script(ttft_s=1.0)) as engine:
        records, report = play(engine.url, plan(10, gap_s=0.05))
    # The schedule ends 0.45 s after its start and no answer begins before 1 s: everything was in flight at once.
    sent = sorted(record.sent_at_ns or 0 for record in records)
    assert sent[-1] < min(record.closed_at_ns or 0 for record in records)
    assert all((record.sent_at_ns or 0) >= record.scheduled_at_ns for record in records)
    schedule = [record.scheduled_at_ns for record in sorted(records, key=lambda record: record.index)]
    assert {b - a for a, b in pairwise(schedule)} == {50_000_000}
    assert report.offered_rps == pytest.approx(20.0)
    assert report.achieved_rps is not None
    assert report.send_lag_p99_s is not None
    assert report.loop_stall_max_s is not None
    assert (report.failures, report.partial) == (0, False)


def test_requests_out_of_order_are_sent_in_order_and_keep_their_index() -> None:
    planned = [
        PlannedRequest(index=7, due_s=0.2, prompt="b", max_tokens=1, seed=3, ignore_eos=True),
        PlannedRequest(index=9, due_s=0.0, prompt="a", max_tokens=1),
    ]
    with FakeEngine(script(ttft_s=0.01)) as engine:
        records, _ = play(engine.url, planned)
        asked = [json.loads(body) for body in engine.seen]
    assert [record.index for record in records] == [9, 7]
    assert [body["messages"][0]["content"] for body in asked] == ["a", "b"]
    assert "ignore_eos" not in asked[0]
    assert (asked[1]["ignore_eos"], asked[1]["seed"]) == (True, 3)


def test_the_completions_endpoint_is_measured_alike() -> None:
    records: list[Record] = []
    with FakeEngine(script()) as engine:
        target = Target(url=f"{engine.url}/v1/", served_name="fake", endpoint="completions")
        replay(target, plan(), sink=records.append, timeout_s=5.0)
    assert records[0].outcome is Outcome.OK
    assert (len(records[0].chunk_at_ns), records[0].output_tokens) == (TOKENS, TOKENS)


def test_one_request_that_fails_hurts_no_other() -> None:
    asked = iter([script(fault="cut"), script(), script(status=500), script()])

    def choose(_: Ask) -> Script:
        return next(asked)

    with FakeEngine(choose) as engine:
        records, report = play(engine.url, plan(4, gap_s=0.1))
    assert sorted(record.outcome for record in records) == ["cut", "http_error", "ok", "ok"]
    assert (report.requests, report.failures) == (4, 2)


def test_a_stop_records_what_is_in_flight_and_sends_no_more() -> None:
    records: list[Record] = []
    with FakeEngine(script(ttft_s=5.0)) as engine:
        report = replay(
            Target(url=engine.url, served_name="fake"),
            plan(3, gap_s=30.0),
            sink=records.append,
            timeout_s=60.0,
            stop=lambda: bool(engine.seen),
        )
    assert [(record.index, record.outcome) for record in records] == [(0, Outcome.CANCELLED)]
    assert report.partial
    assert (report.planned, report.requests, report.failures) == (3, 1, 1)


def test_ctrl_c_ends_in_good_order_and_leaves_the_handler_as_it_was() -> None:
    before = signal.getsignal(signal.SIGINT)
    records: list[Record] = []
    with FakeEngine(script(ttft_s=5.0)) as engine:

        def press() -> None:
            while not engine.seen:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        presser = threading.Thread(target=press)
        presser.start()
        report = replay(
            Target(url=engine.url, served_name="fake"), plan(2, gap_s=60.0), sink=records.append, timeout_s=60.0
        )
        presser.join()
    assert [record.outcome for record in records] == [Outcome.CANCELLED]
    assert report.partial
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_before_the_loop_is_there_is_not_lost() -> None:
    presses: list[str] = []

    def press(phase: str, found: dict[str, int]) -> None:
        # Python drops what is raised in here, as it does in destructors.
        if phase == "start" and found["generation"] == 2 and not presses:
            presses.append(phase)
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with FakeEngine(script()) as engine:
        target, nothing = Target(url=engine.url, served_name="fake"), list[Record]()
        gc.callbacks.append(press)
        try:
            report = replay(target, plan(3, gap_s=60.0), sink=nothing.append, timeout_s=60.0)
        finally:
            gc.callbacks.remove(press)
    assert presses
    assert (report.partial, report.requests, nothing) == (True, 0, [])
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_of_the_sink_ends_the_replay_and_is_the_callers() -> None:
    def full(_: Record) -> None:
        raise RunError("the disk is full")

    with FakeEngine(script(ttft_s=0.01)) as engine, pytest.raises(RunError, match="the disk is full"):
        replay(Target(url=engine.url, served_name="fake"), plan(3, gap_s=20.0), sink=full, timeout_s=5.0)
    assert gc.isenabled()


def test_an_error_of_the_stop_ends_the_replay_and_is_the_callers() -> None:
    def broken() -> bool:
        raise ZeroDivisionError

    with FakeEngine(script()) as engine, pytest.raises(ZeroDivisionError):
        replay(Target(url=engine.url, served_name="fake"), plan(3, gap_s=20.0), sink=print, timeout_s=5.0, stop=broken)


def test_the_collector_is_off_during_a_replay_and_as_before_after_it() -> None:
    during: list[bool] = []
    frozen = gc.get_freeze_count()  # Python 3.12 starts with some
    with FakeEngine(script(ttft_s=0.01)) as engine:
        target = Target(url=engine.url, served_name="fake")
        replay(target, plan(), sink=lambda _: during.append(gc.isenabled()), timeout_s=5.0)
    assert (during, gc.isenabled()) == ([False], True)
    assert gc.get_freeze_count() <= frozen


def test_a_client_that_is_late_for_the_objective_says_so() -> None:
    with FakeEngine(script(ttft_s=0.01)) as engine:
        target = Target(url=engine.url, served_name="fake")
        nothing: list[Record] = []
        strict = replay(target, plan(), sink=nothing.append, timeout_s=5.0, slo=Slo(ttft_s=1e-6))
        loose = replay(target, plan(), sink=nothing.append, timeout_s=5.0, slo=Slo(ttft_s=1000.0))
        to_the_end = replay(target, plan(), sink=nothing.append, timeout_s=5.0, slo=Slo(ttft_s=9.0, e2e_s=1e-6))
        unbound = replay(target, plan(), sink=nothing.append, timeout_s=5.0, slo=Slo(tpot_s=1e-6))
    assert [caveat.code for caveat in strict.caveats] == ["client_bound"]
    assert [caveat.code for caveat in to_the_end.caveats] == ["client_bound"]
    assert loose.caveats == unbound.caveats == ()


def test_nothing_planned_is_nothing_done() -> None:
    report = replay(Target(url="http://127.0.0.1:1", served_name="fake"), [], sink=print, timeout_s=5.0)
    assert (report.planned, report.requests, report.offered_rps, report.send_lag_p50_s) == (0, 0, None, None)


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1:8000",
        "http://example.com",
        "http://127.0.0.1@example.com:8000",
        "http://localhost.example.com",
        "http://0.0.0.0:8000",
        "https://127.0.0.1:8000",
        "127.0.0.1:8000",
        "http://127.0.0.1:99999",
        "",
    ],
)
def test_only_this_machine_is_loaded(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        replay(Target(url=url, served_name="fake"), plan(), sink=print, timeout_s=1.0)
    assert caught.value.hint is not None
    assert caught.value.exit_code == 2
