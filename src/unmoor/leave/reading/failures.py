"""Requests that failed or were given up: which case it was, by the server's own words, and how clients were told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from unmoor.leave.reading.values import OBJECT, word
from unmoor.leave.uses import Rows, Use, Uses

Shape = Literal["nested", "flat", "text"]

GONE = 499
"""The status that proxies write where the client went away first."""

_FAILED = 400
_UNKNOWN_MODEL, _WRONG_KEY, _TOO_MANY, _BUSY, _FAULT = 404, 401, 429, 503, 500
_CASES = (
    ("max_tokens_over_context", re.compile(r"max_(completion_)?tokens.{0,80}?(too large|cannot be greater)")),
    ("prompt_too_long", re.compile(r"longer than|maximum context|context length|exceed_context_size|context size")),
    ("unknown_model", re.compile(r"model.*does not exist|model.*not found|NotFoundError")),
    ("queue_full", re.compile(r"queue is full|currently busy|too many requests", re.IGNORECASE)),
    (
        "bad_schema",
        re.compile(
            r"grammar error|json_schema|JSON schema error|invalid schema|failed to parse grammar", re.IGNORECASE
        ),
    ),
    ("bad_key", re.compile(r"Unauthorized|authentication_error|invalid api key", re.IGNORECASE)),
    ("unknown_field", re.compile(r"extra_forbidden|Extra inputs are not permitted")),
)
_BY_STATUS = {
    _UNKNOWN_MODEL: "unknown_model",
    _WRONG_KEY: "bad_key",
    _TOO_MANY: "queue_full",
    _BUSY: "queue_full",
    _FAULT: "engine_fault",
}
_ANSWERED, _REDIRECTED = 200, 300
_MOST = 599
_THREE_DIGITS = re.compile(r"[1-5][0-9]{2}")
_MOST_CHARACTERS = 2000


def read_failure(uses: Uses, line: int, answer: Mapping[str, Any], status: int | None) -> None:
    """Adds how a request failed, or that its client went away; of one that was answered no more than that it was.

    `status` is that of HTTP, where the log says one. Of the error's message only the case is kept that it tells of.
    """
    ended = answer.get("status")
    aborted = any(isinstance(one, dict) and word(one.get("finish_reason")) in _ABORTED for one in _choices(answer))
    if status == GONE or ended == "cancelled" or aborted:
        uses.together.setdefault("abandoned", Rows()).add(line)
    if status == GONE:
        return
    shape = _shape(answer)
    told = _told(answer, shape)
    known = status if status is not None and status >= _FAILED else _code(answer, shape)
    if shape is None and known is None:
        if _choices(answer) or (status is not None and _ANSWERED <= status < _REDIRECTED):
            uses.together.setdefault("answered", Rows()).add(line)
        return
    uses.add(Use("answer", "error", OBJECT), line)
    if shape is not None:
        uses.add(Use("answer", "error.shape", shape), line)
    if known is not None:
        uses.add(Use("answer", "error.status", known), line)
    case = next((name for name, words in _CASES if words.search(told)), _BY_STATUS.get(known or 0))
    if case is not None:
        uses.add(Use("answer", "error.case", case), line)


_ABORTED = frozenset(("abort", "cancelled"))


def _choices(answer: Mapping[str, Any]) -> list[Any]:
    choices = answer.get("choices")
    return choices if isinstance(choices, list) else []


def _shape(answer: Mapping[str, Any]) -> Shape | None:
    """The shape of an error's body; None where the answer is none."""
    if answer.get("object") == "error":
        return "flat"
    error = answer.get("error")
    if isinstance(error, dict):
        return "nested"
    return "text" if isinstance(error, str) and error else None


def _told(answer: Mapping[str, Any], shape: Shape | None) -> str:
    """The server's words about the error, to be searched for what is known, and forgotten."""
    inner: Any = answer.get("error") if shape == "nested" else answer
    if shape == "text":
        return str(answer["error"])[:_MOST_CHARACTERS]
    if shape is None:
        return ""
    return " ".join(str(inner.get(name, ""))[:_MOST_CHARACTERS] for name in ("type", "message"))


def _code(answer: Mapping[str, Any], shape: Shape | None) -> int | None:
    inner: Any = answer.get("error") if shape == "nested" else answer
    code = inner.get("code") if shape is not None and isinstance(inner, dict) else None
    number = int(code) if isinstance(code, str) and _THREE_DIGITS.fullmatch(code) else code
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    return number if _FAILED <= number <= _MOST else None
