"""Answers as values: each event with its time and its bytes, so that what is true of it is known before it is sent."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

MODEL = "conformance"
ASKED_TOKENS = 32
"""What a client is told to ask for; no answer has so many, so that a count that was assumed shows."""
TOKENS = 20
FIRST_S = 0.4
GAP_S = 0.02
WORD = " word"

Ending = Literal["whole", "cut"]
"""How an answer's connection ends: in good order, or reset in the middle of an HTTP chunk."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that go out `at_s` seconds after the request was read.

    `token` says that a client's user sees something of the answer by it. `usage` events go only to who asked for usage.
    """

    at_s: float
    content: bytes
    token: bool = False
    usage: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. A `status` other than 200 has its body in one event, and `headers` beside.

    With `cuts` each event goes out in pieces that end at these offsets (negative: from its end), 2 ms apart.
    """

    events: tuple[Event, ...]
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    ending: Ending = "whole"
    cuts: tuple[int, ...] = ()

    @property
    def last_token_s(self) -> float | None:
        """When the last token goes out; None for an answer without one."""
        return max((event.at_s for event in self.events if event.token), default=None)


Framing = Callable[[bytes], bytes]


def lf(data: bytes) -> bytes:
    """An event as every engine writes it."""
    return b"data: " + data + b"\n\n"


def crlf(data: bytes) -> bytes:
    """An event with lines that end in CR LF."""
    return b"data: " + data + b"\r\n\r\n"


def cr(data: bytes) -> bytes:
    """An event with lines that end in CR alone, as the standard allows."""
    return b"data: " + data + b"\r\r"


def no_space(data: bytes) -> bytes:
    """An event without the optional space after the colon."""
    return b"data:" + data + b"\n\n"


def many_lines(data: bytes) -> bytes:
    """An event whose data is parted over two lines; joined by a line feed they are the same JSON."""
    at = data.index(b',"') + 1 if b',"' in data else len(data)
    pieces = [data[:at], data[at:]] if data[at:] else [data]
    return b"".join(b"data: " + piece + b"\n" for piece in pieces) + b"\n"


def named(data: bytes) -> bytes:
    """An event with a name, an id and a retry line, all of which the standard allows."""
    return b"event: message\nid: 7\nretry: 3000\ndata: " + data + b"\n\n"


def chunk(delta: dict[str, Any], *, finish: str | None = None, index: int = 0, usage: object = None) -> bytes:
    """A chunk of a chat completion as JSON, in the shape of OpenAI's."""
    choices = [{"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}]
    return _chunk("chat.completion.chunk", choices, usage)


def text_chunk(text: str, *, finish: str | None = None) -> bytes:
    """A chunk of a text completion as JSON."""
    return _chunk("text_completion", [{"index": 0, "text": text, "logprobs": None, "finish_reason": finish}], None)


def without_choices(*, chat: bool = True, usage: object = None) -> bytes:
    """A chunk whose list of choices is empty, as the one that carries the usage block."""
    return _chunk("chat.completion.chunk" if chat else "text_completion", [], usage)


def usage_block(output_tokens: int) -> dict[str, Any]:
    """A usage block in the shape of OpenAI's."""
    return {"prompt_tokens": 20, "completion_tokens": output_tokens, "total_tokens": 20 + output_tokens}


def tokens(
    deltas: Sequence[dict[str, Any]], *, start_s: float = FIRST_S, gap_s: float = GAP_S, framing: Framing = lf
) -> list[Event]:
    """One token event per delta, the first at `start_s`, with `gap_s` between two."""
    return [
        Event(at_s=start_s + place * gap_s, content=framing(chunk(delta)), token=True)
        for place, delta in enumerate(deltas)
    ]


def words(count: int = TOKENS, *, each: int = 1, field: str = "content") -> list[dict[str, Any]]:
    """Deltas of `count` words in all, `each` in one delta."""
    return [{field: WORD * each} for _ in range(0, count, each)]


def ended(
    events: Sequence[Event],
    *,
    framing: Framing = lf,
    finish: str | None = "stop",
    usage: int | None = TOKENS,
    done: bool = True,
    done_after_s: float = 0.0,
) -> tuple[Event, ...]:
    """The events with what ends a stream: finish_reason, the usage block for who asked, and [DONE]."""
    at_s = max(event.at_s for event in events)
    tail = []
    if finish is not None:
        tail.append(Event(at_s=at_s, content=framing(chunk({}, finish=finish))))
    if usage is not None:
        tail.append(Event(at_s=at_s, content=framing(without_choices(usage=usage_block(usage))), usage=True))
    if done:
        tail.append(Event(at_s=at_s + done_after_s, content=framing(b"[DONE]")))
    return (*events, *tail)


def error_body(message: str, code: int) -> bytes:
    """An error in the shape of OpenAI's."""
    return msgspec.json.encode({"error": {"message": message, "type": "server_error", "param": None, "code": code}})


def refusal(status: int) -> Answer:
    """An HTTP error with Retry-After."""
    body = error_body("the conformance server was told to refuse", status)
    return Answer(status=status, headers=(("Retry-After", "1"),), events=(Event(at_s=0.05, content=body),))


def with_bom(events: Sequence[Event]) -> tuple[Event, ...]:
    """The same stream after a byte order mark."""
    first = msgspec.structs.replace(events[0], content=BOM_UTF8 + events[0].content)
    return (first, *events[1:])


def _chunk(kind: str, choices: list[dict[str, Any]], usage: object) -> bytes:
    said: dict[str, Any] = {"id": "conformance-1", "object": kind, "created": 1, "model": MODEL, "choices": choices}
    return msgspec.json.encode(said if usage is None else said | {"usage": usage})
