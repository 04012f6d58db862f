"""The embedded engine's server: what it reads and writes, and the real engine behind it on a real socket."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from server_modules import server_module

from unmoor.engines.contract import LaunchSpec
from unmoor.engines.registry import engine
from unmoor.launch.process import RunningEngine, free_port, launch, tail

wire = server_module("openai_wire")
text = server_module("answer_text")
schemas = server_module("schemas")
Refusal = server_module("http_wire").Refusal


def parse(asked: object, *, chat: bool = False) -> Any:  # noqa: ANN401 - the module's types are not importable here
    return wire.parse(json.dumps(asked).encode(), chat=chat)


def form(schema: object) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}


REFUSED = [
    ({"prompt": ""}, "prompt"),
    ({"prompt": ["a", "b"]}, "prompt"),
    ({"prompt": [1, 2]}, "prompt"),
    ({}, "prompt"),
    ({"prompt": "a", "n": 2}, "n"),
    ({"prompt": "a", "logprobs": 3}, "logprobs"),
    ({"prompt": "a", "logprobs": 0}, "logprobs"),
    ({"prompt": "a", "n": True}, "n"),
    ({"prompt": "a", "guided_json": {}}, "guided_json"),
    ({"prompt": "a", "temperature": -1}, "temperature"),
    ({"prompt": "a", "temperature": "hot"}, "temperature"),
    ({"prompt": "a", "temperature": True}, "temperature"),
    ({"prompt": "a", "top_p": 0}, "top_p"),
    ({"prompt": "a", "seed": 1.5}, "seed"),
    ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
    ({"prompt": "a", "max_tokens": True}, "max_tokens"),
    ({"prompt": "a", "stop": [""]}, "stop"),
    ({"prompt": "a", "stop": 3}, "stop"),
    ({"prompt": "a", "stream": "yes"}, "stream"),
    ({"prompt": "a", "stream_options": []}, "stream_options"),
    ({"prompt": "a", "response_format": "json"}, "response_format"),
    ({"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema": 3}}}, "response_format"),
    ({"prompt": "a", "model": 3}, "model"),
]


@pytest.mark.parametrize(("asked", "param"), REFUSED, ids=[json.dumps(asked) for asked, _ in REFUSED])
def test_what_cannot_be_honoured_is_refused_with_the_field(asked: object, param: str) -> None:
    with pytest.raises(Refusal) as raised:
        parse(asked)
    assert raised.value.body()["error"]["param"] == param
    assert raised.value.body()["error"]["code"] == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal):
        wire.parse(body, chat=False)


HALF = [
    (b'{"prompt": "a \\ud800 b"}', "prompt"),
    (b'{"prompt": ["a \\uDC00 b"]}', "prompt"),
    (b'{"prompt": "a", "stop": ["\\ud800"]}', "stop"),
    (b'{"prompt": "a", "model": "\\ud800"}', "model"),
    (b'{"prompt": "a", "user": {"\\ud800": 1}}', "user"),
    (b'{"prompt": "a", "x\\ud800": 1}', "x?"),
    (b'{"prompt": "a", "response_format": {"json_schema": {"schema": {"enum": ["\\ud800"]}}}}', "response_format"),
    (b'{"prompt": "a \xed\xa0\x80 b"}', None),
]


@pytest.mark.parametrize(("body", "param"), HALF, ids=[str(body) for body, _ in HALF])
def test_half_a_surrogate_pair_is_refused_wherever_it_is_without_being_repeated(body: bytes, param: str | None) -> None:
    with pytest.raises(Refusal) as raised:
        wire.parse(body, chat=False)
    refusal = raised.value.body()["error"]
    assert (refusal["code"], refusal["param"]) == (400, param)
    assert json.dumps(refusal).isascii()
    assert "ud800" not in json.dumps(refusal)


def test_a_whole_surrogate_pair_and_a_byte_order_mark_are_text() -> None:
    assert wire.parse(b'\xef\xbb\xbf{"prompt": "\\ud83d\\ude00"}', chat=False).prompt == "\U0001f600"


@pytest.mark.parametrize(
    "messages",
    [None, [], "hi", [3], [{"content": "no role"}], [{"role": "user", "content": 3}],
     [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]],
)  # fmt: skip
def test_messages_that_are_no_text_are_refused(messages: object) -> None:
    with pytest.raises(Refusal):
        parse({"messages": messages}, chat=True)


def test_text_parts_are_joined_and_max_completion_tokens_is_understood() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    ask = parse({"messages": [{"role": "user", "content": parts}], "max_completion_tokens": 7}, chat=True)
    assert ask.messages == [{"role": "user", "content": "ab"}]
    assert ask.max_tokens == 7


def pieces_of(tokens: list[str], stops: tuple[str, ...] = ()) -> Iterator[str]:
    """What `Text` releases when `tokens` come one by one; bytes of a split character are shown as U+FFFD."""
    raw = [token.encode("latin-1") for token in tokens]

    def decode(ids: list[int]) -> str:
        return b"".join(raw[one] for one in ids).decode(errors="replace")

    made = text.Text(decode, stops)
    for at in range(len(raw)):
        yield made.add([at], last=at == len(raw) - 1)


def test_a_character_of_several_tokens_comes_whole() -> None:
    star = [chr(byte) for byte in "★".encode()]
    assert list(pieces_of(["a", *star, "b"])) == ["a", "", "", "★", "b"]


def test_a_character_cut_off_at_the_end_is_shown_as_cut_off() -> None:
    assert "".join(pieces_of(["a", "\xe2", "\x98"])).startswith("a")


@pytest.mark.parametrize(
    ("tokens", "stops", "released"),
    [
        (["one", " STO", "P two"], ("STOP",), "one "),
        (["one", " STO", "NE"], ("STOP",), "one STONE"),
        (["ab", "c"], ("c", "b"), "a"),
        (["x"], ("x",), ""),
        (["aa", "ab"], ("aab",), "a"),
    ],
)
def test_stop_texts_never_leak_and_what_only_looked_like_one_does_come(
    tokens: list[str], stops: tuple[str, ...], released: str
) -> None:
    got = ""
    for piece in pieces_of(tokens, stops):
        got += piece
    assert got == released


UNUSABLE: list[tuple[object, str]] = [
    ({"type": "nonsense"}, "'type'"),
    ({"type": ["string", 3]}, "'type'"),
    ({"properties": {"a": {"type": "nonsense"}}}, "'type'"),
    ({"anyOf": [{"items": {"enum": []}}]}, "'enum'"),
    ({"enum": 3}, "'enum'"),
    ({"$ref": "#/nowhere"}, "'$ref'"),
    ({"$ref": "https://example.org/schema"}, "'$ref'"),
    ({"$defs": {"a": {"$ref": "#/$defs/b"}}}, "'$ref'"),
    ({"pattern": "(?<=x"}, "'pattern'"),
    ({"pattern": "a(?!x)b"}, "'pattern'"),
    ({"pattern": "(a)\\1"}, "'pattern'"),
    ({"pattern": "\\bfoo"}, "'pattern'"),
    ({"minLength": 5, "maxLength": 2}, "more than its most"),
    ({"pattern": "^(a{1,1000}){1,1000}$"}, "'pattern'"),
    ({"patternProperties": {"(?=a)": {}}}, "'pattern'"),
    ({"minLength": 100_000}, "'minLength'"),
    ({"maxItems": -1}, "'maxItems'"),
    ({"items": 3}, "a schema"),
    ({"properties": {f"p{i}": {"enum": [f"v{j}" for j in range(30)]} for i in range(1000)}}, "bytes"),
]


@pytest.mark.parametrize(("schema", "said"), UNUSABLE, ids=[str(schema)[:50] for schema, _ in UNUSABLE])
def test_a_schema_that_cannot_work_is_refused_before_the_engine_sees_it(schema: object, said: str) -> None:
    with pytest.raises(Refusal, match="this schema cannot be used") as raised:
        parse({"prompt": "a", **form(schema)})
    assert said in raised.value.message


def test_a_deep_schema_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    assert schemas.fault_of(schema) == "it is nested more than 64 deep"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"type": {"type": "string"}, "enum": {}, "$ref": {}}},
        {"$defs": {"a/b": {"type": "object"}}, "$ref": "#/$defs/a~1b"},
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"anyOf": [{"type": ["string", "null"]}, {"$ref": "#/anyOf/0"}], "additionalProperties": False},
        {"enum": [{"type": "nonsense", "$ref": 3}], "default": {"enum": []}},
        {"pattern": "^(?:a|b){2,5}$", "minLength": 2},
    ],
)
def test_a_schema_that_may_work_is_left_to_the_engine(schema: dict[str, Any]) -> None:
    assert schemas.fault_of(schema) is None


def test_what_was_tried_is_remembered_and_the_oldest_forgotten() -> None:
    tried = schemas.Tried()
    tried.note("good", None)
    tried.note("bad", "no")
    assert (tried.knows("good"), tried.fault("good"), tried.fault("bad"), tried.knows("new")) == (
        True,
        None,
        "no",
        False,
    )
    for at in range(schemas.REMEMBERED):
        tried.note(str(at), None)
    assert not tried.knows("good")


# The real engine.


def post(running: RunningEngine, path: str, asked: dict[str, Any]) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(running.host, running.port, timeout=60)
    connection.request("POST", path, json.dumps(asked), {"Content-Type": "application/json"})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, json.loads(body)


def stream(running: RunningEngine, path: str, asked: dict[str, Any]) -> list[Any]:
    connection = http.client.HTTPConnection(running.host, running.port, timeout=60)
    connection.request("POST", path, json.dumps({**asked, "stream": True}))
    lines = connection.getresponse().read().decode().split("\n\n")
    connection.close()
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def get(running: RunningEngine, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(running.host, running.port, timeout=60)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def gauge(running: RunningEngine, name: str) -> float:
    _, body = get(running, "/metrics")
    return next(float(line.split()[1]) for line in body.splitlines() if line.startswith(f"openvino_{name} "))


def until(true: Callable[[], bool], *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and not true():
        time.sleep(0.05)
    return true()


BREAKS_THE_ENGINE = {"type": "integer", "minimum": 10, "maximum": 2}
CAPITAL = {"model": "demo", "prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
LONG = {"model": "demo", "prompt": "Count: one, two,", "max_tokens": 900, "temperature": 0, "ignore_eos": True}
CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8, "temperature": 0}


@pytest.mark.real_engine
def test_a_clear_answer_is_right_whole_and_streamed(embedded: RunningEngine) -> None:
    status, whole = post(embedded, "/v1/completions", CAPITAL)
    assert status == 200
    assert whole["choices"][0]["text"].startswith(" Paris")
    assert whole["usage"] == {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
    events = stream(embedded, "/v1/completions", CAPITAL)
    assert "".join(event["choices"][0]["text"] for event in events) == whole["choices"][0]["text"]
    assert events[-1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.real_engine
def test_a_chat_streams_the_role_first_and_the_usage_last(embedded: RunningEngine) -> None:
    events = stream(embedded, "/v1/chat/completions", {**CHAT, "stream_options": {"include_usage": True}})
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert events[1]["choices"][0]["delta"]["content"]
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 8
    # It is not told what came from the cache, so nothing is claimed.
    assert "prompt_tokens_details" not in events[-1]["usage"]


@pytest.mark.real_engine
def test_a_schema_is_obeyed_and_one_that_cannot_be_used_breaks_nothing(embedded: RunningEngine) -> None:
    number = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    status, body = post(embedded, "/v1/chat/completions", {**CHAT, "max_tokens": 40, **form(number)})
    assert status == 200
    assert json.loads(body["choices"][0]["message"]["content"])["n"] in {1, 2}
    status, body = post(embedded, "/v1/completions", {**CAPITAL, **form({"type": "nonsense"})})
    assert (status, body["error"]["param"]) == (400, "response_format")
    assert post(embedded, "/v1/completions", CAPITAL)[0] == 200
    assert "nonsense" not in tail(embedded.log_path)


@pytest.mark.real_engine
def test_a_schema_that_breaks_the_engine_costs_nobody_else_an_answer(embedded: RunningEngine) -> None:
    broken = {**CAPITAL, **form(BREAKS_THE_ENGINE)}
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(post, embedded, "/v1/completions", {**LONG, "max_tokens": 60}) for _ in range(3)]
        assert until(lambda: gauge(embedded, "requests_running") > 0, within_s=10)
        status, body = post(embedded, "/v1/completions", broken)
        assert [other.result()[0] for other in others] == [200] * 3
    assert (status, body["error"]["param"]) == (400, "response_format")
    before = embedded.log_path.read_text().count("rebuilt")
    assert post(embedded, "/v1/completions", broken)[0] == 400
    assert embedded.log_path.read_text().count("rebuilt") == before  # remembered, not tried again


def send(running: RunningEngine, sent: bytes) -> bytes:
    with socket.create_connection((running.host, running.port), timeout=20) as client:
        client.sendall(sent)
        got = b""
        while piece := client.recv(65536):
            got += piece
    return got


def as_post(path: str, body: bytes, *, headers: str = "Connection: close\r\n", version: str = "1.1") -> bytes:
    return f"POST {path} HTTP/{version}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


@pytest.mark.real_engine
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", b'{"prompt": "a-secret-word \\ud800"}'),
        ("/v1/completions", b'{"prompt": "a-secret-word \\u0000", "max_tokens": 1}'),
        ("/v1/completions", b'{"prompt": "a-secret-word", "stop": ["\\ud800"]}'),
        ("/v1/completions", json.dumps({"prompt": "a", **form({"pattern": "a-secret-word(?<=x"})}).encode()),
        ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": "a-secret-word \\udc00"}]}'),
        ("/v1/chat/completions", b'{"max_tokens": 1, "messages": [{"role": "a-secret-word", "content": "x"}]}'),
        ("/a-secret-word", b"{"),
    ],
)  # fmt: skip
def test_nothing_that_a_client_sends_is_in_the_log(embedded: RunningEngine, path: str, body: bytes) -> None:
    status = send(embedded, as_post(path, body)).split(b" ", 2)[1]
    assert status in {b"200", b"400", b"404"}
    assert get(embedded, "/health")[0] == 200
    assert "a-secret-word" not in embedded.log_path.read_text()


@pytest.mark.real_engine
@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("/v1/completions", {**CAPITAL, "model": "other"}, 404),
        ("/v1/completions", {**CAPITAL, "prompt": "word " * 1100}, 400),
        ("/v1/completions", {**CAPITAL, "max_tokens": 1020}, 400),
        ("/v1/completions", {**CAPITAL, "n": 3}, 400),
        ("/v1/nothing", CAPITAL, 404),
        ("/health", CAPITAL, 405),
    ],
)
def test_bad_requests_get_openai_shaped_errors(
    embedded: RunningEngine, path: str, asked: dict[str, Any], status: int
) -> None:
    seen, body = post(embedded, path, asked)
    assert seen == status
    assert set(body["error"]) == {"message", "type", "param", "code"}


@pytest.mark.real_engine
def test_requests_share_steps_and_a_stop_text_ends_one(embedded: RunningEngine) -> None:
    with ThreadPoolExecutor(8) as pool:
        stop = {**CAPITAL, "max_tokens": 40, "stop": ["\n"]}
        answers = list(pool.map(lambda _: post(embedded, "/v1/completions", stop), range(8)))
    for status, body in answers:
        assert status == 200
        assert body["choices"][0]["text"] == " Paris."
        assert body["choices"][0]["finish_reason"] == "stop"


@pytest.mark.real_engine
@pytest.mark.parametrize("streamed", [True, False])
def test_a_client_that_leaves_frees_its_place(embedded: RunningEngine, streamed: bool) -> None:  # noqa: FBT001 - a parameter
    connection = http.client.HTTPConnection(embedded.host, embedded.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps({**LONG, "stream": streamed}))
    assert until(lambda: gauge(embedded, "requests_running") == 1, within_s=10)
    connection.close()
    assert until(lambda: gauge(embedded, "requests_running") == 0, within_s=3)


@pytest.mark.real_engine
def test_one_connection_serves_many_requests(embedded: RunningEngine) -> None:
    connection = http.client.HTTPConnection(embedded.host, embedded.port, timeout=60)
    connection.connect()
    first = connection.sock
    for path in ("/v1/models", "/health", "/v1/models"):
        connection.request("GET", path)
        assert connection.getresponse().read()
    connection.request("POST", "/v1/completions", json.dumps({**CAPITAL, "stream": True}))
    assert connection.getresponse().read().endswith(b"data: [DONE]\n\n")
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    assert connection.sock is first
    connection.close()


@pytest.mark.real_engine
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /health HTTP/2.0\r\n\r\n", b"400"),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n", b"413"),
        (b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"411"),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b"413"),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 17000000\r\n\r\n" + b"a" * 17_000_000, b"413"),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", b"400"),
        (b"GET /health HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", b"431"),
    ],
)
def test_broken_http_is_refused_and_the_connection_closed(embedded: RunningEngine, sent: bytes, status: bytes) -> None:
    with socket.create_connection((embedded.host, embedded.port), timeout=10) as client:
        client.sendall(sent)
        got = b""
        while piece := client.recv(65536):
            got += piece
    assert got.split(b" ", 2)[1] == status


@pytest.mark.real_engine
@pytest.mark.parametrize("headers", ["Connection: keep-alive, Close\r\n", "Connection: x\r\nConnection: close\r\n"])
def test_close_among_other_words_is_honoured(embedded: RunningEngine, headers: str) -> None:
    got = send(embedded, as_post("/v1/completions", json.dumps(CAPITAL).encode(), headers=headers))
    assert b"Connection: close\r\n" in got


@pytest.mark.real_engine
def test_a_stream_over_http_1_0_is_not_in_chunks_and_ends_with_the_connection(embedded: RunningEngine) -> None:
    body = json.dumps({**CAPITAL, "stream": True}).encode()
    got = send(embedded, as_post("/v1/completions", body, headers="Connection: keep-alive\r\n", version="1.0"))
    head, _, events = got.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert events.startswith(b"data: {")
    assert events.endswith(b"data: [DONE]\n\n")


@pytest.mark.real_engine
@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics"])
def test_head_is_answered_without_a_body(embedded: RunningEngine, path: str) -> None:
    head, _, body = send(embedded, f"HEAD {path} HTTP/1.1\r\nConnection: close\r\n\r\n".encode()).partition(b"\r\n\r\n")
    assert head.split(b" ", 2)[1] == b"200"
    assert body == b""


@pytest.mark.real_engine
@pytest.mark.parametrize("temperature", [1e-300, 1e-9, 1e-5, 1e-3])
def test_a_temperature_near_zero_gives_the_likeliest_tokens(embedded: RunningEngine, temperature: float) -> None:
    status, body = post(embedded, "/v1/completions", {**CAPITAL, "temperature": temperature})
    assert (status, body["choices"][0]["text"][:6]) == (200, " Paris")


@pytest.mark.real_engine
def test_a_client_that_sent_more_than_its_request_and_left_is_noticed(embedded: RunningEngine) -> None:
    with socket.create_connection((embedded.host, embedded.port), timeout=10) as client:
        client.sendall(as_post("/v1/completions", json.dumps(LONG).encode(), headers="") + b"and more")
        assert until(lambda: gauge(embedded, "requests_running") == 1, within_s=10)
    assert until(lambda: gauge(embedded, "requests_running") == 0, within_s=3)


@pytest.mark.real_engine
def test_at_the_end_of_the_server_what_is_in_flight_gets_an_answer(embedded_spec: LaunchSpec, log_path: Path) -> None:
    spec = msgspec.structs.replace(embedded_spec, port=free_port(), context_tokens=8000)
    endless = json.dumps({**LONG, "max_tokens": 7900}).encode()
    streamed = json.dumps({**LONG, "max_tokens": 7900, "stream": True}).encode()
    with (
        ThreadPoolExecutor(2) as pool,
        launch(engine("openvino"), spec, {}, log_path=log_path, ready_timeout_s=120, say=lambda _: None) as running,
    ):
        answers = [pool.submit(send, running, as_post("/v1/completions", body)) for body in (endless, streamed)]
        assert until(lambda: gauge(running, "requests_running") == 2, within_s=10)
        running.stop()
        whole, stream = (answer.result() for answer in answers)
    assert whole.startswith(b"HTTP/1.1 503 ")
    assert b"the server is shutting down" in stream
    assert stream.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


@pytest.mark.real_engine
def test_max_running_is_kept_and_the_rest_wait_in_order(embedded_spec: LaunchSpec, log_path: Path) -> None:
    spec = msgspec.structs.replace(embedded_spec, port=free_port())
    settings = {"max_running": 2, "prefix_caching": True}
    with (
        launch(
            engine("openvino"), spec, settings, log_path=log_path, ready_timeout_s=120, say=lambda _: None
        ) as running,
        ThreadPoolExecutor(5) as pool,
    ):
        some = {**LONG, "max_tokens": 60}
        answers = [pool.submit(post, running, "/v1/completions", some) for _ in range(5)]
        assert until(lambda: gauge(running, "requests_waiting") == 3, within_s=10)
        assert gauge(running, "requests_running") <= 2
        assert [answer.result()[0] for answer in answers] == [200] * 5


@pytest.mark.real_engine
def test_metrics_count_tokens(embedded: RunningEngine) -> None:
    before = gauge(embedded, "generation_tokens_total")
    post(embedded, "/v1/completions", CAPITAL)
    assert gauge(embedded, "generation_tokens_total") == before + 4
    assert 0 <= gauge(embedded, "kv_cache_usage") <= 1
    assert gauge(embedded, "requests_waiting") == 0
