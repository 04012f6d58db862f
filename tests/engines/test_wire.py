from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.record import Outcome
from unmoor.engines.wire import (
    AnswerForm,
    Usage,
    chat_body,
    completion_body,
    error_text,
    read_body,
    read_stream,
    withhold,
)


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:  # noqa: ANN401 - JSON
    return data({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more})


def data(content: object) -> bytes:
    return b"data: " + json.dumps(content, ensure_ascii=False).encode() + b"\n\n"


ROLE = event({"role": "assistant", "content": ""})
NULL_ROLE = event({"role": "assistant", "content": None})
TEXT = event({"content": "Grüße 🌍"})
END = event(finish="stop")
USAGE = data({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}})
DONE = b"data: [DONE]\n\n"
WHOLE = [ROLE, TEXT, TEXT, END, USAGE, DONE]


def timed(*pieces: bytes) -> list[tuple[int, bytes]]:
    return [(at, piece) for at, piece in enumerate(pieces, start=1)]


def test_a_whole_stream_is_read() -> None:
    reading = read_stream(timed(*WHOLE))
    assert reading.opened_at_ns == 1
    assert reading.chunk_at_ns == (2, 3)
    assert (reading.first_token_at_ns, reading.last_token_at_ns) == (2, 3)
    assert reading.usage == Usage(input_tokens=20, output_tokens=3, cached_tokens=None)
    assert (reading.finish_reason, reading.error, reading.ended) == ("stop", None, True)
    assert reading.outcome is Outcome.OK


@pytest.mark.parametrize(
    "quiet",
    [
        ROLE,
        NULL_ROLE,
        b": ping\n\n",
        event({"content": ""}),
        event({"content": None, "reasoning_content": None, "tool_calls": []}),
        data({"choices": []}),
        data({"choices": [], "usage": None}),
        data({"choices": [{"index": 0, "delta": None}]}),
        b"event: message\n\n",
        b"retry: 10\n\n",
        b"\n\n\n",
    ],
)
def test_frames_without_content_never_stop_the_clock(quiet: bytes) -> None:
    reading = read_stream(timed(quiet, quiet, TEXT, END))
    assert reading.chunk_at_ns == (3,)
    assert reading.outcome is Outcome.OK


