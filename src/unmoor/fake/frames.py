"""An answer's bytes, as the chat and completions endpoints frame it: streamed event by event, or in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from unmoor.fake.response_frames import response_events, whole_response
from unmoor.fake.script import Ask, Channel, Script, Token, error_body, steps, token_count, tokens


def frames(script: Script, ask: Ask) -> Iterator[tuple[float, bytes]]:
    """The frames of a streamed answer, each with its time in seconds after the request was read."""
    end = b"\r\n\r\n" if script.crlf else b"\n\n"
    for at_s, content in (response_events if ask.input is not None else _events)(script, ask):
        yield at_s, (content.replace(b"\n", b"\r\n") if script.crlf else content) + end


def whole_answer(script: Script, ask: Ask) -> bytes:
    """The answer in one piece."""
    if ask.input is not None:
        return whole_response(script, ask)
    chat = ask.messages is not None
    answer = list(tokens(script, token_count(script, ask)))
    said = {"message": _message(script, answer)} if chat else {"text": "".join(token.text for token in answer)}
    return msgspec.json.encode(
        {
            "object": "chat.completion" if chat else "text_completion",
            "model": ask.model,
            "choices": [{"index": at, "finish_reason": _finish(script, ask, at), **said} for at in range(ask.n)],
            "usage": _usage(script, ask, token_count(script, ask)),
        }
    )


def _events(script: Script, ask: Ask) -> Iterator[tuple[float, bytes]]:
    chat, so_far = ask.messages is not None, 0
    for at_s, step in steps(script, ask):
        so_far = step.so_far if isinstance(step, Token) else so_far
        usage = _usage(script, ask, so_far) if script.usage == "every_event" and ask.counts else None
        if step == "done":
            yield at_s, b"data: [DONE]"
        elif step == "ping":
            yield at_s, b": ping"
        elif step == "error":
            yield at_s, b"data: " + error_body(script.error_shape, script.error_message, 500)
        elif step == "usage":
            yield at_s, _data({"model": ask.model, "choices": [], "usage": _usage(script, ask, so_far)})
        elif step != "role" or chat:
            for choice in range(ask.n):
                yield at_s, _chunk(script, ask, choice, step, usage)


def _chunk(script: Script, ask: Ask, choice: int, step: object, usage: dict[str, Any] | None) -> bytes:
    delta: dict[str, Any] = {"role": "assistant", "content": ""} if step == "role" else {}
    text = ""
    if isinstance(step, Token):
        text = step.text
        delta = _delta(step.channel, text, script.tool if step.opens else None)
    said: dict[str, Any] = {"delta": delta} if ask.messages is not None else {"text": text}
    finish = _finish(script, ask, choice) if step == "finish" else None
    counted = {} if usage is None else {"usage": usage}
    return _data({"model": ask.model, "choices": [{"index": choice, **said, "finish_reason": finish}], **counted})


def _finish(script: Script, ask: Ask, choice: int) -> str | None:
    return None if choice >= ask.n - script.unfinished else script.finish_reason


def _delta(channel: Channel, text: str, tool: str | None) -> dict[str, Any]:
    function = {"arguments": text} if tool is None else {"name": tool, "arguments": text}
    if channel == "tool_calls":
        return {"content": None, "tool_calls": [{"index": 0, "function": function}]}
    if channel == "function_call":
        return {"content": None, "function_call": function}
    return {channel: text} if channel == "content" else {"content": None, channel: text}


def _message(script: Script, answer: list[Token]) -> dict[str, Any]:
    """What the deltas of a stream come to."""
    said: dict[str, Any] = {"role": "assistant", "content": None}
    for channel in dict.fromkeys(token.channel for token in answer):
        said |= _delta(channel, "".join(token.text for token in answer if token.channel == channel), script.tool)
    return said


def _usage(script: Script, ask: Ask, sent: int) -> dict[str, Any]:
    reasoning = {"reasoning", "reasoning_content"}
    thought = min(sent, script.leading) if script.leading_channel in reasoning else 0
    return {
        "prompt_tokens": ask.input_tokens,
        "completion_tokens": ask.n * sent,
        "total_tokens": ask.input_tokens + ask.n * sent,
        "prompt_tokens_details": {"cached_tokens": script.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": ask.n * (sent if script.channel in reasoning else thought)},
    }


def _data(content: object) -> bytes:
    return b"data: " + msgspec.json.encode(content)
