"""An answer's bytes as the Responses API frames it: typed events, or one response.

The events and their order are those of vLLM 0.32.0, the last one's name that of OpenAI and SGLang.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from unmoor.fake.script import Ask, Channel, Script, Token, steps, token_count, tokens

_REASONING = frozenset({"reasoning", "reasoning_content"})
_STATUS = {"stop": "completed", "length": "incomplete", "tool_calls": "completed"}


def response_events(script: Script, ask: Ask) -> Iterator[tuple[float, bytes]]:
    """The events of a streamed response, each with its time in seconds after the request was read."""
    said: list[Token] = []
    for at_s, step in steps(script, ask):
        if isinstance(step, Token):
            for event in _token_events(script, step, place=sum(token.opens for token in [*said, step]) - 1):
                yield at_s, event
            said.append(step)
        elif step == "role":
            yield at_s, _event("response.created", response=_response(script, ask, [], status="in_progress"))
            yield at_s, _event("response.in_progress", response=_response(script, ask, [], status="in_progress"))
        elif step == "ping":
            yield at_s, b": ping"
        elif step == "error":
            yield at_s, _event("error", code="server_error", message=script.error_message, param=None)
        elif step == "done" and script.finish_reason is not None:
            status = _status(script)
            yield at_s, _event(f"response.{status}", response=_response(script, ask, said, status=status))


def whole_response(script: Script, ask: Ask) -> bytes:
    """The response in one piece."""
    said = list(tokens(script, token_count(script, ask)))
    return msgspec.json.encode(_response(script, ask, said, status=_status(script)))


def _status(script: Script) -> str:
    return _STATUS.get(script.finish_reason or "", "failed")


def _token_events(script: Script, token: Token, *, place: int) -> Iterator[bytes]:
    if token.opens:
        yield _event("response.output_item.added", output_index=place, item=_item(script, token.channel, ""))
    kind = "output_text"
    if token.channel in _REASONING:
        kind = "reasoning_text"
    elif token.channel != "content":
        kind = "function_call_arguments"
    yield _event(f"response.{kind}.delta", output_index=place, delta=token.text)


def _item(script: Script, channel: Channel, text: str) -> dict[str, Any]:
    if channel == "content":
        parts = [{"type": "output_text", "text": text}] if text else []
        return {"type": "message", "role": "assistant", "content": parts}
    if channel in _REASONING:
        return {"type": "reasoning", "content": [{"type": "reasoning_text", "text": text}] if text else []}
    return {"type": "function_call", "name": script.tool, "arguments": text}


def _response(script: Script, ask: Ask, said: list[Token], *, status: str) -> dict[str, Any]:
    texts: dict[Channel, str] = {}
    for token in said:
        texts[token.channel] = texts.get(token.channel, "") + token.text
    sent, counted = (said[-1].so_far if said else 0), script.usage and status != "in_progress"
    return {
        "object": "response",
        "model": ask.model,
        "status": status,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "error": {"code": "server_error", "message": script.error_message} if status == "failed" else None,
        "output": [_item(script, channel, text) for channel, text in texts.items()],
        "usage": _usage(script, ask, said, sent) if counted else None,
    }


def _usage(script: Script, ask: Ask, said: list[Token], sent: int) -> dict[str, Any]:
    starts = [0, *(token.so_far for token in said)]
    thought = sum(
        token.so_far - start for start, token in zip(starts, said, strict=False) if token.channel in _REASONING
    )
    return {
        "input_tokens": ask.input_tokens,
        "input_tokens_details": {"cached_tokens": script.cached_tokens},
        "output_tokens": sent,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": ask.input_tokens + sent,
    }


def _event(kind: str, **content: object) -> bytes:
    return f"event: {kind}\ndata: ".encode() + msgspec.json.encode({"type": kind, **content})
