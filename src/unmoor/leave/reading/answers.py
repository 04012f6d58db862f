"""What came back: which fields of answers clients could have come to rely on, and raw outputs for parsers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from unmoor.leave.reading.values import LIST, NUMBER, OBJECT, TEXT, word
from unmoor.leave.uses import Sample, Use, Uses

Tree = Mapping[str, Any]

MOST_SAMPLES = 2000
"""So many raw outputs are kept to be run through parsers."""

_THINKING = ("reasoning", "reasoning_content")
_RAW_MARKS = (
    *("<tool_call>", "</think>", "<think>", "[TOOL_CALLS]", "<|python_tag|>", "<function=", "<|tool_call"),
    *("<minimax:tool_call>", "<｜DSML｜", "<|channel|>"),
)
_RAW_WITH_TOOLS = ('{"name"',)
"""A mark only where the request has tools: elsewhere it may be any JSON."""
_MOST_CHARACTERS = 100_000
"""Longer outputs are not kept."""


def read_answer(uses: Uses, line: int, answer: Tree, body: Tree) -> None:
    """Adds what this answer has."""
    if _cached_tokens(answer.get("usage")):
        uses.add(Use("answer", "usage.cached_tokens", NUMBER), line)
    for choice in _objects(answer.get("choices")):
        _choice(uses, line, choice)
        if isinstance(message := choice.get("message"), dict):
            _message(uses, line, message, body)


def _choice(uses: Uses, line: int, choice: Tree) -> None:
    if choice.get("finish_reason") is not None:
        uses.add(Use("answer", "finish_reason", word(choice["finish_reason"])), line)
    for name in ("stop_reason", "matched_stop"):
        if choice.get(name) is not None:
            uses.add(Use("answer", name, TEXT if isinstance(choice[name], str) else NUMBER), line)
    if choice.get("logprobs") is not None:
        uses.add(Use("answer", "logprobs", OBJECT), line)


def _message(uses: Uses, line: int, message: Tree, body: Tree) -> None:
    for name in _THINKING:
        if message.get(name):
            uses.add(Use("answer", f"message.{name}", TEXT), line)
    if message.get("tool_calls"):
        uses.add(Use("answer", "message.tool_calls", LIST), line)
        if "content" in message:
            told = {None: "null", "": "empty"}.get(message["content"], TEXT) if _flat(message["content"]) else TEXT
            uses.add(Use("answer", "message.content beside tool_calls", told), line)
    if len(uses.raw_outputs) < MOST_SAMPLES and (sample := _output(line, message, body)):
        uses.raw_outputs.append(sample)
        if not sample.parsed:
            uses.add(Use("answer", "message.raw", TEXT), line)


def _output(line: int, message: Tree, body: Tree) -> Sample | None:
    """The output, raw where the log has it so, else as parsers left it; None where no parser has anything to do.

    Where a request forces a call, the server constrains what is written, and its parsers do other work: not kept.
    """
    choice = body.get("tool_choice")
    tools = body.get("tools") if choice in (None, "auto") else None
    if choice not in (None, "auto", "none"):
        return None
    kept = tuple(tools) if isinstance(tools, list) else ()
    kwargs = body.get("chat_template_kwargs")
    raw = next((text for name in ("raw", "raw_output") if isinstance(text := message.get(name), str)), None)
    content = message.get("content")
    text = raw if raw is not None else content if isinstance(content, str) else ""
    calls = tuple(_calls(message.get("tool_calls")))
    reasoning = next((told for name in _THINKING if isinstance(told := message.get(name), str)), "")
    marks = (*_RAW_MARKS, *(_RAW_WITH_TOOLS if kept else ()))
    parsed = raw is None and bool(calls or reasoning)
    if len(text) + len(reasoning) > _MOST_CHARACTERS or not (raw or parsed or any(mark in text for mark in marks)):
        return None
    return Sample(
        line,
        text,
        kept,
        parsed=parsed,
        calls=calls if parsed else (),
        reasoning=reasoning if parsed else "",
        template_kwargs=kwargs if isinstance(kwargs, dict) else {},
        model=model if isinstance(model := body.get("model"), str) else "",
    )


def _calls(several: object) -> Iterator[tuple[str, str]]:
    for call in _objects(several):
        function = call.get("function")
        if isinstance(function, dict) and isinstance(name := function.get("name"), str):
            told = function.get("arguments")
            yield name, told if isinstance(told, str) else msgspec.json.encode(told or {}).decode()


def _flat(content: object) -> bool:
    return content is None or isinstance(content, str)


def _cached_tokens(usage: object) -> bool:
    details = (
        (usage.get("prompt_tokens_details") or usage.get("input_tokens_details")) if isinstance(usage, dict) else None
    )
    return isinstance(details, dict) and isinstance(details.get("cached_tokens"), int)


def _objects(several: object) -> Iterator[Tree]:
    return (one for one in several if isinstance(one, dict)) if isinstance(several, list) else iter(())