@pytest.mark.parametrize(
    "delta",
    [
        {"content": " "},
        {"content": None, "reasoning": "hm"},
        {"content": None, "reasoning_content": "hm"},
        {"content": None, "tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]},
        {"content": None, "function_call": {"name": "f", "arguments": ""}},
    ],
)
def test_content_of_any_kind_is_a_token(delta: dict[str, Any]) -> None:
    assert read_stream(timed(ROLE, event(delta), TEXT, END)).first_token_at_ns == 2


def test_text_of_the_completions_endpoint_is_a_token() -> None:
    said = [data({"choices": [{"text": text, "index": 0, "finish_reason": None}]}) for text in ("", "a")]
    assert read_stream(timed(*said)).chunk_at_ns == (2,)


def test_content_in_the_event_that_finishes_counts() -> None:
    reading = read_stream(timed(ROLE, event({"content": "a"}, finish="length")))
    assert (reading.chunk_at_ns, reading.finish_reason) == ((2,), "length")


def test_no_usage_block_means_no_counts() -> None:
    assert read_stream(timed(ROLE, TEXT, END, DONE)).usage is None


def test_the_last_usage_block_counts_and_cached_tokens_are_read() -> None:
    early = event({"content": "a"}, usage={"prompt_tokens": 5, "completion_tokens": 1})
    last = data(
        {
            "choices": [],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        }
    )
    assert read_stream(timed(early, last)).usage == Usage(input_tokens=5, output_tokens=2, cached_tokens=4)


@pytest.mark.parametrize(
    "said",
    [
        data({"error": {"message": "out of memory", "type": "X", "code": 500}}),
        data({"object": "error", "message": "out of memory", "code": 500}),
        data({"error": "out of memory"}),
        b'event: error\ndata: {"message": "out of memory"}\n\n',
        b"event: error\ndata: out of memory\n\n",
        b'error: {"code": 500, "message": "out of memory"}\n\n',
    ],
)
@pytest.mark.parametrize("before", [[], [ROLE], [ROLE, TEXT]])
def test_an_error_event_is_a_failure_whenever_it_comes(said: bytes, before: list[bytes]) -> None:
    reading = read_stream(timed(*before, said, END, DONE))
    assert reading.outcome is Outcome.STREAM_ERROR
    assert reading.error == "out of memory"


def test_an_error_that_is_null_is_none() -> None:
    assert read_stream(timed(event({"content": "a"}, finish="stop", error=None))).outcome is Outcome.OK


@pytest.mark.parametrize("reason", ["abort", "error", "cancelled", "timeout"])
def test_a_finish_reason_that_says_failure_is_one(reason: str) -> None:
    assert read_stream(timed(ROLE, TEXT, event(finish=reason), DONE)).outcome is Outcome.STREAM_ERROR


@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls", "content_filter", "function_call"])
def test_other_finish_reasons_are_ends(reason: str) -> None:
    assert read_stream(timed(ROLE, TEXT, event(finish=reason), DONE)).outcome is Outcome.OK


@pytest.mark.parametrize("pieces", [[], [ROLE], [ROLE, TEXT], [ROLE, TEXT, DONE], [ROLE, TEXT, END[:-9]]])
def test_a_stream_without_a_finish_reason_is_cut(pieces: list[bytes]) -> None:
    assert read_stream(timed(*pieces)).outcome is Outcome.CUT


def test_an_event_that_is_not_json_is_an_error_that_quotes_nothing() -> None:
    reading = read_stream(timed(ROLE, b"data: {secret answer\n\n"))
    assert reading.outcome is Outcome.STREAM_ERROR
    assert reading.error is not None
    assert "secret" not in reading.error


def test_several_events_in_one_read_share_its_time() -> None:
    assert read_stream([(7, ROLE + TEXT + TEXT + END)]).chunk_at_ns == (7, 7)


def test_an_event_has_the_time_of_the_read_that_completed_it() -> None:
    reading = read_stream(timed(ROLE + TEXT[:10], TEXT[10:-1], TEXT[-1:] + END))
    assert reading.chunk_at_ns == (3,)


@pytest.mark.parametrize("newline", [b"\r\n", b"\r"])
def test_other_line_ends_are_line_ends(newline: bytes) -> None:
    assert read_stream(timed(*(piece.replace(b"\n", newline) for piece in WHOLE))) == read_stream(timed(*WHOLE))


def test_data_over_several_lines_is_one_event() -> None:
    spread = b'data: {"choices": [{"delta":\ndata: {"content": "a"}, "finish_reason": "stop"}]}\n\n'
    assert read_stream(timed(spread)).outcome is Outcome.OK


def test_data_without_the_space_is_data() -> None:
    assert read_stream(timed(*(piece.replace(b"data: ", b"data:") for piece in WHOLE))) == read_stream(timed(*WHOLE))


def test_a_last_event_without_its_blank_line_counts_if_whole() -> None:
    assert read_stream(timed(ROLE, TEXT, END.rstrip())).outcome is Outcome.OK
    assert read_stream(timed(ROLE, TEXT, END.rstrip()[:-1])).outcome is Outcome.CUT


# Frames as vLLM 0.32.0 and llama-server sent them (2026-11-30, a tiny model), shortened; the empty content is theirs:
# a token that ends within a character.
VLLM = """\
data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},\
"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}

data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":""},"logprobs":null,\
"finish_reason":null,"token_ids":null}]}

data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"�}"},"logprobs":null,\
"finish_reason":null,"token_ids":null}]}

data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":""},"logprobs":null,\
"finish_reason":"length","stop_reason":null,"token_ids":null}]}

data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":20,"total_tokens":23,\
"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":0}}}

data: [DONE]

"""
LLAMA = """\
data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"model":"tiny"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"�"}}],"model":"tiny"}

data: {"choices":[{"finish_reason":"length","index":0,"delta":{}}],"model":"tiny"}

data: {"choices":[],"usage":{"completion_tokens":2,"prompt_tokens":20,"prompt_tokens_details":{"cached_tokens":19}}}

data: [DONE]

"""


@pytest.mark.parametrize(
    ("stream", "chunk_at_ns", "usage"),
    [
        (VLLM, (3,), Usage(input_tokens=20, output_tokens=3, cached_tokens=0)),
        (LLAMA, (2,), Usage(input_tokens=20, output_tokens=2, cached_tokens=19)),
    ],
    ids=["vllm", "llama"],
)
def test_streams_of_real_engines_are_read(stream: str, chunk_at_ns: tuple[int, ...], usage: Usage) -> None:
    reading = read_stream(timed(*(f"{frame}\n\n".encode() for frame in stream.strip().split("\n\n"))))
    assert (reading.chunk_at_ns, reading.usage, reading.finish_reason) == (chunk_at_ns, usage, "length")
    assert (reading.outcome, reading.ended) == (Outcome.OK, True)


PIECES = st.lists(
    st.sampled_from(
        [ROLE, NULL_ROLE, TEXT, END, USAGE, DONE, b": ping\n\n", TEXT.replace(b"\n", b"\r\n"), data({"error": "x"})]
    ),
    max_size=12,
)


@given(PIECES, st.lists(st.integers(0, 2000), max_size=30))
def test_any_splitting_of_the_bytes_gives_the_same_reading(pieces: list[bytes], cuts: list[int]) -> None:
    body = b"".join(pieces)
    marks = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    split = [(at, body[a:b]) for at, (a, b) in enumerate(pairwise(marks), start=1)]
    once, many = read_stream([(1, body)]), read_stream(split)
    assert len(once.chunk_at_ns) == len(many.chunk_at_ns)
    assert list(many.chunk_at_ns) == sorted(many.chunk_at_ns)
    for name in ("usage", "finish_reason", "error", "ended", "outcome"):
        assert getattr(once, name) == getattr(many, name)
    assert (once.opened_at_ns is None) == (many.opened_at_ns is None)


@given(st.binary(max_size=300))
def test_no_bytes_raise(body: bytes) -> None:
    read_stream([(1, body)])
    read_stream([(1, b"data: " + body + b"\n\n")])
    read_body(body)
    error_text(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"too long","type":"BadRequestError","param":null,"code":400}}', "too long"),
        (b'{"error":{"code":400,"message":"too long","type":"exceed_context_size_error"}}', "too long"),
        (b'{"object":"error","message":"too long","type":"BadRequestError","code":400}', "too long"),
        (b'{"error":"too long"}', "too long"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b"upstream\r\n  gone\n", "upstream gone"),
        (b"", "an empty answer"),
        (b"{}", "an error without a message"),
        (b'{"error":{"type":"unavailable_error"}}', "unavailable_error"),
        (b'"no"', "no"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_every_error_shape_becomes_one_message(body: bytes, message: str) -> None:
    assert error_text(body) == message


def test_a_long_error_is_cut() -> None:
    assert len(error_text(json.dumps({"error": "x" * 1000}).encode())) == 300


def test_an_answer_in_one_piece_is_no_error() -> None:
    reading = read_body(
        json.dumps(
            {
                "choices": [{"message": {"content": "a"}, "finish_reason": "length"}],
                "usage": {"prompt_tokens": 20, "completion_tokens": 8, "prompt_tokens_details": None},
            }
        ).encode()
    )
    assert reading.error is None
    assert reading.finish_reason == "length"
    assert reading.usage == Usage(input_tokens=20, output_tokens=8)


@pytest.mark.parametrize("count", [-1, 10**30, True, 3.0, "3", None, [3]])
def test_a_count_that_cannot_be_one_is_none(count: object) -> None:
    said = data({"choices": [], "usage": {"prompt_tokens": count, "completion_tokens": 3}})
    assert read_stream(timed(said)).usage == Usage(output_tokens=3)


@pytest.mark.parametrize("depth", [500, 5_000, 500_000])
@pytest.mark.parametrize("shape", [(b"[", b"]"), (b'{"error":', b"}"), (b'{"usage":', b"}")])
def test_no_depth_of_nesting_raises(depth: int, shape: tuple[bytes, bytes]) -> None:
    body = shape[0] * depth + b"1" + shape[1] * depth
    assert read_body(body).error is not None
    assert len(error_text(body)) <= 300
    read_stream([(1, b"data: " + body + b"\n\n"), (2, b"event: error\ndata: " + body)])


def test_a_byte_order_mark_before_a_stream_is_not_part_of_it() -> None:
    assert read_stream(timed(b"\xef\xbb\xbf" + WHOLE[0], *WHOLE[1:])) == read_stream(timed(*WHOLE))


def test_a_chat_body_asks_for_a_stream_with_usage() -> None:
    assert json.loads(chat_body("m", "Grüße", 8)) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Grüße"}],
        "max_tokens": 8,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_completion_body_holds_what_was_asked_for() -> None:
    assert json.loads(completion_body("m", "p", 8, form=AnswerForm(stream=False), ignore_eos=True, seed=0)) == {
        "model": "m",
        "prompt": "p",
        "max_tokens": 8,
        "temperature": 0.0,
        "ignore_eos": True,
        "seed": 0,
    }


def test_what_an_error_repeats_of_the_prompt_is_withheld() -> None:
    prompt = "the quarterly numbers of the northern branch are confidential"
    error = f"1 validation error: input was {prompt[5:]!r} and more"
    kept = withhold(error, prompt)
    assert kept.startswith("1 validation")
    assert "quarterly" not in kept
    assert "confidential" not in kept
    assert kept.endswith("[text withheld]")
    assert withhold("out of memory", prompt) == "out of memory"
    assert withhold("out of memory", "") == "out of memory"
    assert withhold("out of memory", "me") == "out of memory"
    assert withhold("bad input 'my secret'", "my secret") == "[text withheld]"
