"""The bytes of the calibration server's answers, made before the first is sent."""

from __future__ import annotations

from typing import Any

import msgspec

from unmoor.core.calibration import Answer

MODEL = "calibration"


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of an answer by the write: the first with the head, all those between alike, the last with the end.

    The first and those between hold one chunk each.
    """

    first: bytes
    middle: bytes
    last: bytes
    chunks_in_last: int


def wire_of(answer: Answer, *, chat: bool) -> Wire:
    """The bytes of an answer of either endpoint. Of one write all are in `last`."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    token = _chunk(_event(chat=chat, said=" word"))
    opening = head + (_chunk(_event(chat=chat, role="assistant", said="")) if chat else b"")
    ending = _chunk(
        _event(chat=chat, said="", finish_reason="length") + _usage(answer, chat=chat) + b"data: [DONE]\n\n"
    )
    ending += b"0\r\n\r\n"
    if answer.writes == 1:
        return Wire(first=b"", middle=b"", last=opening + token * answer.chunks + ending, chunks_in_last=answer.chunks)
    return Wire(first=opening + token, middle=token, last=token + ending, chunks_in_last=1)


def models() -> bytes:
    """The body of `/v1/models`."""
    return msgspec.json.encode({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "unmoor"}]})


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event(*, chat: bool, said: str, role: str | None = None, finish_reason: str | None = None) -> bytes:
    delta: dict[str, Any] = {"role": role} if role else {}
    words: dict[str, Any] = {"delta": delta | {"content": said}} if chat else {"text": said}
    choice = {"index": 0, **words, "logprobs": None, "finish_reason": finish_reason}
    return _data({**_envelope(chat=chat), "choices": [choice]})


def _usage(answer: Answer, *, chat: bool) -> bytes:
    """The usage block. The prompt is not read, so that its count is one of nothing: always 1."""
    usage = {"prompt_tokens": 1, "completion_tokens": answer.chunks, "total_tokens": 1 + answer.chunks}
    return _data({**_envelope(chat=chat), "choices": [], "usage": usage})


def _envelope(*, chat: bool) -> dict[str, Any]:
    kind = "chat.completion.chunk" if chat else "text_completion"
    return {"id": "calibration-0", "object": kind, "created": 0, "model": MODEL}


def _data(content: object) -> bytes:
    return b"data: " + msgspec.json.encode(content) + b"\n\n"
