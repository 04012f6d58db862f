"""One candidate's simulated runs turned into figures with ranges, and into the caveats that travel with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.choose.prediction import honesty
from unmoor.choose.prediction.capacity import (
    HOST_OVERHEAD_S,
    Fleet,
    FleetRun,
    Pace,
    fast_end,
    middle,
    run_fleet,
    slow_end,
)
from unmoor.choose.prediction.published_error import Band, PredictionError
from unmoor.core.evidence import Caveat, EvidenceKind, Figure
from unmoor.core.hardware import Layout
from unmoor.core.slo import Slo
from unmoor.core.traffic import Request
from unmoor.engines.contract import SchedulerModel

_STAYS_FOR = 5
"""A run this many stays long has a steady part; a shorter one flatters the rate."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """How much a search may spend: requests to begin with and at most, and the relative tolerance of a rate."""

    requests: int
    most_requests: int
    tolerance: float


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What stays the same over all layouts of one candidate.

    `version` is the one in question, `rules_version` the one whose scheduler is simulated. `content_known` is whether
    the traffic's source says anything of content.
    """

    requests: Sequence[Request]
    own_rps: float
    slo: Slo
    scheduler: SchedulerModel
    device: str
    title: str
    version: str
    rules_version: str
    content_known: bool
    band: Band
    measured_rows: int
    bias: float
    error: PredictionError
    effort: Search


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One layout's range of rates; None where nothing binds the rate, 0 where no rate meets the SLO."""

    layout: Layout
    fleet: Fleet
    low_rps: float | None
    high_rps: float | None

    @property
    def order(self) -> float:
        """The middle of the range, to order the layouts of one engine; infinite where nothing binds the rate."""
        if self.high_rps is None:
            return math.inf
        return ((self.low_rps or 0.0) + (self.high_rps or 0.0)) / 2


class _Range(NamedTuple):
    """A quantity with the ends of its band; `value` only where it may carry one."""

    metric: str
    unit: str
    value: float | None
    low: float | None
    high: float | None


def evidence_of(
    question: Question, answers: Sequence[Answer], best: Answer
) -> tuple[tuple[Figure, ...], tuple[Caveat, ...]]:
    """Figures and caveats: every layout's range of rates, and the best layout's behaviour at the traffic's own rate."""
    paces = (("mid", middle(question.band)), ("slow", slow_end(question.band)), ("fast", fast_end(question.band)))
    runs = {name: run_fleet(best.fleet, question.own_rps, pace) for name, pace in paces}
    case = _case(question, best, runs)
    rates = tuple(_rate_figure(question, answer) for answer in answers if answer.high_rps)
    figures = rates + _at_own_rate(question, best, case, runs)
    caveats = (
        *honesty.doubts(tuple(figure.metric for figure in figures), case),
        *_unreached(answers),
        *_failures(runs["mid"]),
        *_flattered(question, best),
        *_content(question),
        *_amount(question, best, runs["mid"]),
        *_versions(question, case),
        *_terms(question, best),
    )
    return figures, caveats


def _case(question: Question, best: Answer, runs: Mapping[str, FleetRun]) -> honesty.Case:
    hit_rate = runs["mid"].prefix_hit_rate or 0.0
    mean_input = float(runs["mid"].gathered("input_tokens").mean())
    return honesty.Case(
        title=question.title,
        device=question.device,
        measured_rows=question.measured_rows,
        version=question.version,
        tables_version=best.fleet.table.origin.tables_version,
        uncached_tokens=(1 - hit_rate) * mean_input,
        hit_rate=hit_rate,
        saturated=any(run.saturated for run in runs.values()),
    )


def _rate_figure(question: Question, answer: Answer) -> Figure:
    seen = _Range(honesty.RATE, "rps", None, answer.low_rps, answer.high_rps)
    return _figure(question, answer, seen, "all replicas")


def _at_own_rate(
    question: Question, best: Answer, case: honesty.Case, runs: Mapping[str, FleetRun]
) -> tuple[Figure, ...]:
    detail = f"{question.own_rps:.3g} requests/s, the traffic's own rate"
    once = len(question.requests)
    quantities: tuple[tuple[str, str, Callable[[FleetRun], float | None]], ...] = (
        (honesty.TPUT, "tps", lambda run: run.output_tput_tps),
        (honesty.TPOT, "s", lambda run: _mean_of_finite(run.tpot_s)),
        (honesty.TTFT, "s", lambda run: _finite_or_none(run.tail_ttft_s(0.95))),
        # Of one pass only: the traffic's own overlap bounds it, and what a repetition finds in the cache is no news.
        (honesty.HIT_RATE, "1", lambda run: run.hit_rate_of_first(once) if question.content_known else None),
    )
    figures: list[Figure] = []
    for metric, unit, quantity in quantities:
        seen = {name: quantity(run) for name, run in runs.items()}
        ends = sorted(end for end in seen.values() if end is not None)
        if ends:
            value = None if honesty.unvalidated(metric, case) else seen["mid"]
            figures.append(_figure(question, best, _Range(metric, unit, value, ends[0], ends[-1]), detail))
    return tuple(figures)


def _figure(question: Question, answer: Answer, seen: _Range, detail: str) -> Figure:
    origin = answer.fleet.table.origin
    return Figure(
        metric=seen.metric,
        value=seen.value,
        low=seen.low,
        high=seen.high,
        unit=seen.unit,
        kind=EvidenceKind.PREDICTED,
        validated=seen.value is not None,
        source=f"{origin.source}; band: {question.error.source}",
        as_of=origin.as_of,
        detail=f"{answer.layout}, {detail}",
    )


def _mean_of_finite(values: NDArray[np.float64]) -> float | None:
    kept = values[np.isfinite(values)]
    return float(kept.mean()) if kept.size else None


