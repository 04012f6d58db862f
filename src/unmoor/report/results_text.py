"""A checked result file as plain text: what it says, what its requests give, and what in it cannot be trusted."""

from __future__ import annotations

from unmoor.core.evidence import EvidenceKind
from unmoor.core.quantile_interval import QuantileInterval
from unmoor.measure.figures.load_metrics import Quantiles
from unmoor.measure.results.check import CheckReport, Recomputed, RunReport
from unmoor.measure.results.finding import Basis, Finding, Severity
from unmoor.measure.results.run import Stated
from unmoor.report.layout import heading, table, wrapped

_MS = 1000
_NOTHING = "–"
_SHARES = (0.5, 0.9, 0.95, 0.99)
_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "end to end"}
_HEADINGS = {
    Severity.VOID: "VOID: these figures cannot be used",
    Severity.OTHERWISE: "To be read otherwise",
    Severity.NOTE: "To know",
}


def render(report: CheckReport, name: str) -> str:
    """The whole report on the file `name`, 100 columns wide, without colour."""
    version = report.version or "its version is not in the file"
    whose = "measured by us" if report.kind is EvidenceKind.MEASURED else "published by it, not measured by us"
    lines = wrapped(f"{name}: {report.tool}, {version}; {whose}", "")
    for run in report.runs:
        lines += ["", *_run(run)]
    return "\n".join(lines)


def _run(run: RunReport) -> list[str]:
    lines = wrapped(_load(run), f"  {run.place or 'load'}  ")
    lines += wrapped(_came(run), "  came  ")
    if run.slo is not None:
        lines += wrapped(_kept(run), "  SLO   ")
    if run.stated or run.recomputed is not None:
        lines += ["", heading("Latencies in ms: as stated, and of its own requests with bounds at 95 %"), *_table(run)]
    for severity in Severity:
        found = [one for one in run.findings if one.severity is severity]
        if found:
            lines += ["", heading(_HEADINGS[severity])]
            lines += [line for one in found for line in _finding(one)]
    return lines


def _load(run: RunReport) -> str:
    load = run.load
    parts = [
        run.model or "",
        run.endpoint or "",
        "" if load.requests is None else _many(load.requests, "request"),
        "all at once" if load.all_at_once else "",
        "" if load.requested_rps is None else f"{load.requested_rps:.3g} requests/s asked for",
        "" if run.sent_rps is None else f"{run.sent_rps:.3g} sent",
        "" if load.concurrency is None else f"at most {load.concurrency:,} in flight",
        "" if run.started is None else f"begun {run.started}",
    ]
    return ", ".join(filter(None, parts)) or "not told"


def _came(run: RunReport) -> str:
    parts = [
        "" if run.completed is None else _many(run.completed, "answer"),
        "failures not told" if run.failed is None else f"{run.failed:,} failed",
        "" if run.duration_s is None else f"{_short(run.duration_s)} s",
        "" if run.request_tput_rps is None else f"{_short(run.request_tput_rps)} requests/s",
        "" if run.output_tput_tps is None else f"{_short(run.output_tput_tps)} output tokens/s",
    ]
    return ", ".join(filter(None, parts))


def _kept(run: RunReport) -> str:
    met = run.slo_attainment
    if met is None:
        return f"{run.slo}: not to be said: a figure that it bounds is not in the file for every answer, or is void"
    since = run.recomputed.since if run.recomputed is not None else "sent"
    return (
        f"{run.slo}, from when a request was {since}: {met.value:.1%} of all {met.n:,} requests meet every bound "
        f"({met.low:.1%} to {met.high:.1%})"
    )


def _table(run: RunReport) -> list[str]:
    rows: list[tuple[str, ...]] = [("", "mean", "p50", "p90", "p95", "p99")]
    for name, word in _NAMES.items():
        rows += _stated(word, run.stated.get(name))
        rows += [] if run.recomputed is None else _recomputed(word, name, run.recomputed)
    return table(rows)


def _stated(word: str, stated: Stated | None) -> list[tuple[str, ...]]:
    if stated is None or not stated.said():
        return []
    return [(f"{word}, stated", _ms(stated.mean), *(_ms(stated.quantiles.get(share)) for share in _SHARES))]


def _recomputed(word: str, name: str, recomputed: Recomputed) -> list[tuple[str, ...]]:
    found: Quantiles = getattr(recomputed, name)
    if not found.n:
        return []
    since = f" from {recomputed.since}" if name in {"ttft_s", "e2e_s"} else ""
    shown = (found.p50, found.p90, found.p95, found.p99)
    values = (f"{word}{since}", _ms(found.mean), *(_ms(one.value if one else None) for one in shown))
    bounds = (f"  n {found.n:,}", "", *(_bounds(one) for one in shown))
    return [values, bounds]


def _bounds(one: QuantileInterval | None) -> str:
    if one is None or one.low is one.high is None:
        return ""
    return f"{_ms(one.low)} to {_ms(one.high) if one.high is not None else '?'}"


def _ms(value_s: float | None) -> str:
    if value_s is None:
        return _NOTHING
    return f"{value_s * _MS:,.1f}" if value_s < 1 else f"{value_s * _MS:,.0f}"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < _MS else f"{value:,.0f}"


def _finding(finding: Finding) -> list[str]:
    lines = wrapped(f"{finding.code}: {', '.join(finding.figures)}", "  ! ", at_hyphens=False)
    lines += wrapped(finding.text, "    ")
    known = finding.basis is Basis.TOOL
    said = f"known of the tool: {finding.source}, {finding.as_of}" if known else f"in the file: {finding.evidence}"
    return [*lines, *wrapped(said, "      ", at_hyphens=False)]
