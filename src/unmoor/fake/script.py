"""What a fake engine does, as a value: what it is asked, and step by step what it answers, whatever the endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, NamedTuple

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


_PIECES = 8


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer, exactly: the first token `ttft_s` after the request is read, then one event every `gap_s`.

    `tokens` None means as many as the request's `max_tokens` (16 without). `leading` tokens go to the `leading_channel`
    before the rest go to `channel`. `says` is the whole text of the latter, cut into as many tokens as there are (8
    unless `tokens` says); None: words. Calls are of `tool`. A usage block is sent when the request asks and `usage`
    allows; its `cached_tokens` None is sent as null; "every_event" sends what it is so far with every event.
    Of several choices the last `unfinished` never get their `finish_reason`. In the Responses API the latter says how
    the response ends: "stop" completed, "length" incomplete, None not at all, else failed.
    `done_after_s` delays `[DONE]`. `http_1_0` answers without a length or chunks and closes. `status` other than 200
    answers with an error body of `error_shape` at once, and asks to be left alone for `retry_after_s`.
    """

    ttft_s: float = 0.05
    gap_s: float = 0.01
    tokens: int | None = None
    tokens_per_event: int = 1
    role_event: bool = True
    channel: Channel = "content"
    leading: int = 0
    leading_channel: Channel = "reasoning_content"
    says: str | None = None
    tool: str = "f"
    pings: int = 0
    usage: bool | Literal["every_event"] = True
    cached_tokens: int | None = 0
    finish_reason: str | None = "stop"
    unfinished: int = 0
    done_after_s: float = 0.0
    crlf: bool = False
    http_1_0: bool = False
    status: int = 200
    error_shape: ErrorShape = "nested"
    error_message: str = "the fake engine was told to fail"
    retry_after_s: int | None = None
    fault: Fault | None = None


class Ask(msgspec.Struct, frozen=True):
    """The part of a request that a fake engine looks at."""

    model: str = "fake"
    max_tokens: int = 16
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    n: int = 1
    messages: list[dict[str, Any]] | None = None
    prompt: str | None = None
    input: str | None = None
    max_output_tokens: int | None = None

    @property
    def input_tokens(self) -> int:
        """Words of the prompt: a fake engine's tokens."""
        said = [str(message.get("content") or "") for message in self.messages or ()] + [
            self.prompt or self.input or ""
        ]
        return sum(len(text.split()) for text in said)

    @property
    def most_tokens(self) -> int:
        """How long the answer may be."""
        return self.max_tokens if self.max_output_tokens is None else self.max_output_tokens

    @property
    def counts(self) -> bool:
        """Whether usage is wanted in a stream."""
        return self.input is not None or bool((self.stream_options or {}).get("include_usage"))


class Token(NamedTuple):
    """What one event brings: on which channel, its text, whether it opens that channel, and the tokens so far."""

    channel: Channel
    text: str
    opens: bool
    so_far: int


Step = Token | Literal["role", "ping", "error", "finish", "usage", "done"]


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


def token_count(script: Script, ask: Ask) -> int:
    """How many tokens each choice is to have."""
    if script.tokens is not None:
        return script.tokens
    return ask.most_tokens if script.says is None else _PIECES + script.leading


def tokens(script: Script, count: int) -> Iterator[Token]:
    """The answer of one choice, event by event."""
    pieces = _pieces(script, count)
    before: Channel | None = None
    for first in range(0, count, script.tokens_per_event):
        last = min(count, first + script.tokens_per_event)
        channel = script.leading_channel if first < script.leading else script.channel
        yield Token(channel, "".join(pieces[first:last]), channel != before, last)
        before = channel


def steps(script: Script, ask: Ask) -> Iterator[tuple[float, Step]]:
    """What happens in a stream, each with its time in seconds after the request was read.

    A fault ends it where it happens; how the connection then ends is the server's part.
    """
    count = token_count(script, ask)
    if script.role_event:
        yield 0.0, "role"
    for ping in range(script.pings):
        yield script.ttft_s * (ping + 1) / (script.pings + 1), "ping"
    if script.fault == "error_first":
        yield script.ttft_s, "error"
        return
    breaks = script.fault in {"error_mid", "cut", "ends_early"}
    at_s, sent = script.ttft_s, 0
    for event, token in enumerate(tokens(script, count)):
        at_s = script.ttft_s + event * script.gap_s
        if breaks and 2 * sent >= count:
            break
        yield at_s, token
        sent = token.so_far
    if script.fault == "error_mid":
        yield at_s, "error"
    if breaks:
        return
    if script.finish_reason is not None:
        yield at_s, "finish"
    if script.usage and ask.counts:
        yield at_s, "usage"
    yield at_s + script.done_after_s, "done"


def _pieces(script: Script, count: int) -> list[str]:
    """The text of each token."""
    if script.says is None:
        return [" word"] * count
    cut = max(1, count - script.leading)
    edges = [round(place * len(script.says) / cut) for place in range(cut + 1)]
    said = [script.says[a:b] for a, b in pairwise(edges)]
    return [" word"] * min(script.leading, count) + said
