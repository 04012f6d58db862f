"""What is read from answers of each endpoint, beside the plain chat streams of test_wire.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unmoor.core.record import Outcome
from unmoor.engines.wire import AnswerForm, AnswerReading, Usage, read_answer, read_body, read_stream

GOLDENS = Path(__file__).parent / "goldens" / "vllm" / "streams"
SCHEMA = b'{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}'
TOOLS = json.dumps(
    [{"type": "function", "function": {"name": "weather", "parameters": json.loads(SCHEMA)}}, {"type": "function",
     "function": {"name": "time"}}]
).encode()  # fmt: skip


def data(content: object) -> bytes:
    return b"data: " + json.dumps(content, ensure_ascii=False).encode() + b"\n\n"


def choice(index: int, finish: str | None = None, **delta: object) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish}


def chat(*choices: dict[str, Any], **more: object) -> bytes:
    return data({"choices": list(choices), **more})


def typed(kind: str, **content: object) -> bytes:
    return f"event: {kind}\n".encode() + data({"type": kind, **content})


def timed(*pieces: bytes) -> list[tuple[int, bytes]]:
    return [(at, piece) for at, piece in enumerate(pieces, start=1)]


def golden(name: str) -> list[tuple[int, bytes]]:
    return timed(*(frame + b"\n\n" for frame in (GOLDENS / name).read_bytes().strip().split(b"\n\n")))


# Reasoning and answers


def test_reasoning_is_a_token_and_no_answer() -> None:
    reading = read_stream(
        timed(
            chat(choice(0, role="assistant", content="")),
            chat(choice(0, reasoning_content="hm")),
            chat(choice(0, reasoning="hm")),
            chat(choice(0, content="a")),
            chat(choice(0, "stop")),
        )
    )
    assert (reading.first_token_at_ns, reading.first_answer_at_ns, reading.chunk_at_ns) == (2, 4, (2, 3, 4))


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "a"},
        {"refusal": "no"},
        {"tool_calls": [{"index": 0, "function": {"name": "f"}}]},
        {"function_call": {"name": "f"}},
    ],
)
def test_text_and_calls_are_answers(delta: dict[str, Any]) -> None:
    reading = read_stream(timed(chat(choice(0, reasoning="hm")), chat(choice(0, **delta))))
    assert (reading.first_token_at_ns, reading.first_answer_at_ns) == (1, 2)


def test_an_answer_that_is_all_reasoning_has_no_first_answer() -> None:
    reading = read_stream(timed(chat(choice(0, reasoning="hm")), chat(choice(0, "length"))))
    assert (reading.first_token_at_ns, reading.first_answer_at_ns, reading.outcome) == (1, None, Outcome.OK)


# Several choices


def test_an_answer_is_whole_when_every_choice_has_finished() -> None:
    start = [chat(choice(1, content="a")), chat(choice(0, content="b")), chat(choice(1, "length"))]
    two = AnswerForm(n=2)
    assert read_stream(timed(*start), two).outcome is Outcome.CUT
    whole = read_stream(timed(*start, chat(choice(0, "stop"))), two)
    assert (whole.outcome, whole.finish_reason, whole.chunk_at_ns) == (Outcome.OK, "stop", (1, 2))
    both = read_stream(timed(chat(choice(0, "stop", content="a"), choice(1, "stop", content="b"))), two)
    assert (both.outcome, both.chunk_at_ns) == (Outcome.OK, (1,))


def test_one_choice_that_failed_fails_the_answer() -> None:
    reading = read_stream(timed(chat(choice(0, "stop"), choice(1, "abort"))), AnswerForm(n=2))
    assert (reading.outcome, reading.finish_reason) == (Outcome.STREAM_ERROR, "abort")


def test_a_choice_that_never_came_is_missed() -> None:
    assert read_stream(timed(chat(choice(0, "stop", content="a"))), AnswerForm(n=2)).outcome is Outcome.CUT


def test_choices_in_one_piece_must_all_have_finished() -> None:
    body = {"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}, {"index": 1, "text": "b"}]}
    assert read_body(json.dumps(body).encode(), AnswerForm(n=2, stream=False)).outcome is Outcome.CUT
    assert read_body(json.dumps(body).encode(), AnswerForm(stream=False)).outcome is Outcome.OK


# Usage


def test_usage_in_every_chunk_is_that_of_the_last() -> None:
    counted = [
        chat(choice(0, content="a"), usage={"prompt_tokens": 5, "completion_tokens": count}) for count in (1, 2, 3)
    ]
    assert read_stream(timed(*counted, chat(choice(0, "stop"), usage=None))).usage == Usage(
        input_tokens=5, output_tokens=3
    )


@pytest.mark.parametrize(
    ("block", "usage"),
    [
        ({"completion_tokens_details": {"reasoning_tokens": 2}}, Usage(reasoning_tokens=2)),
        ({"reasoning_tokens": 2, "completion_tokens_details": None}, Usage(reasoning_tokens=2)),
        ({"input_tokens": 3, "input_tokens_details": {"cached_tokens": 1}}, Usage(input_tokens=3, cached_tokens=1)),
        ({"output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 0}},
         Usage(output_tokens=4, reasoning_tokens=0)),
        ({"prompt_tokens": 3, "prompt_tokens_details": None}, Usage(input_tokens=3)),
        ({"prompt_tokens_details": [1], "completion_tokens_details": "x"}, Usage()),
    ],
)  # fmt: skip
def test_counts_are_read_under_either_family_of_names(block: dict[str, Any], usage: Usage) -> None:
    assert read_stream(timed(data({"choices": [], "usage": block}))).usage == usage


# The Responses API


CREATED = typed("response.created", response={"status": "in_progress", "usage": None, "output": []})
DELTA = typed("response.output_text.delta", delta="a", output_index=0)
COUNTED = {"input_tokens": 3, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}}


def ended(status: str, kind: str | None = None, **more: object) -> bytes:
    return typed(kind or f"response.{status}", response={"status": status, "usage": COUNTED, **more})


def test_a_response_is_read() -> None:
    reading = read_stream(timed(CREATED, DELTA, DELTA, ended("completed")))
    assert reading.chunk_at_ns == (2, 3)
    assert reading.usage == Usage(input_tokens=3, output_tokens=2, cached_tokens=1)
    assert (reading.outcome, reading.finish_reason, reading.ended) == (Outcome.OK, "completed", True)


@pytest.mark.parametrize(
    "quiet",
    [
        typed("response.in_progress", response={"status": "in_progress"}),
        typed("response.output_item.added", item={"type": "message", "content": []}),
        typed("response.output_item.added", item={"type": "function_call", "name": "", "arguments": ""}),
        typed("response.content_part.added", part={"type": "output_text", "text": ""}),
        typed("response.output_text.delta", delta=""),
        typed("response.output_text.done", text="all of it, once more"),
        typed("response.function_call_arguments.done", arguments="{}"),
        typed("response.something.new", delta={"a": 1}),
        typed("keepalive"),
        b": ping\n\n",
    ],
)
def test_events_of_a_response_without_new_content_never_stop_the_clock(quiet: bytes) -> None:
    reading = read_stream(timed(CREATED, quiet, DELTA, quiet, ended("completed")))
    assert (reading.chunk_at_ns, reading.outcome) == ((3,), Outcome.OK)


@pytest.mark.parametrize("kind", ["response.reasoning_text.delta", "response.reasoning_summary_text.delta"])
def test_reasoning_of_a_response_is_a_token_and_no_answer(kind: str) -> None:
    reading = read_stream(timed(CREATED, typed(kind, delta="hm"), DELTA, ended("completed")))
    assert (reading.first_token_at_ns, reading.first_answer_at_ns) == (2, 3)


def test_the_name_of_a_call_is_content_as_it_is_in_chat() -> None:
    added = typed("response.output_item.added", item={"type": "function_call", "name": "weather"}, output_index=0)
    arguments = typed("response.function_call_arguments.delta", delta="{}", output_index=0)
    reading = read_stream(timed(CREATED, added, arguments, ended("completed")))
    assert (reading.first_answer_at_ns, reading.chunk_at_ns) == (2, (2, 3))


@pytest.mark.parametrize("kind", ["response.incomplete", "response.completed"])
def test_a_response_that_reached_its_limit_is_whole(kind: str) -> None:
    """vLLM calls such an end "response.completed", OpenAI and SGLang "response.incomplete"."""
    last = ended("incomplete", kind, incomplete_details={"reason": "max_output_tokens"})
    reading = read_stream(timed(CREATED, DELTA, last))
    assert (reading.outcome, reading.finish_reason) == (Outcome.OK, "max_output_tokens")


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (ended("failed", error={"code": "server_error", "message": "out of memory"}), "out of memory"),
        (ended("failed", "response.completed", error={"message": "out of memory"}), "out of memory"),
        (ended("cancelled", "response.completed"), "the response is cancelled"),
        (typed("response.failed"), "the response is failed"),
        (typed("error", code="server_error", message="out of memory", param=None), "out of memory"),
        (data({"type": "error", "message": "out of memory"}), "out of memory"),
        (data({"type": "error", "error": {"message": "out of memory"}}), "out of memory"),
        (data({"error": {"message": "out of memory"}}), "out of memory"),
    ],
)
def test_a_response_that_failed_is_a_failure(last: bytes, said: str) -> None:
    reading = read_stream(timed(CREATED, DELTA, last))
    assert (reading.outcome, reading.error) == (Outcome.STREAM_ERROR, said)


@pytest.mark.parametrize("pieces", [[CREATED], [CREATED, DELTA], [CREATED, DELTA, b"data: [DONE]\n\n"]])
def test_a_response_without_its_last_event_is_cut(pieces: list[bytes]) -> None:
    assert read_stream(timed(*pieces)).outcome is Outcome.CUT


def test_a_response_in_one_piece_is_read() -> None:
    body = {
        "object": "response",
        "status": "completed",
        "error": None,
        "output": [
            {"type": "reasoning", "content": []},
            {"type": "message", "content": [{"type": "output_text", "text": '{"city":'}, {"text": '"Rome"}'}]},
        ],
        "usage": COUNTED,
    }
    reading = read_body(json.dumps(body).encode(), AnswerForm(stream=False, schema=SCHEMA))
    assert (reading.outcome, reading.finish_reason, reading.valid) == (Outcome.OK, "completed", True)
    assert reading.usage == Usage(input_tokens=3, output_tokens=2, cached_tokens=1)
    failed = read_body(json.dumps({**body, "status": "failed", "error": {"message": "no"}}).encode())
    assert (failed.outcome, failed.error) == (Outcome.STREAM_ERROR, "no")


# In one piece, or not


WHOLE = json.dumps({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "usage": None}).encode()
STREAM = chat(choice(0, "stop", content="a"))


def test_an_answer_that_is_not_as_asked_is_an_error() -> None:
    in_one = AnswerForm(stream=False)
    assert read_answer(timed(WHOLE), in_one).outcome is Outcome.OK
    assert read_answer(timed(b"", b" \n", WHOLE[:1], WHOLE[1:]), in_one).outcome is Outcome.OK
    assert read_answer(timed(STREAM), AnswerForm()).outcome is Outcome.OK
    assert read_answer(timed(WHOLE), AnswerForm()).error == "answered in one piece, so there is no time to first token"
    assert read_answer(timed(STREAM), in_one).error == "a stream of events, which was not asked for"
    assert read_answer(timed(b'{"error":"busy"}'), AnswerForm()).error == "busy"
    assert read_answer(timed(data({"error": "busy"})), in_one).error == "busy"


@pytest.mark.parametrize(
    "body", [b'{"choices":[{"message":{"content":"secret"}', b'"secret"', b"secret", b'{"a":"secret"}']
)
def test_what_is_no_answer_is_never_quoted(body: bytes) -> None:
    for form in (AnswerForm(), AnswerForm(stream=False)):
        reading = read_answer(timed(body), form)
        assert reading.outcome is not Outcome.OK
        assert "secret" not in repr(reading)
    assert read_body(body).error == f"an answer of {len(body)} bytes is not a completion"


def test_nothing_at_all_is_no_answer() -> None:
    assert read_answer([], AnswerForm()).outcome is Outcome.CUT
    assert read_answer([], AnswerForm(stream=False)).error == "an empty answer"


# The form of an answer


def spoken(text: str, form: AnswerForm, finish: str = "stop") -> AnswerReading:
    half = len(text) // 2
    return read_stream(timed(chat(choice(0, content=text[:half])), chat(choice(0, finish, content=text[half:]))), form)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ('{"city": "Rome"}', True),
        (' {"city": "Grüße 🌍"}\n', True),
        ('{"city": "Rome"', False),
        ('{"city": 1}', False),
        ("{}", False),
        ("Rome", False),
        ("", False),
        ('```json\n{"city": "Rome"}\n```', False),
        ("[" * 5000 + "]" * 5000, False),
    ],
)
def test_an_answer_fits_the_schema_or_does_not(text: str, valid: bool) -> None:  # noqa: FBT001 - a row of a table
    assert spoken(text, AnswerForm(schema=SCHEMA)).valid is valid


def test_without_a_schema_nothing_is_valid_or_not() -> None:
    assert spoken('{"city": "Rome"}', AnswerForm()).valid is None


def test_what_cannot_be_told_is_not_told() -> None:
    elsewhere = AnswerForm(schema=b'{"$ref":"https://example.com/schema.json"}')
    assert spoken("{}", elsewhere).valid is None
    assert spoken("{}", AnswerForm(schema=b"not a schema")).valid is None
    assert spoken('"' + "a" * (1 << 20) + '"', AnswerForm(schema=b"{}")).valid is None


def test_every_choice_must_fit() -> None:
    form = AnswerForm(schema=SCHEMA, n=2)
    good, bad = '{"city":"Rome"}', '{"town":"Rome"}'
    both = [chat(choice(0, "stop", content=good), choice(1, "stop", content=good))]
    assert read_stream(timed(*both), form).valid is True
    one = [chat(choice(0, "stop", content=good), choice(1, "stop", content=bad))]
    assert read_stream(timed(*one), form).valid is False


def test_reasoning_is_no_part_of_what_must_fit() -> None:
    pieces = [chat(choice(0, reasoning="hm")), chat(choice(0, "stop", content='{"city":"Rome"}'))]
    assert read_stream(timed(*pieces), AnswerForm(schema=SCHEMA)).valid is True


def called(name: str, arguments: str, form: AnswerForm) -> AnswerReading:
    return read_stream(
        timed(
            chat(choice(0, tool_calls=[{"index": 0, "function": {"name": name, "arguments": ""}}])),
            *(chat(choice(0, tool_calls=[{"index": 0, "function": {"arguments": part}}])) for part in arguments),
            chat(choice(0, "tool_calls")),
        ),
        form,
    )


@pytest.mark.parametrize(
    ("name", "arguments", "valid"),
    [
        ("weather", '{"city":"Rome"}', True),
        ("weather", '{"city":1}', False),
        ("weather", '"Rome"', False),
        ("weather", "", False),
        ("time", "{}", True),
        ("somebody", "{}", False),
    ],
)
def test_a_call_is_of_a_tool_offered_and_fits_its_parameters(name: str, arguments: str, valid: bool) -> None:  # noqa: FBT001
    assert called(name, arguments, AnswerForm(tools=TOOLS)).valid is valid


def test_calls_side_by_side_are_told_apart() -> None:
    calls = [
        [{"index": 0, "function": {"name": "weather", "arguments": '{"city":'}}],
        [{"index": 1, "function": {"name": "time", "arguments": "{}"}}],
        [{"index": 0, "function": {"arguments": '"Rome"}'}}],
    ]
    pieces = [chat(choice(0, tool_calls=one)) for one in calls]
    assert read_stream(timed(*pieces, chat(choice(0, "tool_calls"))), AnswerForm(tools=TOOLS)).valid is True


def test_an_answer_without_a_call_is_wrong_only_where_one_had_to_be() -> None:
    assert spoken("It rains.", AnswerForm(tools=TOOLS)).valid is None
    assert spoken("It rains.", AnswerForm(tools=TOOLS, tool_choice="auto")).valid is None
    assert spoken("It rains.", AnswerForm(tools=TOOLS, tool_choice="required")).valid is False
    assert spoken("It rains.", AnswerForm(tools=TOOLS, tool_choice="weather")).valid is False


def test_the_older_function_call_is_a_call() -> None:
    pieces = [
        chat(choice(0, function_call={"name": "weather", "arguments": ""})),
        chat(choice(0, function_call={"arguments": '{"city":"Rome"}'})),
        chat(choice(0, "function_call")),
    ]
    assert read_stream(timed(*pieces), AnswerForm(tools=TOOLS)).valid is True


# Streams as vLLM 0.32.0 sent them (2026-12-01, SmolLM2-135M; with a reasoning parser where the name says so)


def test_a_real_response_is_read() -> None:
    text, reasoning = read_stream(golden("responses-text.sse")), read_stream(golden("responses-reasoning.sse"))
    assert text.usage == Usage(input_tokens=35, output_tokens=4, cached_tokens=0, reasoning_tokens=0)
    assert (text.outcome, text.finish_reason, len(text.chunk_at_ns)) == (Outcome.OK, "max_output_tokens", 4)
    assert text.first_answer_at_ns == text.first_token_at_ns
    assert reasoning.usage is not None
    assert (len(reasoning.chunk_at_ns), reasoning.usage.reasoning_tokens) == (8, 8)
    assert reasoning.first_answer_at_ns is None


def test_a_real_response_in_one_piece_is_read() -> None:
    reading = read_answer(timed((GOLDENS / "responses-reasoning.json").read_bytes()), AnswerForm(stream=False))
    assert (reading.outcome, reading.finish_reason) == (Outcome.OK, "max_output_tokens")
    assert reading.usage is not None
    assert reading.usage.output_tokens == 40


def test_a_real_answer_fits_its_schema() -> None:
    assert read_stream(golden("responses-schema.sse"), AnswerForm(schema=SCHEMA)).valid is True


def test_real_calls_whose_arguments_are_not_as_asked_are_found_out() -> None:
    """The tiny model's arguments are a text, not an object; both endpoints and both forms say so."""
    forms = AnswerForm(tools=TOOLS, tool_choice="required"), AnswerForm(tools=TOOLS, stream=False)
    for name in ("chat-call.sse", "responses-call.sse"):
        reading = read_stream(golden(name), forms[0])
        assert (reading.outcome, reading.valid, len(reading.chunk_at_ns)) == (Outcome.OK, False, 4)
    whole = read_body((GOLDENS / "chat-call.json").read_bytes(), forms[1])
    assert (whole.outcome, whole.valid) == (Outcome.OK, False)


def test_two_real_choices_are_read() -> None:
    reading = read_stream(golden("chat-two-choices-reasoning.sse"), AnswerForm(n=2))
    assert reading.usage == Usage(input_tokens=35, output_tokens=12, reasoning_tokens=12)
    assert (reading.outcome, reading.finish_reason, len(reading.chunk_at_ns)) == (Outcome.OK, "length", 12)
