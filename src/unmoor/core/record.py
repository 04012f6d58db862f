"""The record of one request as it was measured, and each quantity derived from it, defined once."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise

import msgspec

from unmoor.core.slo import Slo


class Outcome(StrEnum):
    """How a request ended. All but OK miss the SLO; none leaves the denominator."""

    OK = "ok"
    HTTP_ERROR = "http_error"
    STREAM_ERROR = "stream_error"  # an error event, or finish_reason abort/error, after HTTP 200
    CUT = "cut"  # the answer ended without a finish_reason for every choice, or the connection broke
    REFUSED = "refused"  # no connection
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"  # the run was stopped while it was in flight


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request as measured. Clock readings are monotonic nanoseconds; missing is None, never 0.

    `index` is the request's place in the workload, so that settings are compared request by request. `model` is who was
    asked, where requests of one load ask several (adapters).
    `chunk_at_ns` holds the receive time of every chunk that carried content (of any kind: text, reasoning, tool call),
    `first_answer_at_ns` that of the first whose content was not reasoning. An answer in one piece has no chunks and no
    first token; its `last_token_at_ns` is when its last byte was there.
    `choices` were asked for at once, where it was more than one; token counts are of all of them together, and
    `reasoning_tokens` those of the output tokens that are no part of the answer. `tokens_from` names who counted the
    output tokens: "server" (usage block) or None when nobody did.
    `valid` says whether the answer had the form asked for, a schema's or that of calls of the tools offered; None where
    none was, where nothing could be checked, and for a request that failed.
    `retry_after_s` is how long the server asked to be left alone for, with an error.
    """

    index: int
    outcome: Outcome
    scheduled_at_ns: int
    sent_at_ns: int | None = None
    first_byte_at_ns: int | None = None
    first_token_at_ns: int | None = None
    first_answer_at_ns: int | None = None
    last_token_at_ns: int | None = None
    closed_at_ns: int | None = None
    chunk_at_ns: tuple[int, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    tokens_from: str | None = None
    choices: int | None = None
    finish_reason: str | None = None
    status: int | None = None
    error: str | None = None
    valid: bool | None = None
    model: str | None = None
    retry_after_s: float | None = None

    @property
    def ok(self) -> bool:
        """Whether a whole answer came."""
        return self.outcome is Outcome.OK


def _span_s(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / 1e9


def send_lag_s(record: Record) -> float | None:
    """Sent - scheduled, in seconds: the client's own lateness, the guard against coordinated omission."""
    return _span_s(record.scheduled_at_ns, record.sent_at_ns)


def ttft_s(record: Record) -> float | None:
    """First content token received - sent, in seconds; None for a request that failed or gave no token.

    Role-only and empty chunks do not count, reasoning and tool-call tokens do. The service's own latency: what the
    user felt is `scheduled_ttft_s`.
    """
    return _span_s(record.sent_at_ns, record.first_token_at_ns) if record.ok else None


def scheduled_ttft_s(record: Record) -> float | None:
    """First content token received - scheduled, in seconds: the headline, against which an SLO is judged.

    A late client is not hidden by it. Not the same as vLLM's or SGLang's bench, whose clocks start at the send.
    """
    return _span_s(record.scheduled_at_ns, record.first_token_at_ns) if record.ok else None


def ttfa_s(record: Record) -> float | None:
    """First content that is not reasoning received - sent, in seconds: the time to first answer.

    The first text, tool call or function call; None for a request that failed or gave none. AIPerf calls it time to
    first output token. Where a model does not reason it is `ttft_s`.
    """
    return _span_s(record.sent_at_ns, record.first_answer_at_ns) if record.ok else None


def scheduled_ttfa_s(record: Record) -> float | None:
    """First content that is not reasoning received - scheduled, in seconds."""
    return _span_s(record.scheduled_at_ns, record.first_answer_at_ns) if record.ok else None


def tpot_s(record: Record) -> float | None:
    """(last token - first token) / (output tokens - 1), in seconds; None under two tokens or when not reported.

    None for several choices at once, whose tokens come side by side and are counted together.
    The same as vLLM's TPOT; AIPerf calls this ITL; GuideLLM's TPOT includes the first token.
    """
    if record.choices is not None:
        return None
    if not record.ok or record.output_tokens is None or record.output_tokens < 2:  # noqa: PLR2004 - by definition
        return None
    decode_s = _span_s(record.first_token_at_ns, record.last_token_at_ns)
    return None if decode_s is None else decode_s / (record.output_tokens - 1)


def itl_s(record: Record) -> tuple[float, ...]:
    """Each gap between two chunks with content, in seconds; none for a request that failed, nor for several choices.

    A chunk can hold several tokens: not the same as a time per token.
    """
    if not record.ok or record.choices is not None:
        return ()
    return tuple((later - earlier) / 1e9 for earlier, later in pairwise(record.chunk_at_ns))


def e2e_s(record: Record) -> float | None:
    """Last content token - sent, in seconds; None for a request that failed. Of one in one piece: its last byte."""
    return _span_s(record.sent_at_ns, record.last_token_at_ns) if record.ok else None


def scheduled_e2e_s(record: Record) -> float | None:
    """Last content token - scheduled, in seconds; None for a request that failed."""
    return _span_s(record.scheduled_at_ns, record.last_token_at_ns) if record.ok else None


def meets(record: Record, slo: Slo) -> bool:
    """Whether one request meets every bound of the SLO; a failed one, or one without a figure bounded, does not."""
    bounded = (
        (slo.ttft_s, scheduled_ttft_s(record)),
        (slo.tpot_s, tpot_s(record)),
        (slo.e2e_s, scheduled_e2e_s(record)),
    )
    return record.ok and all(limit is None or (seen is not None and seen <= limit) for limit, seen in bounded)
