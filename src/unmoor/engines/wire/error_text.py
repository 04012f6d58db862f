"""What a failed answer says, as one line of bounded length that repeats nothing of the prompt."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from unmoor.core.printable import printable

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What JSON from elsewhere can raise; the last one by being nested deeper than the interpreter goes."""

_MESSAGE_CHARACTERS: Final = 300
_ECHO_CHARACTERS: Final = 16
_SHORTEST_ECHO_CHARACTERS: Final = 8
_NO_MESSAGE: Final = "an error without a message"


def error_text(body: bytes) -> str:
    """The error in a body, whatever its shape, as one message of at most 300 characters.

    Known shapes: {"error": {"message": ...}} (vLLM, llama-server), {"object": "error", "message": ...} (SGLang,
    TensorRT-LLM), {"error": "text"} (TensorRT-LLM), {"type": "error", "message": ...} (the Responses API),
    {"detail": ...} (FastAPI); else the text itself.
    """
    try:
        found = msgspec.json.decode(body)
    except UNREADABLE:
        return _one_line(body.decode("utf-8", "replace")) or "an empty answer"
    return message_of(found) if isinstance(found, dict) else _one_line(_as_text(found))


def message_of(found: dict[str, Any]) -> str:
    """The message in an error that is read already."""
    error = found.get("error")
    if isinstance(error, dict):
        said = error.get("message") or error.get("type") or error.get("code")
    else:
        said = error or found.get("message") or found.get("detail")
    return _one_line(_as_text(said)) if said else _NO_MESSAGE


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


def _as_text(value: object) -> str:
    try:
        return str(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        return "an error that cannot be shown"


def _one_line(text: str) -> str:
    line = " ".join(printable(text).split())
    return line if len(line) <= _MESSAGE_CHARACTERS else line[: _MESSAGE_CHARACTERS - 1] + "…"
