"""However an answer is written down and however its bytes are split, it says the same, at the right times."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_streams import ANSWERS, FINISH, FIRST_ANSWER, WITH_CONTENT, split, times_at, written

from unmoor.core.record import Outcome
from unmoor.engines.wire import AnswerForm, Usage, read_answer, read_body, read_stream

FORMS = [
    AnswerForm(),
    AnswerForm(stream=False),
    AnswerForm(n=3, schema=b"{}"),
    AnswerForm(tools=b'[{"type":"function","function":{"name":"f"}}]', tool_choice="required"),
]


@pytest.mark.parametrize("endpoint", list(ANSWERS))
@given(st.data())
def test_any_framing_and_any_splitting_say_the_same(endpoint: str, data: st.DataObject) -> None:
    body, ends = data.draw(written(endpoint))
    reads = data.draw(split(body))
    at = times_at(reads, ends)
    reading = read_stream(reads)
    assert reading.opened_at_ns == at[0]
    assert reading.chunk_at_ns == tuple(at[place] for place in WITH_CONTENT[endpoint])
    assert reading.first_answer_at_ns == at[FIRST_ANSWER[endpoint]]
    assert reading.usage == Usage(input_tokens=20, output_tokens=3, reasoning_tokens=1)
    assert (reading.outcome, reading.finish_reason, reading.ended) == (Outcome.OK, FINISH[endpoint], True)


@pytest.mark.parametrize("endpoint", list(ANSWERS))
@given(st.data())
def test_a_stream_that_breaks_off_anywhere_is_never_taken_for_more_than_came(
    endpoint: str, data: st.DataObject
) -> None:
    body, ends = data.draw(written(endpoint))
    cut = data.draw(st.integers(0, len(body)))
    whole = [place for place, end in enumerate(ends) if end <= cut]
    came = [place for place in WITH_CONTENT[endpoint] if place in whole]
    reading = read_stream([(1, body[:cut])])
    # The event at the cut may be whole without its blank line.
    assert len(came) <= len(reading.chunk_at_ns) <= len(came) + 1
    assert reading.error is None


@given(st.data(), st.sampled_from(FORMS))
def test_no_damage_to_an_answer_raises(data: st.DataObject, form: AnswerForm) -> None:
    body, _ = data.draw(written(data.draw(st.sampled_from(list(ANSWERS)))))
    for _ in range(data.draw(st.integers(0, 4))):
        start, length = data.draw(st.integers(0, len(body))), data.draw(st.integers(0, 12))
        body = body[:start] + data.draw(st.binary(max_size=6)) + body[start + length :]
    reads = data.draw(split(body))
    read_answer(reads, form)
    read_stream(reads, form)
    read_body(body, form)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
WORDS = st.sampled_from(
    [
        *("choices", "delta", "message", "text", "index", "finish_reason", "usage", "error", "object", "type", "item"),
        *("response", "status", "output", "content", "tool_calls", "function_call", "function", "name", "arguments"),
        *("prompt_tokens_details", "output_tokens_details", "incomplete_details", "reasoning", "output_index"),
    ]
)
VALUES = st.sampled_from(
    [
        *("response.completed", "response.failed", "response.output_text.delta", "response.output_item.added"),
        *("response", "error", "function_call", "message", "reasoning", "abort"),
    ]
)
ODD = st.recursive(
    VALUES | JSON,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(ODD, st.sampled_from(FORMS))
def test_no_json_in_the_words_of_the_wire_raises(said: object, form: AnswerForm) -> None:
    body = json.dumps(said).encode()
    read_body(body, form)
    read_stream([(1, b"data: " + body + b"\n\ndata: " + body + b"\n\n")], form)
    read_stream([(1, b"event: response.completed\ndata: " + body + b"\n\n")], form)


@given(st.binary(max_size=300), st.sampled_from(FORMS))
def test_no_bytes_raise_whatever_was_asked(body: bytes, form: AnswerForm) -> None:
    read_answer([(1, body)], form)
    read_answer([(1, b"data: " + body + b"\n\n")], form)
