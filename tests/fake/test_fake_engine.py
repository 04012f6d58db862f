from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

from unmoor.core.errors import WorldError
from unmoor.engines.wire import AnswerForm, chat_body, read_body
from unmoor.fake.engine import FakeEngine
from unmoor.fake.frames import frames
from unmoor.fake.script import Ask, Script


def ask(engine: FakeEngine, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    address = urlsplit(engine.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


CHAT = "/v1/chat/completions"


def test_it_answers_in_one_piece_with_as_many_tokens_as_asked_for() -> None:
    with FakeEngine(Script(ttft_s=0.0)) as engine:
        status, body = ask(engine, "POST", CHAT, chat_body("m", "a b c", 4, form=AnswerForm(stream=False)))
    assert status == 200
    usage = read_body(body).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (3, 4)


def test_it_streams_no_earlier_than_scripted() -> None:
    with FakeEngine(Script(ttft_s=0.1, gap_s=0.02, tokens=6)) as engine:
        start = time.monotonic()
        status, body = ask(engine, "POST", CHAT, chat_body("m", "a", 4))
        took_s = time.monotonic() - start
    assert status == 200
    assert body.count(b"word") == 6
    assert took_s >= 0.1 + 5 * 0.02
    assert body.endswith(b"data: [DONE]\n\n")


def test_usage_is_only_sent_to_those_who_ask() -> None:
    asking = Ask(stream_options={"include_usage": True}, messages=[{"role": "user", "content": "a"}])
    assert any(b'"usage"' in frame for _, frame in frames(Script(), asking))
    assert not any(b'"usage"' in frame for _, frame in frames(Script(), Ask(messages=[])))
    assert not any(b'"usage"' in frame for _, frame in frames(Script(usage=False), asking))


def test_frames_come_in_order_at_their_scripted_times() -> None:
    script = Script(ttft_s=1.0, gap_s=0.5, tokens=5, tokens_per_event=2, pings=1, done_after_s=3.0)
    found = list(frames(script, Ask(messages=[])))
    assert [at_s for at_s, _ in found] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.0, 5.0]


def test_the_side_doors_answer() -> None:
    with FakeEngine(model="tiny") as engine:
        assert ask(engine, "GET", "/health") == (200, b"")
        status, body = ask(engine, "GET", "/v1/models")
        assert (status, json.loads(body)["data"][0]["id"]) == (200, "tiny")
        assert ask(engine, "GET", "/nowhere")[0] == 404


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"max_tokens": "many"}'])
def test_a_request_that_is_not_one_is_refused(body: bytes) -> None:
    with FakeEngine() as engine:
        status, answer = ask(engine, "POST", CHAT, body)
    assert status == 400
    assert read_body(answer).error


def test_bytes_that_are_not_http_are_refused() -> None:
    with FakeEngine() as engine:
        address = urlsplit(engine.url)
        with socket.create_connection((str(address.hostname), address.port or 0), timeout=10) as connection:
            connection.sendall(b"\x00\x01\x02\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_a_port_that_is_taken_is_a_clear_error() -> None:
    with FakeEngine() as engine, pytest.raises(WorldError, match="the port cannot be used"):
        FakeEngine(port=urlsplit(engine.url).port or 0)


def test_it_leaves_while_it_is_answering() -> None:
    engine = FakeEngine(Script(ttft_s=30.0))
    with engine:
        address = urlsplit(engine.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
        connection.request("POST", CHAT, chat_body("m", "a", 1), {"Content-Type": "application/json"})
        assert connection.getresponse().status == 200
    connection.close()


def test_it_runs_from_a_shell_until_ctrl_c() -> None:
    argv = [sys.executable, "-m", "unmoor.fake.engine", "--script", '{"ttft_s": 0.0, "tokens": 1}']
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0


@pytest.mark.parametrize("script", ["{", '{"tft_s": 1}', '{"ttft_s": "soon"}'])
def test_a_bad_script_is_a_clear_error(script: str) -> None:
    argv = [sys.executable, "-m", "unmoor.fake.engine", "--script", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--script: the script cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
