"""One event of a streamed answer, or an answer in one piece, in the words of its endpoint: what it says, in ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from unmoor.engines.wire.error_text import UNREADABLE, error_text, message_of
from unmoor.engines.wire.sse import Event

_MOST_TOKENS: Final = 10**9
"""A count above this is no count: it would drown every sum that it is in."""

_MOST_CHOICES: Final = 1024
_ENDED_WELL: Final = frozenset({"completed", "incomplete"})
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The server's own token counts, of all choices together; what it does not say is None.

    `reasoning_tokens` are those of the output tokens that are no part of the answer.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Call(NamedTuple):
    """A piece of a tool call: its place among the choice's calls, its name where that is told here, its arguments."""

    place: int
    name: str
    arguments: str


class Piece(NamedTuple):
    """What one event brought of one choice. `reasons` and `answers`: whether it had content of that kind.

    `text` is the answer's, `thought` that of its reasoning.
    """

    choice: int
    reasons: bool
    answers: bool
    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: str | None = None
    thought: str = ""


class Said(NamedTuple):
    """What one event said. An `error` ends the answer badly, `over` ends it well or badly."""

    pieces: tuple[Piece, ...] = ()
    usage: Usage | None = None
    error: str | None = None
    over: bool = False


AN_ANSWER: Final = Said((Piece(0, reasons=False, answers=True),))
_A_REASON: Final = Said((Piece(0, reasons=True, answers=False),))
_NOTHING: Final = Said()


class _Message(msgspec.Struct):
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: Any = None
    function_call: Any = None
    refusal: Any = None


class _Choice(msgspec.Struct):
    index: Any = 0
    delta: _Message | None = None
    message: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Response(msgspec.Struct):
    """An answer of the Responses API, as it is in its last event, or in one piece."""

    status: str | None = None
    usage: Any = None
    error: Any = None
    incomplete_details: Any = None
    output: Any = None


class Chunk(msgspec.Struct):
    """The part of an event's data, or of an answer in one piece, that is understood here."""

    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    message: Any = None
    # The Responses API
    type: str | None = None
    response: _Response | None = None
    delta: Any = None
    item: Any = None
    output_index: Any = 0


_read_chunk = msgspec.json.Decoder(Chunk).decode
_read_chunks = msgspec.json.Decoder(Chunk).decode_lines
_read_response = msgspec.json.Decoder(_Response).decode


def said_by(event: Event) -> Said:
    """What one event says. One that cannot be read is an error, and never quoted: it carries text of an answer."""
    if event.name == b"error":
        return Said(error=error_text(event.content))
    try:
        chunk = _read_chunk(event.content)
    except UNREADABLE:
        return Said(error=f"an event of {len(event.content)} bytes is not a chunk of a completion")
    return said_in(chunk)


def read_chunks(contents: Sequence[bytes]) -> list[Chunk] | None:
    """The data of several events, none of which has a line feed, in one go; None where one of them cannot be read."""
    try:
        return _read_chunks(b"\n".join(contents))
    except UNREADABLE:
        return None


def said_in(chunk: Chunk) -> Said:
    """What an event says whose data has been read."""
    if chunk.error or chunk.object == "error" or (chunk.choices is None and chunk.message):
        return Said(error=message_of({"error": chunk.error, "message": chunk.message}))
    if chunk.type is not None and chunk.choices is None:
        return _of_response_event(chunk.type, chunk)
    return Said(tuple(_piece(choice, choice.delta) for choice in chunk.choices or ()), _usage(chunk.usage))


def said_without_text(chunk: Chunk) -> Said:
    """The same but for text and calls, for an answer whose form nobody checks: nearly every event is a token alone."""
    choices = chunk.choices
    if choices is None or len(choices) != 1 or chunk.usage is not None or chunk.error or chunk.object == "error":
        return said_in(chunk)
    choice = choices[0]
    delta = choice.delta
    if delta is None or choice.finish_reason is not None or choice.text or choice.index != 0:
        return said_in(chunk)
    if delta.content or delta.tool_calls or delta.function_call or delta.refusal:
        return said_in(chunk) if delta.reasoning or delta.reasoning_content else AN_ANSWER
    return _A_REASON if delta.reasoning or delta.reasoning_content else _NOTHING


def said_whole(body: bytes) -> Said:
    """What an answer in one piece says; an error for what is no answer, of which nothing is quoted but its error."""
    try:
        chunk = _read_chunk(body)
        if chunk.object == "response" and not chunk.error:
            return _of_response(_read_response(body), whole=True)
    except UNREADABLE:
        return Said(error=_no_answer(body))
    if chunk.error or not chunk.choices:
        return Said(error=_no_answer(body))
    return Said(tuple(_piece(choice, choice.message) for choice in chunk.choices), _usage(chunk.usage), over=True)


def _no_answer(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body)
    except UNREADABLE:
        found = None
    if isinstance(found, dict) and any(found.get(key) for key in ("error", "message", "detail")):
        return message_of(found)
    return f"an answer of {len(body)} bytes is not a completion" if body else "an empty answer"


