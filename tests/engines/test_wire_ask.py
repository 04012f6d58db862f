from __future__ import annotations

import json

import pytest

from unmoor.core.errors import UsageError
from unmoor.engines.wire import AnswerForm, chat_body, completion_body, responses_body

SCHEMA = b'{"type":"object","required":["city"]}'
TOOL = {"type": "function", "function": {"name": "weather", "description": "w", "parameters": {"type": "object"}}}
TOOLS = json.dumps([TOOL]).encode()


def test_a_responses_body_is_not_to_be_stored() -> None:
    assert json.loads(responses_body("m", "Grüße", 8, ignore_eos=True, seed=0)) == {
        "model": "m",
        "input": "Grüße",
        "max_output_tokens": 8,
        "store": False,
        "temperature": 0.0,
        "stream": True,
        "ignore_eos": True,
        "seed": 0,
    }


def test_an_answer_in_one_piece_is_asked_for_by_no_stream() -> None:
    for body in (chat_body, completion_body, responses_body):
        asked = json.loads(body("m", "p", 8, form=AnswerForm(stream=False)))
        assert not {"stream", "stream_options"} & set(asked)


def test_a_schema_is_asked_for_in_each_endpoints_own_words() -> None:
    form = AnswerForm(schema=SCHEMA)
    named = {"name": "answer", "schema": json.loads(SCHEMA), "strict": True}
    for body in (chat_body, completion_body):
        assert json.loads(body("m", "p", 8, form=form))["response_format"] == {
            "type": "json_schema",
            "json_schema": named,
        }
    assert json.loads(responses_body("m", "p", 8, form=form))["text"] == {"format": {"type": "json_schema", **named}}


def test_tools_are_flat_in_the_responses_endpoint() -> None:
    form = AnswerForm(tools=TOOLS)
    assert json.loads(chat_body("m", "p", 8, form=form))["tools"] == [TOOL]
    flat = {"type": "function", "name": "weather", "description": "w", "parameters": {"type": "object"}}
    assert json.loads(responses_body("m", "p", 8, form=form))["tools"] == [flat]


@pytest.mark.parametrize("mode", ["auto", "none", "required"])
def test_a_mode_of_choosing_tools_is_a_word(mode: str) -> None:
    form = AnswerForm(tools=TOOLS, tool_choice=mode)
    assert json.loads(chat_body("m", "p", 8, form=form))["tool_choice"] == mode
    assert json.loads(responses_body("m", "p", 8, form=form))["tool_choice"] == mode


def test_a_tool_that_is_to_be_called_is_named() -> None:
    form = AnswerForm(tools=TOOLS, tool_choice="weather")
    function = {"type": "function", "function": {"name": "weather"}}
    assert json.loads(chat_body("m", "p", 8, form=form))["tool_choice"] == function
    assert json.loads(responses_body("m", "p", 8, form=form))["tool_choice"] == {"type": "function", "name": "weather"}


def test_several_choices_are_not_greedy_since_all_would_be_one() -> None:
    for body in (chat_body, completion_body):
        asked = json.loads(body("m", "p", 8, form=AnswerForm(n=3)))
        assert (asked["n"], asked["temperature"]) == (3, 1.0)


def test_what_an_endpoint_cannot_be_asked_is_an_error() -> None:
    with pytest.raises(UsageError, match="completions endpoint cannot be asked for tools"):
        completion_body("m", "p", 8, form=AnswerForm(tools=TOOLS))
    with pytest.raises(UsageError, match="responses endpoint cannot be asked for several choices"):
        responses_body("m", "p", 8, form=AnswerForm(n=2))
    with pytest.raises(UsageError, match="tools that are none"):
        responses_body("m", "p", 8, form=AnswerForm(tools=b'{"a": 1}'))
