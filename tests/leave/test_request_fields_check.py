"""Fields of requests: each kind fires on a small log for a named pair of engines, and not on its clean twin."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from behaviour_log import Record, case_of, chat, completion

from unmoor.leave.check import check_move
from unmoor.leave.checks.request_fields import CHECK
from unmoor.leave.finding import Finding

SCHEMA = {"type": "object", "properties": {"secret_name": {"type": "string"}}, "required": ["secret_name"]}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


class Example(NamedTuple):
    """A request on which a kind fires in a move, and the twin on which it does not."""

    kind: str
    source: str
    target: str
    outcome: str
    fires: Record
    clean: Record


EXAMPLES = (
    Example("UM104", "vllm", "sglang", "translated", chat(top_k=0), chat(top_k=-1)),
    Example("UM104", "vllm", "tensorrt-llm", "translated", chat(top_k=-1), chat(top_k=5)),
    Example("UM104", "vllm", "sglang", "lost", chat(repetition_penalty=2.5), chat(repetition_penalty=1.1)),
    Example("UM104", "sglang", "vllm", "lost", chat(max_tokens=0), chat(max_tokens=1)),
    Example("UM105", "vllm", "tensorrt-llm", "translated", chat(store=True), chat()),
    Example("UM156", "vllm", "tensorrt-llm", "translated", chat(guided_json=SCHEMA), chat(response_format=FORM)),
    Example("UM105", "sglang", "tensorrt-llm", "translated", chat(no_such_field=1), chat()),
    Example(
        "UM106", "vllm", "sglang", "translated", chat(structured_outputs={"regex": "a+"}), chat(response_format=FORM)
    ),
    Example("UM106", "sglang", "vllm", "translated", chat(regex="a+"), chat(response_format=FORM)),
    Example("UM156", "vllm", "sglang", "same", chat(guided_json=SCHEMA), chat(response_format=FORM)),
    Example("UM106", "sglang", "llama-cpp", "lost", chat(regex="a+"), chat(response_format=FORM)),
    Example("UM124", "vllm", "sglang", "lost", chat(truncate_prompt_tokens=9), chat()),
    Example("UM124", "vllm", "sglang", "translated", chat(regex="a+"), chat()),
    Example("UM124", "vllm", "sglang", "same", chat(no_such_field=1), chat()),
    Example("UM139", "vllm", "llama-cpp", "translated", chat(repetition_penalty=1.1), chat(frequency_penalty=0.1)),
    Example("UM140", "vllm", "sglang", "translated", chat(seed=1, temperature=0), chat()),
)


def found(source: str, target: str, record: Record) -> list[Finding]:
    findings = check_move(case_of(source, target, [chat(), record, completion()])).findings
    return [finding for finding in findings if finding.kind in {kind.id for kind in CHECK.kinds}]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: f"{one.kind}-{one.source}-{one.target}-{one.outcome}")
def test_a_kind_fires_on_its_request_alone_and_not_on_the_clean_twin(example: Example) -> None:
    fired = [one for one in found(example.source, example.target, example.fires) if one.kind == example.kind]
    assert [one.outcome for one in fired] == [example.outcome]
    assert fired[0].lines == (2,)
    assert fired[0].sources
    assert "secret_name" not in str(fired)
    assert [one for one in found(example.source, example.target, example.clean) if one.kind == example.kind] == []


def test_a_constraint_that_does_nothing_today_is_told_with_its_name_on_each_side() -> None:
    (told,) = found("vllm@0.33.0", "sglang", chat(guided_json=SCHEMA))
    assert (told.kind, told.outcome, told.severity) == ("UM156", "same", "error")
    schema = "`response_format.json_schema.schema` with `response_format.type` = 'json_schema'"
    assert told.fix == (
        f"vLLM reads it in {schema}, or in `structured_outputs.json`; SGLang reads it in {schema}, or in `json_schema`."
    )


def test_every_kind_of_field_has_an_example() -> None:
    assert {example.kind for example in EXAMPLES} == {kind.id for kind in CHECK.kinds}


@pytest.mark.parametrize("target", ["sglang", "tensorrt-llm", "llama-cpp", "vllm@0.32.0"])
def test_plain_requests_find_nothing(target: str) -> None:
    assert found("vllm@0.33.0", target, chat(frequency_penalty=0.1, n=1, stream=True)) == []