def _piece(choice: _Choice, message: _Message | None) -> Piece:
    place = choice.index if isinstance(choice.index, int) and 0 <= choice.index < _MOST_CHOICES else 0
    if message is None:
        text = choice.text or ""
        return Piece(place, reasons=False, answers=bool(text), text=text, finish=choice.finish_reason)
    return Piece(
        place,
        reasons=bool(message.reasoning or message.reasoning_content),
        answers=bool(choice.text or message.content or message.tool_calls or message.function_call or message.refusal),
        text=message.content if isinstance(message.content, str) else "",
        calls=tuple(_calls(message)) if message.tool_calls or message.function_call else (),
        finish=choice.finish_reason,
        thought=_thought(message) if message.reasoning or message.reasoning_content else "",
    )


def _thought(message: _Message) -> str:
    for said in (message.reasoning, message.reasoning_content):
        if isinstance(said, str) and said:
            return said
    return ""


def _calls(message: _Message) -> Iterator[Call]:
    if isinstance(message.function_call, dict):
        yield _call(0, message.function_call)
    for order, call in enumerate(message.tool_calls if isinstance(message.tool_calls, list) else ()):
        if isinstance(call, dict):
            function, index = call.get("function"), call.get("index")
            yield _call(index if isinstance(index, int) else order, function if isinstance(function, dict) else {})


def _call(place: int, said: dict[str, Any]) -> Call:
    name, arguments = said.get("name"), said.get("arguments")
    return Call(place, name if isinstance(name, str) else "", arguments if isinstance(arguments, str) else "")


def _of_response_event(kind: str, chunk: Chunk) -> Said:
    """A typed event of the Responses API, as OpenAI, vLLM and SGLang send it.

    Sources: https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-12-01); streams of
    vLLM 0.32.0 and the code of SGLang 0.5.23.
    """
    if kind == "error":
        return Said(error=message_of({"error": chunk.error, "message": chunk.message}))
    if kind in _ENDS:
        response = chunk.response or _Response()
        # vLLM calls every end "response.completed", and says in the response how it ended.
        response.status = response.status or kind.removeprefix("response.")
        return _of_response(response, whole=False)
    if kind.endswith(".delta") and isinstance(chunk.delta, str) and chunk.delta:
        return Said((_of_delta(kind, chunk),))
    if kind == "response.output_item.added" and _is_call(chunk.item):
        call = _call(_place(chunk), chunk.item)
        return Said((Piece(0, reasons=False, answers=True, calls=(call,)),) if call.name else ())
    return Said()


def _of_delta(kind: str, chunk: Chunk) -> Piece:
    if "reasoning" in kind:
        return Piece(0, reasons=True, answers=False, thought=chunk.delta)
    if kind == "response.output_text.delta":
        return Piece(0, reasons=False, answers=True, text=chunk.delta)
    calls = (Call(_place(chunk), "", chunk.delta),) if kind == "response.function_call_arguments.delta" else ()
    return Piece(0, reasons=False, answers=True, calls=calls)


def _of_response(response: _Response, *, whole: bool) -> Said:
    usage = _usage(response.usage)
    if response.status not in _ENDED_WELL:
        said = message_of({"error": response.error}) if response.error else f"the response is {response.status}"
        return Said(usage=usage, error=said, over=True)
    details = response.incomplete_details
    reason = details.get("reason") if isinstance(details, dict) else None
    finish = str(reason) if reason else response.status
    ends = Piece(0, reasons=False, answers=False, finish=finish)
    return Said((*(_output(response.output) if whole else ()), ends), usage, over=True)


def _output(items: object) -> Iterator[Piece]:
    for place, item in enumerate(items if isinstance(items, list) else ()):
        if _is_call(item):
            yield Piece(0, reasons=False, answers=True, calls=(_call(place, item),))
        elif isinstance(item, dict) and item.get("type") == "message":
            parts = item.get("content")
            texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
            text = "".join(text for text in texts if isinstance(text, str))
            yield Piece(0, reasons=False, answers=bool(text), text=text)
        elif isinstance(item, dict) and item.get("type") == "reasoning":
            yield Piece(0, reasons=True, answers=False)


def _is_call(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == "function_call"


def _place(chunk: Chunk) -> int:
    return chunk.output_index if isinstance(chunk.output_index, int) else 0


def _usage(block: object) -> Usage | None:
    """Counts by either family of names: prompt and completion tokens, or input and output tokens."""
    if not isinstance(block, dict):
        return None
    of_input = block.get("prompt_tokens_details") or block.get("input_tokens_details")
    of_output = block.get("completion_tokens_details") or block.get("output_tokens_details")
    reasoning = of_output.get("reasoning_tokens") if isinstance(of_output, dict) else block.get("reasoning_tokens")
    input_tokens = _count(block.get("prompt_tokens", block.get("input_tokens")))
    cached_tokens = _count(of_input.get("cached_tokens")) if isinstance(of_input, dict) else None
    if cached_tokens is not None and input_tokens is not None and cached_tokens > input_tokens:
        cached_tokens = None  # more than the whole prompt is no count of it
    return Usage(
        input_tokens=input_tokens,
        output_tokens=_count(block.get("completion_tokens", block.get("output_tokens"))),
        cached_tokens=cached_tokens,
        reasoning_tokens=_count(reasoning),
    )


def _count(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MOST_TOKENS else None