def _finite_or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _unreached(answers: Sequence[Answer]) -> tuple[Caveat, ...]:
    """Layouts that have no figure, and why."""
    never = [str(answer.layout) for answer in answers if answer.high_rps == 0]
    free = [str(answer.layout) for answer in answers if answer.high_rps is None]
    said = []
    if never:
        said.append(Caveat(code="slo_unmet", text=f"Predicted to miss the SLO at every rate: {', '.join(never)}."))
    if free:
        text = f"No rate simulated breaks the SLO, so that no highest rate is known: {', '.join(free)}."
        said.append(Caveat(code="rate_unbounded", text=text))
    return tuple(said)


def _failures(run: FleetRun) -> tuple[Caveat, ...]:
    if not run.failed:
        return ()
    share = run.failed / run.gathered("input_tokens").size
    text = (
        f"{share:.2%} of all requests ({run.failed:,} of those simulated) fit no KV pool, or no batch without chunked "
        "prefill: they fail, and miss the SLO."
    )
    return (Caveat(code="requests_too_long", text=text),)


def is_steady(fleet: Fleet, rate_rps: float, pace: Pace) -> bool:
    """Whether the traffic lasts several times as long, at this rate, as a request stays: else the rate is flattered."""
    stay = _mean_of_finite(run_fleet(fleet, rate_rps, pace).e2e_s)
    return stay is None or fleet.lasts_s(rate_rps) >= _STAYS_FOR * stay


def _flattered(question: Question, best: Answer) -> tuple[Caveat, ...]:
    if not best.high_rps or is_steady(best.fleet, best.high_rps, fast_end(question.band)):
        return ()
    lasts = best.fleet.lasts_s(best.high_rps)
    text = (
        f"At its highest rate the traffic simulated lasts {lasts:.0f} s, under {_STAYS_FOR} times as long as a request "
        "stays: the upper end of the rate is flattered."
    )
    return (Caveat(code="traffic_short", text=text),)


def _content(question: Question) -> tuple[Caveat, ...]:
    if question.content_known:
        return ()
    text = (
        "The traffic's source says nothing of content: no hit rate is given, and rates are simulated without any reuse "
        "of prefixes, so that what is really shared can only raise them."
    )
    return (Caveat(code="content_unknown", text=text),)


def _amount(question: Question, best: Answer, run: FleetRun) -> tuple[Caveat, ...]:
    """How much of the traffic was simulated, where that is not all of it, once."""
    own, simulated = len(question.requests), sum(map(len, best.fleet.shares))
    if simulated < own:
        text = (
            f"Simulated are the first {simulated:,} of {own:,} requests: their lengths and shared prefixes need not be "
            "those of the whole, and their hit rate may be above the whole traffic's overlap."
        )
        return (Caveat(code="traffic_cut", text=text),)
    if simulated == own:
        return ()
    hits = run.prefix_hit_rate if question.content_known else None
    every = "" if hits is None else f" The hit rate given is of the first pass; over all passes it is {hits:.0%}."
    text = (
        f"The traffic has {own:,} requests and was repeated until there were {simulated:,} ({simulated / own:.3g} "
        "passes): prefixes in use for over half of it stay shared between passes, and all else is renamed. The fewer "
        f"requests there are, the less a figure says of others.{every}"
    )
    return (Caveat(code="traffic_repeated", text=text),)


def _versions(question: Question, case: honesty.Case) -> tuple[Caveat, ...]:
    """That tables or rules are another version's, where that takes no value away: honesty's rule says when it does."""
    said = []
    if case.version != case.tables_version and not honesty.too_far(case):
        text = (
            f"The kernel times are those of {case.title} {case.tables_version}, not of {case.version}: so near "
            f"(within {honesty.MINORS_APART} minor releases) that this alone takes no value away."
        )
        said.append(Caveat(code="tables_lag", text=text))
    if case.version != question.rules_version:
        text = (
            f"The scheduler simulated is that of {case.title} {question.rules_version}, whose source was read, not of "
            f"{case.version}."
        )
        said.append(Caveat(code="scheduler_version", text=text))
    return tuple(said)


def _terms(question: Question, best: Answer) -> tuple[Caveat, ...]:
    """What the ranges are, and what the simulation takes for granted."""
    table = best.fleet.table
    band = (
        f"{_band_said(question)} and 0 to {HOST_OVERHEAD_S * 1e3:.0f} ms of host work before a first token. Kernel "
        f"times and KV memory ({table.kv_tokens:,} tokens for each replica of {best.layout}) are {table.origin.source}."
    )
    model = (
        "Simulated: the traffic's own arrivals, scaled in time and dealt over replicas in turn, regardless of prefix."
    )
    step = (
        f"Highest rates are searched in steps that end within {question.effort.tolerance:.0%}: a smaller difference "
        "between engines or layouts, or none, is the search's and not theirs."
    )
    return (
        Caveat(code="prediction_terms", text=band),
        Caveat(code="round_robin", text=model),
        Caveat(code="search_step", text=step),
    )


def _band_said(question: Question) -> str:
    """The band of iteration times, its origin, and which way the prediction was wrong."""
    band, error = question.band, question.error
    ends = f"Ranges: iteration times × {band.fast:.2f} to {band.slow:.2f}"
    if not question.measured_rows:
        return f"{ends} (the widest of measured engines, {error.source}: this one's own error is not known),"
    bias = question.bias
    lean = "too fast" if bias < 0 else "too slow"
    corrected = f"predictions there are {abs(bias):.0%} {lean} on average, which the range corrects"
    return (
        f"{ends} (90 % of {question.measured_rows} measured runs' TPOT as a multiple of the predicted: {error.source}; "
        f"{corrected}),"
    )
