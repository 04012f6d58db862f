"""Evidence: figures that carry their kind, source, date and doubt wherever they go."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class EvidenceKind(StrEnum):
    """Four kinds that are never mixed in one number."""

    MEASURED = "measured"
    PUBLISHED = "published"
    PREDICTED = "predicted"
    CLAIMED = "claimed"


class Caveat(msgspec.Struct, frozen=True, kw_only=True):
    """A doubt that travels with a number. `code` is stable, for machines; `text` is one sentence for people."""

    code: str
    text: str


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of evidence.

    `metric` is a name of the house (`ttft_p95_s`, `max_rate_at_slo_rps`, ...); `unit` is its unit ("s", "rps", "1").
    `low` and `high` bound it: a 95 % interval when measured, the error band when predicted.
    `validated` is False for a figure whose error nobody has measured: then `value` is None, only the range stands,
    and it never ranks. `as_of` is an ISO date. `detail` says what it holds for ("2 x TP4, 8.2 requests/s").
    """

    metric: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    kind: EvidenceKind
    validated: bool
    source: str
    as_of: str
    detail: str = ""
