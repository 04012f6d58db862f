"""Our own files: `unmoor load --records`, a line a request, and the object that `unmoor load --json` prints."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from unmoor.core.record import Outcome, Record
from unmoor.measure.client.load import Pacing
from unmoor.measure.results.finding import Finding, Severity
from unmoor.measure.results.open_file import Content
from unmoor.measure.results.run import E2E, ITL, LATENCIES, TPOT, TTFT, Load, Request, Run, Stated

RECORD_MARKS = frozenset({"index", "outcome", "scheduled_at_ns"})
REPORT_MARKS = frozenset({"metrics", "pacing", "client"})
_NS = 1e9
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def read_records(content: Content) -> tuple[Run, ...]:
    """The one run of a file of records. Raises UsageError, naming line and key."""
    requests = tuple(_request(document.read(Record)) for document in content.documents)
    completed = sum(request.ok for request in requests)
    cancelled = any(request.outcome is Outcome.CANCELLED for request in requests)
    return (
        Run(
            load=Load(requests=len(requests)),
            completed=completed,
            failed=len(requests) - completed,
            partial=cancelled,
            from_due=True,
            requests=requests,
        ),
    )


def _request(record: Record) -> Request:
    sent_ns = record.sent_at_ns
    spans = [
        None if sent_ns is None or end_ns is None or not record.ok else (end_ns - sent_ns) / _NS
        for end_ns in (record.first_token_at_ns, record.last_token_at_ns)
    ]
    gaps = np.array([later - earlier for earlier, later in pairwise(record.chunk_at_ns)], dtype=np.float64) / _NS
    return Request(
        ok=record.ok,
        outcome=record.outcome,
        due_at_s=record.scheduled_at_ns / _NS,
        sent_at_s=None if sent_ns is None else sent_ns / _NS,
        ttft_s=spans[0],
        e2e_s=spans[1],
        gaps_s=gaps if record.ok and record.chunk_at_ns and record.choices is None else None,
        input_tokens=record.input_tokens,
        output_tokens=record.output_tokens if record.ok else None,
        cached_tokens=record.cached_tokens,
    )


class _Doubt(msgspec.Struct, frozen=True):
    code: str
    text: str


class _Quantile(msgspec.Struct, frozen=True):
    value: float


class _Report(msgspec.Struct, frozen=True):
    """What is read of a load's report; the rest of it is its own."""

    model: str
    endpoint: str
    planned: int
    requests: int
    failed: int
    partial: bool
    pacing: Pacing
    metrics: dict[str, dict[str, Any]]
    void: tuple[_Doubt, ...] = ()
    caveats: tuple[_Doubt, ...] = ()
    offered_rps: float | None = None
    request_tput_rps: float | None = None
    output_tput_tps: float | None = None
    goodput_rps: float | None = None
    slo: str | None = None
    output_tokens: int | None = None
    prefix_hit_rate: float | None = None


def read_report(content: Content) -> tuple[Run, ...]:
    """The one run of a load's report: its own doubts stand in it. Raises UsageError, naming the key."""
    report = content.documents[0].read(_Report)
    return (
        Run(
            model=report.model,
            endpoint=report.endpoint,
            load=Load(requests=report.planned, requested_rps=report.offered_rps, concurrency=report.pacing.concurrency),
            completed=report.requests - report.failed,
            failed=report.failed,
            partial=report.partial,
            output_tokens=report.output_tokens,
            request_tput_rps=report.request_tput_rps,
            output_tput_tps=report.output_tput_tps,
            goodput_rps=report.goodput_rps,
            slo=report.slo,
            hit_rate=report.prefix_hit_rate,
            stated={name: _stated(report.metrics.get(name, {})) for name in (TTFT, TPOT, ITL, E2E)},
            from_due=True,
            own=(*_carried(report.void, Severity.VOID), *_carried(report.caveats, Severity.OTHERWISE)),
        ),
    )


def _carried(doubts: tuple[_Doubt, ...], severity: Severity) -> Iterator[Finding]:
    """The load's own doubts, under their own codes."""
    for doubt in doubts:
        said = "void" if severity is Severity.VOID else "caveats"
        yield Finding(
            code=doubt.code, severity=severity, figures=LATENCIES, text=doubt.text, evidence=f"{said} of the file"
        )


def _stated(metric: dict[str, Any]) -> Stated:
    quantiles = {}
    for word, share in _QUANTILES.items():
        if isinstance(found := metric.get(word), dict) and isinstance(value := found.get("value"), int | float):
            quantiles[share] = float(value)
    mean = metric.get("mean")
    return Stated(mean=float(mean) if isinstance(mean, int | float) else None, quantiles=quantiles)
