"""The OpenAI-compatible wire without I/O: request bodies, and what a stream of timed bytes says."""

from __future__ import annotations

import re
from bisect import bisect_left
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import msgspec

from unmoor.core.record import Outcome

_FAILED_REASONS: Final = frozenset({"abort", "error", "cancelled", "canceled", "timeout"})
"""How engines say in `finish_reason` that an answer did not end as asked (vLLM, SGLang, TensorRT-LLM)."""

_TOKEN_FIELDS: Final = ("content", "reasoning", "reasoning_content", "tool_calls", "function_call")
_MESSAGE_CHARACTERS: Final = 300
_ECHO_CHARACTERS: Final = 16
_SHORTEST_ECHO_CHARACTERS: Final = 8
_MOST_TOKENS: Final = 10**9
"""A count above this is no count: it would drown every sum that it is in."""

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What JSON from elsewhere can raise; the last one by being nested deeper than the interpreter goes."""

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The server's own token counts; what it does not say is None."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


class StreamReading(msgspec.Struct, frozen=True, kw_only=True):
    """What a streamed answer said, and when. Times are those of the reads that completed the events.

    `chunk_at_ns` has one time per event that carried content; the first and last of them are the first and last
    token's. `opened_at_ns` is that of the first event of any kind: a role-only chunk opens a stream, no more.
    """

    opened_at_ns: int | None = None
    chunk_at_ns: tuple[int, ...] = ()
    usage: Usage | None = None
    finish_reason: str | None = None
    error: str | None = None
    saw_done: bool = False

    @property
    def first_token_at_ns(self) -> int | None:
        """When the first content of any kind was there (text, reasoning, tool call); None when there was none."""
        return self.chunk_at_ns[0] if self.chunk_at_ns else None

    @property
    def last_token_at_ns(self) -> int | None:
        """When the last content was there; None when there was none."""
        return self.chunk_at_ns[-1] if self.chunk_at_ns else None

    @property
    def outcome(self) -> Outcome:
        """How the stream ended: an error event or a failed finish_reason is an error, none at all is a cut."""
        if self.error is not None or self.finish_reason in _FAILED_REASONS:
            return Outcome.STREAM_ERROR
        return Outcome.CUT if self.finish_reason is None else Outcome.OK


class BodyReading(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer in one piece said: its error as one message, or its counts and how it finished."""

    error: str | None = None
    usage: Usage | None = None
    finish_reason: str | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool = True


class _Message(msgspec.Struct):
    role: str
    content: str


class _Ask(msgspec.Struct, omit_defaults=True):
    model: str
    max_tokens: int
    temperature: float
    messages: list[_Message] | None = None
    prompt: str | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None
    ignore_eos: bool = False
    seed: int | None = None


class _Delta(msgspec.Struct):
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    message: Any = None


_read_chunk = msgspec.json.Decoder(_Chunk).decode


def chat_body(
    model: str, prompt: str, max_tokens: int, *, stream: bool = True, ignore_eos: bool = False, seed: int | None = None
) -> bytes:
    """A chat completion request as JSON: one user message, temperature 0, usage asked for in a stream.

    `ignore_eos` is a field of vLLM and SGLang, not of OpenAI: it is only there when asked for.
    """
    ask = _Ask(model, max_tokens, 0.0, messages=[_Message("user", prompt)])
    return _encode(ask, stream=stream, ignore_eos=ignore_eos, seed=seed)


def completion_body(
    model: str, prompt: str, max_tokens: int, *, stream: bool = True, ignore_eos: bool = False, seed: int | None = None
) -> bytes:
    """A text completion request as JSON, with the same rules as `chat_body`."""
    return _encode(_Ask(model, max_tokens, 0.0, prompt=prompt), stream=stream, ignore_eos=ignore_eos, seed=seed)


