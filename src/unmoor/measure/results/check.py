"""What a result file says, what can be recomputed of it, and what in it cannot be trusted. Values only."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from unmoor.core.evidence import EvidenceKind
from unmoor.core.quantile_interval import QuantileInterval
from unmoor.core.record import meets
from unmoor.core.slo import Slo
from unmoor.core.stats import Interval, wilson
from unmoor.measure.figures.load_metrics import Quantiles, metrics_of
from unmoor.measure.results.check_counts import count_findings
from unmoor.measure.results.check_latencies import latency_findings
from unmoor.measure.results.check_load import load_findings, sent_rate_rps
from unmoor.measure.results.finding import Finding, Severity
from unmoor.measure.results.known import known_of
from unmoor.measure.results.run import (
    E2E,
    ITL,
    LATENCIES,
    TPOT,
    TTFT,
    Load,
    ResultFile,
    Run,
    Stated,
    records,
    values_of,
)

_OWN = "unmoor"
_ORDER = list(Severity)


class Recomputed(msgspec.Struct, frozen=True, kw_only=True):
    """The latencies of a run's own requests, in seconds, with bounds; of the answered ones, a TTFT of 0 left out.

    `since` says from when `ttft_s` and `e2e_s` run: "due", or "sent" where the file does not tell when a request was
    due. `itl_s` has no bounds: gaps of one answer are alike.
    """

    since: str
    ttft_s: Quantiles
    tpot_s: Quantiles
    itl_s: Quantiles
    e2e_s: Quantiles


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the file: what it says of itself, what its requests give, and its findings, the gravest first.

    `stated` are the file's own figures, `recomputed` those of its requests, None where it has none. `slo_attainment` is
    the share of all requests, failed ones too, that meet the SLO asked for; None without one, and where a figure that
    it bounds is not there for every answer, or is void.
    """

    place: str
    started: str | None
    model: str | None
    endpoint: str | None
    load: Load
    completed: int | None
    failed: int | None
    duration_s: float | None
    sent_rps: float | None
    request_tput_rps: float | None
    output_tput_tps: float | None
    stated: dict[str, Stated]
    recomputed: Recomputed | None
    slo: str | None
    slo_attainment: Interval | None
    findings: tuple[Finding, ...]


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """A result file as it was checked. `kind` says whose evidence it is: published by a tool, or measured by ours."""

    format: str
    tool: str
    version: str | None
    kind: EvidenceKind
    void: bool
    runs: tuple[RunReport, ...]


def check_results(file: ResultFile, slo: Slo | None = None) -> CheckReport:
    """The file's figures and doubts, and what its requests give for an SLO."""
    runs = tuple(_report(file, run, slo) for run in file.runs)
    return CheckReport(
        format=file.format,
        tool=file.tool,
        version=file.version,
        kind=EvidenceKind.MEASURED if file.format.startswith(_OWN) else EvidenceKind.PUBLISHED,
        void=any(finding.severity is Severity.VOID for run in runs for finding in run.findings),
        runs=runs,
    )


def _report(file: ResultFile, run: Run, slo: Slo | None) -> RunReport:
    shown = [*count_findings(run), *latency_findings(run), *load_findings(run), *_of_the_file(file, run)]
    carried = {one.code for one in run.own}
    findings = [*run.own, *(one for one in shown if one.code not in carried), *known_of(file.format, run)]
    return RunReport(
        place=run.place,
        started=run.started,
        model=run.model,
        endpoint=run.endpoint,
        load=run.load,
        completed=run.completed,
        failed=run.failed,
        duration_s=run.duration_s,
        sent_rps=sent_rate_rps(run),
        request_tput_rps=run.request_tput_rps,
        output_tput_tps=run.output_tput_tps,
        stated={name: run.stated[name] for name in LATENCIES if name in run.stated},
        recomputed=_recomputed(run) if run.requests else None,
        slo=None if slo is None else slo.describe(),
        slo_attainment=None if slo is None else _attainment(run, slo, findings),
        findings=tuple(sorted(findings, key=lambda one: _ORDER.index(one.severity))),
    )


def _attainment(run: Run, slo: Slo, findings: list[Finding]) -> Interval | None:
    """The share of all requests that meet the SLO; None where an answer lacks a figure of it, or one is void."""
    bounded = {name for name in (TTFT, TPOT, E2E) if getattr(slo, name) is not None}
    void = {name for one in findings if one.severity is Severity.VOID for name in one.figures}
    answered = sum(request.ok for request in run.requests)
    counted = {name: len(values_of(run, name)) for name in bounded}
    if bounded & void or any(count < answered for name, count in counted.items() if name != TPOT):
        return None
    if TPOT in bounded and not counted[TPOT]:
        return None
    judged = [meets(record, slo) for record in records(run, chunks=False)]
    return wilson(sum(judged), len(judged))


def _recomputed(run: Run) -> Recomputed:
    metrics = metrics_of(list(records(run, chunks=False)))
    due_told = any(one.due_at_s is not None for one in run.requests)
    return Recomputed(
        since="due" if due_told else "sent",
        ttft_s=metrics.ttft_s,
        tpot_s=metrics.tpot_s,
        itl_s=_without_bounds(run),
        e2e_s=metrics.e2e_s,
    )


def _without_bounds(run: Run) -> Quantiles:
    values = values_of(run, ITL)
    if not len(values):
        return Quantiles(n=0, mean=None, p50=None, p90=None, p95=None, p99=None)
    p50, p90, p95, p99 = (
        QuantileInterval(value=float(value), low=None, high=None, n=len(values))
        for value in np.quantile(values, (0.5, 0.9, 0.95, 0.99))
    )
    return Quantiles(n=len(values), mean=float(values.mean()), p50=p50, p90=p90, p95=p95, p99=p99)


def _of_the_file(file: ResultFile, run: Run) -> Iterator[Finding]:
    if file.not_numbers:
        yield Finding(
            code="not_numbers",
            severity=Severity.OTHERWISE,
            figures=("the keys that hold them",),
            text="The file has values that are no number, which are taken as missing.",
            evidence=f"NaN stands in it {file.not_numbers:,} times",
        )
    if not run.stated and not run.requests:
        yield Finding(
            code="no_latencies",
            severity=Severity.VOID,
            figures=LATENCIES,
            text="No latency is in this file.",
            evidence="neither a mean or a quantile, nor a request of its own",
        )
    if run.stated and not run.requests:
        yield Finding(
            code="no_requests",
            severity=Severity.NOTE,
            figures=LATENCIES,
            text="The file has no values of single requests: its statistics can be neither recomputed nor bounded.",
            evidence="no list of requests",
        )
    if len(file.runs) == 1:
        yield Finding(
            code="single_run",
            severity=Severity.NOTE,
            figures=(*LATENCIES, "request_tput_rps"),
            text="One run, not repeated: how much two runs of the same settings differ is not in the file, and a "
            "difference from another file may be no more than that.",
            evidence="one run in the file",
        )
    if run.goodput_rps is None and run.stated:
        yield Finding(
            code="no_goodput",
            severity=Severity.NOTE,
            figures=("goodput_rps",),
            text="No share of requests that meet an SLO: quantiles of TTFT and of TPOT do not say how many meet both.",
            evidence="no goodput in the file",
        )
