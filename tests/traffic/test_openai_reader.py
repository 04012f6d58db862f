from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unmoor.core.errors import TrafficError
from unmoor.traffic.entry import Entry
from unmoor.traffic.log import Traffic
from unmoor.traffic.pieces import BytesCutter
from unmoor.traffic.readers import read_traffic

ROOT = Path(__file__).parent.parent.parent
CHAT: dict[str, Any] = {
    "model": "m",
    "temperature": 0.5,
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": [{"text": "Hello"}]}],
    "tools": [{"type": "function", "function": {"name": "find", "parameters": {}}}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
}
USAGE = {"prompt_tokens": 21, "completion_tokens": 7}
ANSWER = {"choices": [{"message": {"role": "assistant", "content": "Hi there"}}], "usage": USAGE}


def read(*rows: dict[str, Any]) -> tuple[Traffic, list[Entry]]:
    seen: list[Entry] = []
    content = "\n".join(json.dumps(row) for row in rows).encode()
    traffic = read_traffic(
        content, where="log", cutter=BytesCutter(b"key"), watch=lambda _, entry: seen.append(entry), most_broken=0
    )
    assert traffic.format == "openai"
    return traffic, seen


@pytest.mark.parametrize(
    "row",
    [
        {"timestamp": "2026-11-30T09:00:00Z", "request": CHAT, "response": ANSWER, "duration_s": 2.0, "team": "t"},
        {"startTime": "2026-11-30T09:00:00Z", "endTime": "2026-11-30T09:00:02Z", "input": CHAT, "output": ANSWER}
        | {"metadata": {"team": "t"}},
        {"time": 1796029200, "request_body": json.dumps(CHAT), "response": json.dumps(ANSWER), "latency_ms": 2000}
        | {"team_id": "t"},
        {"start_time": 1796029200.0, "proxy_server_request": {"url": "/v1", "body": CHAT}, "response": ANSWER}
        | {"latency": 2, "team": "t"},
    ],
    ids=["plain", "ends", "texts", "nested"],
)
def test_a_body_is_found_in_what_gateways_wrap_around_it(row: dict[str, Any]) -> None:
    traffic, (entry,) = read(row)
    assert traffic.timed
    assert (entry.input_tokens, entry.output_tokens, entry.answer_bytes) == (21, 7, 8)
    assert entry.took_s == pytest.approx(2)
    assert (entry.tenant, entry.model, entry.tools) == ("t", "m", ("find",))
    assert entry.sampling == {"temperature": 0.5}
    assert entry.schema is not None
    assert entry.schema.startswith("json_schema:")


SAID = [{"role": "user", "content": "Hello"}]
LITELLM = {
    "request_id": "x",
    "call_type": "acompletion",
    "model": "m",
    "startTime": "2026-11-30 09:00:00.500",
    "endTime": "2026-11-30 09:00:02.500",
    "messages": SAID,
    "response": json.dumps({"choices": ANSWER["choices"]}),
    "prompt_tokens": 21,
    "completion_tokens": 7,
    "team_id": "t",
    "session_id": "s",
}
LANGFUSE = {
    "id": "x",
    "type": "GENERATION",
    "startTime": "2026-11-30T09:00:00.500Z",
    "endTime": "2026-11-30T09:00:02.500Z",
    "model": "m",
    "modelParameters": {"temperature": 1},
    "input": SAID,
    "output": {"role": "assistant", "content": "Hi there"},
    "usage": {"input": 21, "output": 7, "total": 28, "unit": "TOKENS"},
    "userId": "t",
    "sessionId": "s",
}


@pytest.mark.parametrize("row", [LITELLM, LANGFUSE], ids=["litellm", "langfuse"])
def test_exports_of_two_gateways_are_read_as_they_come(row: dict[str, Any]) -> None:
    traffic, (entry,) = read(row)
    assert traffic.timed
    assert (entry.input_tokens, entry.output_tokens) == (21, 7)
    assert entry.took_s == pytest.approx(2)
    assert (entry.tenant, entry.session, entry.model) == ("t", "s", "m")
    array = json.dumps([row, row]).encode()
    assert len(read_traffic(array, where="log", cutter=BytesCutter(b"key"))) == 2


def test_bodies_come_bare_in_three_forms() -> None:
    responses = {"model": "m", "instructions": "Be kind.", "input": [{"role": "user", "content": "Hello"}]}
    traffic, entries = read(CHAT, {"model": "m", "prompt": "Once upon"}, responses)
    assert not traffic.timed
    prompts = [entry.content for entry in entries]
    texts = [
        [part.text for part in prompt.parts] for prompt in prompts if prompt is not None and hasattr(prompt, "parts")
    ]
    assert texts == [["Be kind.", "Hello"], ["Once upon"], ["Be kind.", "Hello"]]


def test_the_order_of_a_schemas_keys_makes_no_other_schema() -> None:
    one = CHAT | {"response_format": None, "guided_json": {"a": 1, "b": 2}}
    other = CHAT | {"response_format": None, "guided_json": {"b": 2, "a": 1}}
    _, (first, second) = read(one, other)
    assert first.schema == second.schema


@pytest.mark.parametrize(
    "bad", [{"model": "m", "prompt": [1, 2, 3]}, {"a": "secret words"}, {"messages": ["secret words"]}]
)
def test_what_is_no_text_is_broken_and_never_quoted(bad: dict[str, Any]) -> None:
    with pytest.raises(TrafficError) as raised:
        read(CHAT, bad)
    assert "log:2" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_the_example_of_a_gateways_log_is_read_whole() -> None:
    content = (ROOT / "examples" / "gateway-log" / "requests.jsonl.gz").read_bytes()
    traffic = read_traffic(content, where="log", cutter=BytesCutter(b"key"))
    assert (traffic.format, len(traffic), traffic.skipped_lines) == ("openai", 132, 0)
    assert traffic.grain is not None
    assert traffic.grain.ratio_measured
