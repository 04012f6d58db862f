"""What requests and answers use, as it is read from a log of bodies."""

from __future__ import annotations

import json
from typing import Any

from unmoor.leave.reading.read import read_uses
from unmoor.leave.uses import ABSENT, Use, Uses
from unmoor.traffic.readers import read_traffic

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello there"}], "max_tokens": 5}


def uses_of(*records: dict[str, Any]) -> Uses:
    log = "\n".join(json.dumps(record) for record in records).encode()
    return read_uses(lambda cutter, watch: read_traffic(log, where="log", cutter=cutter, watch=watch))[0]


def wrapped(body: dict[str, Any], **answer: Any) -> dict[str, Any]:  # noqa: ANN401 - an answer is any JSON
    return {"timestamp": "2026-11-30T09:00:00Z", "request": body, "response": answer}


def test_fields_and_their_values_are_counted_by_line() -> None:
    uses = uses_of(wrapped({**CHAT, "top_k": 0}), wrapped(CHAT), wrapped({**CHAT, "top_k": 0, "foo": "private"}))
    assert (uses.requests, uses.bodies) == (3, 3)
    assert tuple(uses.by_use[Use("chat", "top_k", 0)]) == (1, 3)
    assert tuple(uses.by_use[Use("chat", "top_k", ABSENT)]) == (2,)
    assert tuple(uses.by_use[Use("chat", "foo", "<text>")]) == (3,)
    assert "private" not in repr(uses)


def test_a_body_with_several_prompts_is_one_request() -> None:
    uses = uses_of(wrapped({"model": "m", "prompt": ["one prompt", "and another"], "n": 2}), wrapped(CHAT))
    assert uses.requests == 2
    assert tuple(uses.rows("n")) == (1,)


def test_fields_within_objects_and_constraints_are_read_once() -> None:
    schema = {"type": "object", "properties": {"secret": {"type": "string"}}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    uses = uses_of(*[wrapped({**CHAT, "response_format": form})] * 3, wrapped({**CHAT, "guided_json": schema}))
    assert [constraint.content for constraint in uses.constraints.values()] == [schema]
    assert [tuple(rows) for rows in uses.by_constraint.values()] == [(1, 2, 3, 4)]
    assert tuple(uses.by_use[Use("chat", "response_format.type", "json_schema")]) == (1, 2, 3)


def test_numbers_beyond_a_thousand_are_kept_where_they_widen_the_range() -> None:
    uses = uses_of(*(wrapped({**CHAT, "max_tokens": tokens}) for tokens in [*range(1, 1500), 7, -1]))
    kept = {use.value for use in uses.of("max_tokens")}
    assert {1, 1000, 1499, -1} <= kept
    assert "<number>" not in {use.value for use in uses.of("top_k")}


def test_answers_are_read_for_what_clients_could_rely_on() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}], "reasoning": "well"}
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}}
    uses = uses_of(wrapped(CHAT, choices=[{"message": message, "finish_reason": "tool_calls"}], usage=usage))
    assert {
        Use("answer", "usage.cached_tokens", "<number>"),
        Use("answer", "finish_reason", "tool_calls"),
        Use("answer", "message.reasoning", "<text>"),
        Use("answer", "message.tool_calls", "<list>"),
        Use("answer", "message.content beside tool_calls", "null"),
    } <= set(uses.by_use)