def read_stream(chunks: Sequence[tuple[int, bytes]]) -> StreamReading:
    """What a server-sent event stream says, from its body as received: (receive time in ns, bytes), in order.

    Works on the whole body, so that it does not matter where reads split it. An event gets the time of the read that
    completed it. Comments, empty and role-only events never count as a token; no usage block means no counts.
    A last event without its blank line counts if it is whole. An error ends the reading.
    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    opened, usage, finish, error, done = None, None, None, None, False
    chunk_at: list[int] = []
    ends = list(accumulate(len(piece) for _, piece in chunks))
    for end, name, content in _events(b"".join(piece for _, piece in chunks)):
        at = chunks[bisect_left(ends, end)][0]
        opened = at if opened is None else opened
        if content.strip() == b"[DONE]":
            done = True
            continue
        chunk, error = _chunk(name, content)
        if chunk is None:
            break
        usage = _usage(chunk.usage) or usage
        for choice in chunk.choices or ():
            finish = choice.finish_reason or finish
        if _has_token(chunk):
            chunk_at.append(at)
    return StreamReading(
        opened_at_ns=opened,
        chunk_at_ns=tuple(chunk_at),
        usage=usage,
        finish_reason=finish,
        error=error,
        saw_done=done,
    )


def read_body(body: bytes) -> BodyReading:
    """What an answer in one piece says. Every engine's error shape becomes one message of at most 300 characters.

    Known shapes: {"error": {"message": ...}} (vLLM, llama-server), {"object": "error", "message": ...} (SGLang,
    TensorRT-LLM), {"error": "text"} (TensorRT-LLM), {"detail": ...} (FastAPI); else the text itself.
    """
    try:
        found = msgspec.json.decode(body)
    except _UNREADABLE:
        return BodyReading(error=_one_line(body.decode("utf-8", "replace")) or "an empty answer")
    if not isinstance(found, dict):
        return BodyReading(error=_one_line(_as_text(found)))
    choices = found.get("choices")
    if isinstance(choices, list) and choices and not found.get("error"):
        first = choices[0] if isinstance(choices[0], dict) else {}
        reason = first.get("finish_reason")
        return BodyReading(usage=_usage(found.get("usage")), finish_reason=str(reason) if reason else None)
    return BodyReading(error=_message(found))


def withhold(message: str, text: str) -> str:
    """The message without what it repeats of `text`: engines quote prompts in their errors, we keep none.

    From the first run of 16 characters or more of `text` (all of it if shorter) the message is cut off. A repetition
    of 31 characters is always found, a shorter one may not be. A text under 8 characters is not looked for: it would
    be found inside words.
    """
    step = min(_ECHO_CHARACTERS, len(text))
    if step < _SHORTEST_ECHO_CHARACTERS:
        return message
    pieces = (text[start : start + step] for start in range(0, len(text) - step + 1, step))
    hits = [at for at in (message.find(piece) for piece in pieces) if at >= 0]
    if not hits:
        return message
    return f"{message[: max(0, min(hits) - _ECHO_CHARACTERS)].rstrip()} [text withheld]".lstrip()


def _encode(ask: _Ask, *, stream: bool, ignore_eos: bool, seed: int | None) -> bytes:
    ask.stream, ask.ignore_eos, ask.seed = stream, ignore_eos, seed
    ask.stream_options = _StreamOptions() if stream else None
    return msgspec.json.encode(ask)


def _events(body: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Each event as (offset where it is complete, its name, its data); those without data are none."""
    start, name, content = len(BOM_UTF8) if body.startswith(BOM_UTF8) else 0, b"", list[bytes]()
    for match in _LINE_END.finditer(body, start):
        line, start = body[start : match.start()], match.end()
        if not line:
            if content:
                yield start, name, b"\n".join(content)
            name, content = b"", []
            continue
        name = _take(line, name, content)
    name = _take(body[start:], name, content)
    if content and _whole(last := b"\n".join(content)):
        yield len(body), name, last


def _take(line: bytes, name: bytes, content: list[bytes]) -> bytes:
    """Takes one line of an event, and gives the event's name as it then is."""
    field, _, value = line.partition(b":")
    value = value.removeprefix(b" ")
    if field == b"data":
        content.append(value)
    elif field == b"event":
        return value
    elif field == b"error":  # older llama-server: a line `error: {...}` of its own
        content.append(value)
        return b"error"
    return name


def _whole(content: bytes) -> bool:
    try:
        return content.strip() == b"[DONE]" or isinstance(msgspec.json.decode(content), dict)
    except _UNREADABLE:
        return False


def _chunk(name: bytes, content: bytes) -> tuple[_Chunk | None, str | None]:
    """One event as a chunk, or the message of the error that it is."""
    if name == b"error":
        return None, read_body(content).error or "an error event without a message"
    try:
        chunk = _read_chunk(content)
    except _UNREADABLE:
        # Never quoted: an event carries text of an answer.
        return None, f"an event of {len(content)} bytes is not a chunk of a completion"
    if chunk.error or chunk.object == "error" or (chunk.choices is None and chunk.message):
        return None, _message({"error": chunk.error, "message": chunk.message})
    return chunk, None


def _has_token(chunk: _Chunk) -> bool:
    for choice in chunk.choices or ():
        if choice.text:
            return True
        delta = choice.delta
        if delta is not None and any(getattr(delta, field) for field in _TOKEN_FIELDS):
            return True
    return False


def _usage(block: object) -> Usage | None:
    if not isinstance(block, dict):
        return None
    details = block.get("prompt_tokens_details")
    return Usage(
        input_tokens=_count(block.get("prompt_tokens")),
        output_tokens=_count(block.get("completion_tokens")),
        cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, dict) else None,
    )


def _count(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MOST_TOKENS else None


def _message(found: dict[str, Any]) -> str:
    error = found.get("error")
    if isinstance(error, dict):
        said = error.get("message") or error.get("type") or error.get("code")
    else:
        said = error or found.get("message") or found.get("detail")
    return _one_line(_as_text(said)) if said else "an error without a message"


def _as_text(value: object) -> str:
    try:
        return str(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        return "an error that cannot be shown"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MESSAGE_CHARACTERS else line[: _MESSAGE_CHARACTERS - 1] + "…"
