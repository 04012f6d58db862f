"""What came back: which fields of answers clients could have come to rely on, and raw outputs for parsers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unmoor.leave.reading.values import LIST, NUMBER, OBJECT, TEXT, word
from unmoor.leave.uses import Sample, Use, Uses

Tree = Mapping[str, Any]

MOST_SAMPLES = 2000
"""So many raw outputs are kept to be run through parsers."""

_THINKING = ("reasoning", "reasoning_content")
_RAW_MARKS = ("<tool_call>", "</think>", "<think>", "[TOOL_CALLS]", "<|python_tag|>", "<function=", "<|tool_call")


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
    raw = message.get("raw") or message.get("raw_output")
    text = raw if isinstance(raw, str) else message.get("content")
    if isinstance(text, str) and len(uses.raw_outputs) < MOST_SAMPLES and any(mark in text for mark in _RAW_MARKS):
        tools = body.get("tools")
        uses.raw_outputs.append(Sample(line, text, tuple(tools) if isinstance(tools, list) else ()))


def _flat(content: object) -> bool:
    return content is None or isinstance(content, str)


def _cached_tokens(usage: object) -> bool:
    details = (
        (usage.get("prompt_tokens_details") or usage.get("input_tokens_details")) if isinstance(usage, dict) else None
    )
    return isinstance(details, dict) and isinstance(details.get("cached_tokens"), int)


def _objects(several: object) -> Iterator[Tree]:
    return (one for one in several if isinstance(one, dict)) if isinstance(several, list) else iter(())
