"""A log that uses everything that checks of behaviour look at, and the means to check small ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unmoor.engines.surface.load import surface
from unmoor.leave.case import Case
from unmoor.leave.checkpoint.read import read_checkpoint
from unmoor.leave.finding import Finding
from unmoor.leave.reading.read import read_uses
from unmoor.leave.uses import Uses
from unmoor.traffic.readers import read_traffic

Record = dict[str, Any]

ENGINES = ("vllm", "sglang", "tensorrt-llm", "llama-cpp")
USER = {"role": "user", "content": "how high is the tower"}
DRAWN = {"temperature": 0.7, "top_p": 0.9, "top_k": 20, "max_tokens": 50}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def chat(answer: Record | None = None, **fields: Any) -> Record:  # noqa: ANN401 - fields of a request are any JSON
    """A chat request that says how it is to be drawn, with what is given put over it, and its answer."""
    return _record({"model": "m", "messages": [USER], **DRAWN, **fields}, answer)


def completion(answer: Record | None = None, **fields: Any) -> Record:  # noqa: ANN401 - as above
    """Likewise for completions."""
    return _record({"model": "m", "prompt": "the tower is", **DRAWN, **fields}, answer)


def _record(body: Record, answer: Record | None) -> Record:
    kept = {name: value for name, value in body.items() if value is not None}
    return {"timestamp": "2026-11-30T09:00:00Z", "request": kept, **({} if answer is None else {"response": answer})}


def said(finish: str = "stop", **message: Any) -> Record:  # noqa: ANN401 - as above
    """An answer whose message has these fields."""
    return {"choices": [{"message": {"role": "assistant", "content": "high", **message}, "finish_reason": finish}]}


def uses_of(records: Sequence[Record]) -> Uses:
    """What a log of these records uses."""
    log = "\n".join(json.dumps(record) for record in records).encode()
    return read_uses(lambda cutter, watch: read_traffic(log, where="log", cutter=cutter, watch=watch))[0]


def case_of(source: str, target: str, records: Sequence[Record], model: Path | None = None) -> Case:
    """The move of these records; `model` is a folder."""
    checkpoint = read_checkpoint(model) if model else None
    return Case(uses=uses_of(records), source=surface(source), target=surface(target), model=checkpoint)


def of_kind(findings: Sequence[Finding], kind: str) -> list[Finding]:
    """The findings of one kind."""
    return [finding for finding in findings if finding.kind == kind]


def everything() -> list[Record]:
    """Requests that together do all that checks of behaviour look at."""
    audio = [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}, {"type": "text", "text": "hear"}]
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    return [
        chat(said(), priority=1),
        chat(said(), priority=9, seed=7, logprobs=True, top_logprobs=30),
        chat({**said(), "usage": usage}, temperature=None, top_p=None, top_k=None, max_tokens=None),
        completion({"choices": [{"text": " high", "finish_reason": "length"}]}, max_tokens=None, logprobs=3),
        completion(max_tokens=None, max_completion_tokens=200, temperature=None),
        completion(prompt="<s>[INST] how high [/INST]", add_special_tokens=False, stream=True),
        completion(prompt="<|begin_of_text|>how high"),
        chat(said(content=None, tool_calls=[CALL], finish="tool_calls"), tools=[TOOL]),
        chat(said(content="", tool_calls=[CALL], finish="tool_calls"), tools=[TOOL], tool_choice="required"),
        chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "look"}}),
        chat(said(reasoning="well")),
        chat(said(reasoning_content="well"), chat_template_kwargs={"enable_thinking": True}, reasoning_effort="high"),
        chat(messages=[{"role": "developer", "content": "be brief"}, {"role": "user", "content": audio}]),
        chat(messages=[USER, {"role": "assistant", "content": "it is"}]),
        chat(messages=[USER, {"role": "assistant", "content": "high", "reasoning": "well"}, USER]),
        chat(messages=[USER, {"role": "assistant", "content": "high", "reasoning_content": "well"}, USER]),
        chat(n=3),
        chat(stream_options={"include_usage": True}),
        chat(stream=True),
        chat(model="other", skip_special_tokens=False),
        chat({"choices": [{"message": {"content": "it"}, "finish_reason": "abort"}]}),
        {**chat(), "status": 499},
        chat({"choices": [{"message": {"content": "it"}, "finish_reason": "stop", "stop_reason": "\n"}]}, stop="\n"),
        chat({"choices": [{"message": {"content": "it"}, "finish_reason": "stop", "matched_stop": "\n"}]}, stop="\n"),
        chat({"error": {"message": "model m does not exist", "type": "NotFoundError", "code": 404}}),
        chat({"object": "error", "message": "The queue is full.", "type": "ServiceUnavailable", "code": 503}),
    ]
