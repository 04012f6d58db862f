"""The calibration server: exact bytes, no chunk early, its own lateness told, and gone when its parent is."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from unmoor.core.record import Outcome, Record
from unmoor.engines.wire import chat_body
from unmoor.measure.client.load import PlannedRequest, ReplayReport, Target
from unmoor.measure.client.replay import replay

CHAT = "/v1/chat/completions"


class Server:
    """The server as a process of its own, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.url = process.stdout.readline().strip()

    def tell(self, line: str = "") -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        said: dict[str, Any] = json.loads(self.process.stdout.readline())
        return said


@contextmanager
def calibration(**answer: float) -> Iterator[Server]:
    argv = [sys.executable, "-m", "unmoor.fake.calibration", "--answer", json.dumps(answer)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Server(process)
        finally:
            if process.stdin and not process.stdin.closed:
                process.stdin.close()
            assert process.wait(timeout=10) == 0


def play(url: str, requests: int, endpoint: str = "chat") -> tuple[list[Record], ReplayReport]:
    planned = [PlannedRequest(index=i, due_s=i * 0.01, prompt="a b c", max_tokens=4) for i in range(requests)]
    target = Target(url=url, served_name="calibration", endpoint="chat" if endpoint == "chat" else "completions")
    records: list[Record] = []
    report = replay(target, planned, sink=records.append, timeout_s=20.0)
    return sorted(records, key=lambda record: record.index), report


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("gap_s", [0.0, 0.01])
def test_every_answer_is_whole_and_no_chunk_is_early(endpoint: str, gap_s: float) -> None:
    with calibration(chunks=5, gap_s=gap_s, first_s=0.02) as server:
        records, report = play(server.url, 6, endpoint)
        kept = server.tell()
    assert {record.outcome for record in records} == {Outcome.OK}
    assert {(len(record.chunk_at_ns), record.output_tokens, record.finish_reason) for record in records} == {
        (5, 5, "length")
    }
    assert report.requests == kept["requests"] == 6
    assert kept["chunks"] == 30
    assert kept["writes"] == (30 if gap_s else 6)
    for record in records:
        assert record.sent_at_ns is not None
        for place, at_ns in enumerate(record.chunk_at_ns):
            # The server counts from when the kernel had the request, which is after it was sent.
            assert at_ns - record.sent_at_ns >= (0.02 + place * gap_s) * 1e9 - 1e6


def test_it_says_how_late_it_was_and_begins_anew_at_every_line() -> None:
    with calibration(chunks=3, gap_s=0.01, first_s=0.0) as server:
        play(server.url, 2)
        kept = server.tell('{"chunks": 7, "gap_s": 0.0}')
        nothing = server.tell()
        records, _ = play(server.url, 1)
        again = server.tell()
    assert kept["late_p50_s"] >= 0
    assert kept["late_p50_s"] <= kept["late_p99_s"] <= kept["late_max_s"]
    assert kept["gap_max_s"] >= 0.01 - kept["late_max_s"]
    assert (nothing["requests"], nothing["writes"], nothing["late_p50_s"]) == (0, 0, None)
    assert len(records[0].chunk_at_ns) == 7
    assert (again["requests"], again["chunks"], again["writes"], again["gap_p50_s"]) == (1, 7, 1, None)


def test_a_line_that_is_no_answer_changes_nothing() -> None:
    with calibration(chunks=3, gap_s=0.0) as server:
        assert "chunks" in server.tell('{"chunks": 0}')["error"]
        assert "error" in server.tell("not JSON")
        records, _ = play(server.url, 1)
    assert len(records[0].chunk_at_ns) == 3


def test_a_request_in_pieces_and_the_next_one_behind_it_are_answered_in_turn() -> None:
    with calibration(chunks=2, gap_s=0.01, first_s=0.0) as server:
        parts = urlsplit(server.url)
        body = chat_body("calibration", "a", 2)
        wire = b"POST %b HTTP/1.1\r\nHost: x\r\ncontent-length: %d\r\n\r\n%b" % (CHAT.encode(), len(body), body)
        with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=10) as connection:
            for byte in wire[:-4]:
                connection.sendall(bytes([byte]))
            connection.sendall(wire[-4:] + wire)
            got = b""
            while got.count(b"data: [DONE]") < 2:
                got += connection.recv(1 << 16)
        assert got.count(b"HTTP/1.1 200 OK") == 2
        assert got.count(b'" word"') == 4
        assert server.tell()["requests"] == 2


def test_a_client_that_leaves_costs_only_its_own_answer() -> None:
    with calibration(chunks=400, gap_s=0.01, first_s=0.0) as server:
        parts = urlsplit(server.url)
        body = chat_body("calibration", "a", 400)
        with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=10) as leaver:
            leaver.sendall(b"POST %b HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (CHAT.encode(), len(body), body))
            assert leaver.recv(10)
        cut = server.tell('{"chunks": 2, "gap_s": 0.0}')["cut"]
        records, _ = play(server.url, 1)
        deadline = time.monotonic() + 10
        while not cut and time.monotonic() < deadline:
            cut += server.tell()["cut"]
            time.sleep(0.02)
    assert records[0].ok
    assert cut == 1


def test_it_lists_its_model_and_answers_a_look_at_its_health() -> None:
    with calibration() as server:
        parts = urlsplit(server.url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)
        for path, expected in (("/v1/models", b'"calibration"'), ("/health", b"{}")):
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200
            assert expected in answer.read()
        connection.close()


def test_it_ends_when_its_parent_dies() -> None:
    parent = (
        "import subprocess, sys, os\n"
        "argv = [sys.executable, '-m', 'unmoor.fake.calibration']\n"
        "server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\n"
        "print(server.stdout.readline().strip(), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=False, timeout=30)
    parts = urlsplit(done.stdout.strip())
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection((str(parts.hostname), parts.port or 0), timeout=1).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.05)
    pytest.fail("it still answers")


@pytest.mark.parametrize("answer", ['{"chunks": 0}', '{"gap_s": -1}', '{"tokens": 3}', "{"])
def test_an_answer_that_cannot_be_given_is_one_clear_error(answer: str) -> None:
    argv = [sys.executable, "-m", "unmoor.fake.calibration", "--answer", answer]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("--answer: no such answer")
    assert "Traceback" not in done.stderr


def test_without_an_input_that_can_end_it_says_so(tmp_path: Path) -> None:
    with (tmp_path / "empty").open("w+") as nothing:
        argv = [sys.executable, "-m", "unmoor.fake.calibration"]
        done = subprocess.run(argv, stdin=nothing, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cannot be waited for" in done.stderr
