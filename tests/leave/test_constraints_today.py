"""Constraints as the source treats them today: those that it ignores do not count, those that it refuses are told."""

from __future__ import annotations

from typing import Any

import pytest
from behaviour_log import Record, chat, of_kind, said, uses_of

from unmoor.engines.surface.load import surface
from unmoor.leave.case import Case
from unmoor.leave.check import check_move
from unmoor.leave.finding import Finding, MoveReport
from unmoor.leave.schemas.ask import ask_schemas

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
UNIQUE = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}


def form(schema: dict[str, Any]) -> Record:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


def checked(source: str, target: str, *records: Record) -> MoveReport:
    uses, here, there = uses_of(records), surface(source), surface(target)
    answers = ask_schemas(uses, here, there, say=lambda _: None)
    return check_move(Case(uses=uses, source=here, target=there, schemas=answers))


def kinds_of(findings: tuple[Finding, ...]) -> set[str]:
    return {one.kind for one in findings}


def test_a_backend_that_is_missing_is_one_flag_to_pass_and_told_once() -> None:
    log = [chat(response_format=form(SCHEMA)), chat(response_format={"type": "json_object"})]
    report = checked("vllm@0.33.0", "tensorrt-llm", *log)
    (told,) = of_kind(report.findings, "UM138")
    assert (told.outcome, told.severity, told.lines) == ("translated", "error", (1, 2))
    assert told.needs == ("guided_decoding_backend",)
    assert "`guided_decoding_backend: xgrammar` (or llguidance)" in told.fix
    assert "UM140" not in kinds_of(report.findings)
    assert not report.loses


def test_without_a_schema_the_field_tells_of_the_backend_and_its_value() -> None:
    report = checked("vllm@0.33.0", "tensorrt-llm", chat(response_format={"type": "json_object"}))
    (told,) = of_kind(report.findings, "UM140")
    assert told.fix == "Start TensorRT-LLM with `guided_decoding_backend: xgrammar` (or llguidance)."
    assert "UM138" not in kinds_of(report.findings)


@pytest.mark.parametrize("more", [0, 1])
def test_a_constraint_that_the_source_ignores_does_not_count(more: int) -> None:
    log = [chat(guided_json=SCHEMA), *[chat(response_format=form(SCHEMA))] * more]
    told = of_kind(checked("vllm@0.33.0", "tensorrt-llm", *log).findings, "UM138")
    assert [one.lines for one in told] == [(2,)] * more


def test_what_both_sides_refuse_is_a_note() -> None:
    (told,) = of_kind(checked("vllm@0.33.0", "sglang", chat(response_format=form(UNIQUE))).findings, "UM136")
    assert (told.outcome, told.severity) == ("same", "note")
    assert "vLLM and SGLang both refuse it: uniqueItems." in told.seen


def test_answers_to_what_the_source_refuses_contradict_its_surface() -> None:
    log = [chat(said(), response_format=form(UNIQUE)), {**chat(response_format=form(UNIQUE)), "status": 400}]
    (told,) = of_kind(checked("vllm@0.33.0", "sglang", *log).findings, "UM136")
    assert (told.outcome, told.severity, told.requests) == ("same", "warning", 2)
    assert "the log has answers to 1 request with it" in told.seen
    assert "it is not vLLM 0.33.0" in told.fix


def test_an_array_that_no_side_refuses_is_no_finding() -> None:
    plain = {"type": "array", "items": {"type": "string"}}
    assert of_kind(checked("vllm@0.33.0", "sglang", chat(said(), response_format=form(plain))).findings, "UM136") == []
