"""Which outputs are kept for parsers, as the model wrote them or as parsers left them."""

from __future__ import annotations

from typing import Any

import pytest

from unmoor.leave.reading.answers import MOST_SAMPLES, read_answer
from unmoor.leave.uses import Uses

TOOLS = [{"type": "function", "function": {"name": "f"}}]
RAW = "<think>hm</think>Yes."


def kept(message: object, **body: object) -> Uses:
    uses = Uses()
    read_answer(uses, 7, {"choices": [{"message": message}]}, body)
    return uses


def test_raw_output_goes_before_content_and_is_counted() -> None:
    uses = kept({"raw": RAW, "content": "Yes.", "reasoning": "hm"}, model="m", tools=TOOLS)
    (sample,) = uses.raw_outputs
    assert (sample.text, sample.parsed, sample.reasoning, sample.model) == (RAW, False, "", "m")
    assert sample.tools == tuple(TOOLS)
    assert list(uses.rows("message.raw", "answer")) == [7]


def test_marks_in_content_make_it_a_raw_output() -> None:
    assert [one.parsed for one in kept({"content": RAW}).raw_outputs] == [False]
    assert kept({"content": "Yes."}).raw_outputs == []
    json_call = '{"name": "f", "parameters": {}}'
    assert len(kept({"content": json_call}, tools=TOOLS).raw_outputs) == 1
    assert kept({"content": json_call}).raw_outputs == []


def test_what_parsers_left_is_kept_with_its_parts() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    decoded = {"type": "function", "function": {"name": "g", "arguments": {"a": 1}}}
    uses = kept({"content": None, "tool_calls": [call, decoded], "reasoning_content": "hm"}, tools=TOOLS)
    (sample,) = uses.raw_outputs
    assert sample.parsed
    assert sample.calls == (("f", '{"a": 1}'), ("g", '{"a":1}'))
    assert (sample.text, sample.reasoning) == ("", "hm")
    assert not uses.rows("message.raw", "answer")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}])
def test_a_forced_call_is_not_kept(choice: object) -> None:
    assert kept({"content": RAW}, tools=TOOLS, tool_choice=choice).raw_outputs == []


def test_tools_that_may_not_be_called_are_left_out() -> None:
    (sample,) = kept({"content": RAW}, tools=TOOLS, tool_choice="none").raw_outputs
    assert sample.tools == ()


@pytest.mark.parametrize(
    "message",
    [
        {"content": [{"type": "text", "text": RAW}]},
        {"content": 5, "tool_calls": "none", "reasoning": ["hm"]},
        {"tool_calls": [5, {"function": None}, {"function": {"name": 3}}]},
        {"raw": {"text": RAW}},
        {"content": RAW + "x" * 200_000},
    ],
)
def test_what_is_no_output_is_passed_over(message: dict[str, Any]) -> None:
    assert kept(message, tools={"f": 1}, chat_template_kwargs=[1], model=5).raw_outputs == []


def test_so_many_are_kept() -> None:
    uses = Uses()
    for line in range(MOST_SAMPLES + 5):
        read_answer(uses, line, {"choices": [{"message": {"content": RAW}}]}, {})
    assert len(uses.raw_outputs) == MOST_SAMPLES
