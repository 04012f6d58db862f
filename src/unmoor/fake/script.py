"""What a fake engine does, as a value; and the frames of an answer that says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

Channel = Literal["content", "reasoning", "reasoning_content", "tool_calls", "function_call"]
Fault = Literal[
    "error_first",  # an error event after HTTP 200, before any token
    "error_mid",  # the same after half of the tokens
    "cut",  # the connection is reset after half of the tokens
    "ends_early",  # the stream ends in good order after half of the tokens, without a finish_reason
    "silent",  # the request is read and never answered
    "slow_head",  # the head of the answer comes one byte every tenth of a second
    "garbage",  # bytes that are not HTTP
    "closes",  # the connection is closed without a byte
    "one_piece",  # a JSON answer although a stream was asked for
]
ErrorShape = Literal["nested", "flat", "text", "detail", "plain"]


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer, exactly: the first token `ttft_s` after the request is read, then one event every `gap_s`.

    `tokens` None means as many as the request's `max_tokens` (16 without). `leading` tokens go to the `leading_channel`
    before the rest go to `channel`. A usage block is sent when the request asks and `usage` allows; its
    `cached_tokens` None is sent as null. `done_after_s` delays `[DONE]`. `http_1_0` answers without a length or chunks
    and closes. `status` other than 200 answers with an error body of `error_shape` at once.
    """

    ttft_s: float = 0.05
    gap_s: float = 0.01
    tokens: int | None = None
    tokens_per_event: int = 1
    role_event: bool = True
    channel: Channel = "content"
    leading: int = 0
    leading_channel: Channel = "reasoning_content"
    pings: int = 0
    usage: bool = True
    cached_tokens: int | None = 0
    finish_reason: str | None = "stop"
    done_after_s: float = 0.0
    crlf: bool = False
    http_1_0: bool = False
    status: int = 200
    error_shape: ErrorShape = "nested"
    error_message: str = "the fake engine was told to fail"
    fault: Fault | None = None


class Ask(msgspec.Struct, frozen=True):
    """The part of a request that a fake engine looks at."""

    model: str = "fake"
    max_tokens: int = 16
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    messages: list[dict[str, Any]] | None = None
    prompt: str | None = None

    @property
    def input_tokens(self) -> int:
        """Words of the prompt: a fake engine's tokens."""
        said = [str(message.get("content") or "") for message in self.messages or ()] + [self.prompt or ""]
        return sum(len(text.split()) for text in said)


def error_body(shape: ErrorShape, message: str, status: int) -> bytes:
    """An error answer in the shape of one of the engines ("plain" is text, as a proxy answers)."""
    nested = {"error": {"message": message, "type": "InternalServerError", "param": None, "code": status}}
    bodies: dict[ErrorShape, object] = {
        "nested": nested,
        "flat": {"object": "error", "message": message, "type": "InternalServerError", "param": None, "code": status},
        "text": {"error": message},
        "detail": {"detail": message},
    }
    return msgspec.json.encode(bodies[shape]) if shape in bodies else f"{message}\n".encode()


def whole_answer(script: Script, ask: Ask) -> bytes:
    """The answer in one piece."""
    count = ask.max_tokens if script.tokens is None else script.tokens
    text = " word" * count
    chat = ask.messages is not None
    choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    return msgspec.json.encode(
        {
            "object": "chat.completion" if chat else "text_completion",
            "model": ask.model,
            "choices": [{"index": 0, "finish_reason": script.finish_reason, **choice}],
            "usage": _usage(script, ask, count),
        }
    )


def frames(script: Script, ask: Ask) -> Iterator[tuple[float, bytes]]:
    """The frames of a streamed answer, each with its time in seconds after the request was read.

    A fault ends the frames where it happens; how the connection then ends is the server's part.
    """
    end = b"\r\n\r\n" if script.crlf else b"\n\n"
    for at_s, content in _events(script, ask):
        yield at_s, content + end


def _events(script: Script, ask: Ask) -> Iterator[tuple[float, bytes]]:
    count = ask.max_tokens if script.tokens is None else script.tokens
    chat = ask.messages is not None
    if script.role_event and chat:
        yield 0.0, _event(ask, delta={"role": "assistant", "content": ""})
    for ping in range(script.pings):
        yield script.ttft_s * (ping + 1) / (script.pings + 1), b": ping"
    if script.fault == "error_first":
        yield script.ttft_s, _error_event(script)
        return
    sent, at_s = 0, script.ttft_s
    for event, first in enumerate(range(0, count, script.tokens_per_event)):
        at_s = script.ttft_s + event * script.gap_s
        if script.fault in {"error_mid", "cut", "ends_early"} and 2 * sent >= count:
            break
        size = min(script.tokens_per_event, count - first)
        channel = script.leading_channel if first < script.leading else script.channel
        yield at_s, _event(ask, delta=_delta(channel, size), text=" word" * size)
        sent += size
    if script.fault == "error_mid":
        yield at_s, _error_event(script)
    if script.fault in {"error_mid", "cut", "ends_early"}:
        return
    if script.finish_reason is not None:
        yield at_s, _event(ask, delta={}, finish_reason=script.finish_reason)
    if script.usage and (ask.stream_options or {}).get("include_usage"):
        yield at_s, _data({"model": ask.model, "choices": [], "usage": _usage(script, ask, sent)})
    yield at_s + script.done_after_s, b"data: [DONE]"


def _event(ask: Ask, *, delta: dict[str, Any], text: str = "", finish_reason: str | None = None) -> bytes:
    said: dict[str, Any] = {"delta": delta} if ask.messages is not None else {"text": text}
    return _data({"model": ask.model, "choices": [{"index": 0, **said, "finish_reason": finish_reason}]})


def _delta(channel: Channel, size: int) -> dict[str, Any]:
    text = " word" * size
    if channel == "tool_calls":
        return {"content": None, "tool_calls": [{"index": 0, "function": {"arguments": text}}]}
    if channel == "function_call":
        return {"content": None, "function_call": {"arguments": text}}
    return {channel: text} if channel == "content" else {"content": None, channel: text}


def _usage(script: Script, ask: Ask, sent: int) -> dict[str, Any]:
    return {
        "prompt_tokens": ask.input_tokens,
        "completion_tokens": sent,
        "total_tokens": ask.input_tokens + sent,
        "prompt_tokens_details": {"cached_tokens": script.cached_tokens},
    }


def _error_event(script: Script) -> bytes:
    return b"data: " + error_body(script.error_shape, script.error_message, 500)


def _data(content: object) -> bytes:
    return b"data: " + msgspec.json.encode(content)
