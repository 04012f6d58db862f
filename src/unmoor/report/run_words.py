"""How comparisons and trials of a bake-off read, on the terminal and on the page."""

from __future__ import annotations

from unmoor.bakeoff.result import DEFAULTS, Comparison, EngineReport, Finding, TrialReport
from unmoor.core.evidence import Figure
from unmoor.core.plural import plural
from unmoor.core.traffic import TrafficProfile
from unmoor.report.words import number, titled, unit_of

SHOWN = ("scheduled_ttft_p95_s", "scheduled_e2e_mean_s", "slo_attainment", "goodput_rps")
"""The figures that tell settings apart at a glance; the others are in --json and on the page."""

_HEADS = {
    "scheduled_ttft_p95_s": "TTFT p95, ms",
    "scheduled_e2e_mean_s": "E2E mean, ms",
    "slo_attainment": "within SLO, %",
    "goodput_rps": "goodput, req/s",
}
_COMPARED = {"slo_attainment": "within the SLO", "scheduled_e2e_s": "E2E", "scheduled_ttft_s": "TTFT"}


def head_of(metric: str) -> str:
    """The column's head for a metric, with its unit."""
    return _HEADS.get(metric, titled(metric))


def value_and_range(figure: Figure | None) -> tuple[str, str]:
    """A figure and its interval, apart: ("812", "(760 – 905)"); "never" where failures leave no value or end."""
    if figure is None:
        return "-", ""
    low, high = (number(figure, end) or "never" for end in (figure.low, figure.high))
    return number(figure, figure.value) or "never", f"({low} – {high})"


def cell_of(figure: Figure) -> str:
    """A figure with its interval: "812 (760 – 905)"."""
    return " ".join(value_and_range(figure))


def compared_of(found: Comparison) -> str:
    """What a comparison found, in words: "E2E 0.31× (0.25 – 0.40): better"."""
    name = _COMPARED.get(found.metric, titled(found.metric))
    if found.effect is None or found.low is None or found.high is None:
        return f"{name}: no pair was answered on both sides"
    if found.kind == "ratio":
        effect = f"{found.effect:.2f}× ({found.low:.2f} – {found.high:.2f})"
    else:
        effect = f"{_points(found.effect)} points ({_points(found.low)} – {_points(found.high)})"
    failed = found.failed_before + found.failed_after
    beside = f"; failed: {found.failed_before} before, {found.failed_after} after" if failed else ""
    return f"{name} {effect}: {found.finding.value}{_why_not(found)}{beside}"


def _why_not(found: Comparison) -> str:
    """Why an interval that is apart from "no change" shows no effect all the same; empty where it is not apart."""
    if found.finding is not Finding.NO_EFFECT or found.low is None or found.high is None:
        return ""
    unchanged = 1.0 if found.kind == "ratio" else 0.0
    if found.low <= unchanged <= found.high or found.failed_before != found.failed_after:
        return ""
    return ", as repeats are too few or do not agree"


def _points(difference: float) -> str:
    """A difference of shares in whole percentage points with its sign; "0", without one, for what rounds to nothing."""
    return f"{difference * 100:+.0f}" if round(difference * 100) else "0"


def finding_class(found: Comparison) -> str:
    """The page's class for a finding: good, bad or neither."""
    return {Finding.BETTER: "passes", Finding.WORSE: "fails"}.get(found.finding, "open")


def state_of(trial: TrialReport) -> str:
    """How much stands behind a trial: its blocks, requests, and what is wrong with them."""
    if trial.failed_to_start:
        return f"refused: {trial.failed_to_start}"
    if not trial.blocks:
        return "not measured yet"
    failed = f", {trial.failures} failed" if trial.failures else ""
    blocks, requests = plural(trial.blocks, "block"), plural(trial.requests, "request")
    slo = f"; {trial.slo.value} the SLO" if trial.slo else ""
    return f"{blocks}, {requests} counted, {trial.left_out} left out{failed}{slo}"


def mark_of(engine: EngineReport) -> str:
    """What the settings in front are called: "best" where they beat the defaults, "stands" for the defaults."""
    return "stands" if engine.best == DEFAULTS else "best"


def traffic_of(traffic: TrafficProfile) -> str:
    """The traffic in a sentence's length: requests, offered rate, lengths, and what repeats."""
    overlap = "an unknown share" if traffic.prefix_overlap is None else f"{traffic.prefix_overlap:.0%}"
    rate = "" if traffic.offered_rps is None else f" at {traffic.offered_rps:.3g} requests/s"
    return (
        f"{plural(traffic.requests, 'request')}{rate}, prompts of {traffic.input_tokens.mean:.0f} tokens of which "
        f"{overlap} repeat how an earlier one began, answers of {traffic.output_tokens.mean:.0f} tokens"
    )


def figure_row(figure: Figure) -> tuple[str, str, str]:
    """A figure's name, value with interval, and unit."""
    return titled(figure.metric), cell_of(figure), unit_of(figure)
