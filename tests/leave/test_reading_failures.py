"""Requests that failed or were given up, and what requests leave to defaults, as they are read from a log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unmoor.leave.reading.read import read_uses
from unmoor.leave.uses import Rows, Use, Uses
from unmoor.traffic.readers import read_traffic

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello there"}], "max_tokens": 5}


def refused(message: str) -> dict[str, Any]:
    """An error as a served vLLM 0.32.0 answered it, on 2026-12-01."""
    return {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}}


VLLM_TOO_LONG = refused(
    "This model's maximum context length is 512 tokens. However, your prompt contains at least 513 input tokens, which "
    "exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "
    "(parameter=input_tokens, value=513)"
)
VLLM_TOO_MANY = refused(
    "max_tokens=9999 cannot be greater than max_model_len=512. Please request fewer output tokens. "
    "(parameter=max_tokens, value=9999)"
)
LLAMA_TOO_LONG = {
    "error": {
        "code": 400,
        "message": "request (1801 tokens) exceeds the available context size (512 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 1801,
        "n_ctx": 512,
    }
}
"""As a served llama.cpp b11434 answered it, on 2026-12-01."""
VLLM_SCHEMA = refused("Grammar error: Invalid type: nonsense")


def uses_of(*records: dict[str, Any]) -> Uses:
    log = "\n".join(json.dumps(record) for record in records).encode()
    return read_uses(lambda cutter, watch: read_traffic(log, where="log", cutter=cutter, watch=watch))[0]


@pytest.mark.parametrize(
    ("response", "more", "shape", "status", "case"),
    [
        ({"error": {"message": "private", "type": "NotFoundError", "code": 404}}, {}, "nested", 404, "unknown_model"),
        (
            {"object": "error", "message": "The input (9000 tokens) is longer than 4096", "code": 400},
            {},
            "flat",
            400,
            "prompt_too_long",
        ),
        (VLLM_TOO_LONG, {}, "nested", 400, "prompt_too_long"),
        (VLLM_TOO_MANY, {}, "nested", 400, "max_tokens_over_context"),
        (VLLM_SCHEMA, {}, "nested", 400, "bad_schema"),
        (LLAMA_TOO_LONG, {}, "nested", 400, "prompt_too_long"),
        ({"error": "1 validation error: extra_forbidden"}, {"status": 400}, "text", 400, "unknown_field"),
        (
            {"status_code": 503, "body": {"error": {"message": "The request queue is full."}}},
            {},
            "nested",
            503,
            "queue_full",
        ),
    ],
)
def test_an_error_is_told_by_its_shape_status_and_case_and_not_by_its_words(
    response: dict[str, Any], more: dict[str, Any], shape: str, status: int, case: str
) -> None:
    uses = uses_of({"timestamp": 1764492000, "request": CHAT, "response": response, **more})
    assert {
        Use("answer", "error.shape", shape),
        Use("answer", "error.status", status),
        Use("answer", "error.case", case),
    } <= set(uses.by_use)
    assert "private" not in repr(uses.by_use)


@pytest.mark.parametrize(
    "record",
    [
        {"request": CHAT, "status": 499},
        {"request": CHAT, "response": {"choices": [{"message": {"content": "we"}, "finish_reason": "abort"}]}},
        {"request": {"model": "m", "input": "hello"}, "response": {"status": "cancelled", "output": []}},
    ],
)
def test_requests_that_were_given_up_are_found_however_the_log_says_so(record: dict[str, Any]) -> None:
    answered = {"timestamp": 2, "request": CHAT, "status": 200, "response": {"choices": [{"finish_reason": "stop"}]}}
    uses = uses_of({"timestamp": 1, **record}, answered)
    assert tuple(uses.pair("abandoned")) == (1,)
    assert not uses.of("error.status")


def test_what_is_left_open_is_told_from_what_is_asked_for() -> None:
    off = {**CHAT, "chat_template_kwargs": {"enable_thinking": False}}
    on = {**CHAT, "chat_template_kwargs": {"enable_thinking": True}}
    uses = uses_of(
        *(
            {"timestamp": at, "request": body}
            for at, body in enumerate((CHAT, off, on, {**CHAT, "reasoning_effort": "low"}))
        )
    )
    assert tuple(uses.pair("thinking left open")) == (1,)
    assert tuple(uses.pair("thinking asked for")) == (3, 4)
    assert tuple(uses.pair("effort left open")) == (1, 2, 3)


def test_a_prompt_that_begins_with_a_bos_is_told_from_one_that_only_has_marks_of_a_template() -> None:
    bodies = (
        {"model": "m", "prompt": "<s>[INST] hello [/INST]"},
        {"model": "m", "prompt": "<|im_start|>user\nhello"},
        {"model": "m", "prompt": "<s>[INST] hello [/INST]", "add_special_tokens": False},
    )
    uses = uses_of(*({"timestamp": at, "request": body} for at, body in enumerate(bodies)))
    assert tuple(uses.pair("begins with BOS")) == (1,)
    assert tuple(uses.pair("begins with BOS, special tokens off")) == (3,)
    assert tuple(uses.rows("prompt.template")) == (1, 2, 3)


def test_models_are_remembered_with_their_requests() -> None:
    uses = uses_of(*({"timestamp": at, "request": {**CHAT, "model": name}} for at, name in enumerate("abab")))
    assert {name: tuple(rows) for name, rows in uses.by_model.items()} == {"a": (1, 3), "b": (2, 4)}


def test_rows_are_cut_with_and_out_of_each_other() -> None:
    rows, other = Rows([1, 2, 3, 9]), Rows([2, 9, 10])
    assert tuple(rows.both(other)) == (2, 9)
    assert tuple(rows.without(other)) == (1, 3)
    assert tuple(Rows().without(other)) == ()


@pytest.mark.parametrize("odd", [None, True, [], [1], {}, {"a": []}, "500000", 2**70, -1, 1.5, "\u0664\u0660\u0664"])
def test_values_that_no_server_gives_are_no_failures_and_no_errors_of_ours(odd: object) -> None:
    answers: tuple[Any, ...] = (
        {"choices": [{"message": {"content": "so"}, "finish_reason": odd}], "status": odd},
        {"choices": odd},
        {"error": {"message": odd, "type": odd, "code": odd}},
    )
    records = [{"timestamp": at, "request": CHAT, "status": odd, "response": one} for at, one in enumerate(answers)]
    uses = uses_of(*records)
    assert uses.requests == len(answers)
    assert not uses.pair("abandoned")
    assert not uses.of("error.status")
