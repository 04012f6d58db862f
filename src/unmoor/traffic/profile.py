"""All that is said of a log, put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from unmoor.core.errors import TrafficError
from unmoor.core.evidence import Caveat
from unmoor.traffic.breakers.breaker import Breaker
from unmoor.traffic.log import Grain, Names, Traffic, Whole
from unmoor.traffic.log_asked import models_of, named_of, sampling_of, sessions_of, structured_of, tools_of
from unmoor.traffic.log_shape import arrivals_of, concurrency_of, histograms_of, stretches_of, token_counts_of
from unmoor.traffic.reuse import HitCurve, curves_of, ideal, salt_of
from unmoor.traffic.routing import ROUTINGS, replica_hits
from unmoor.traffic.shared_prefixes import top
from unmoor.traffic.timeline import Service, simulate
from unmoor.traffic.traffic_report import (
    BreakerFound,
    CurvePoint,
    EngineReuse,
    OverTime,
    PrefixShared,
    ReplicaRate,
    TrafficReport,
)

ASSUMED_SERVICE = Service(prefill_tps=8000.0, tpot_s=0.025)
"""How fast a replica is taken to be where the log says not: the order of a 70B-class model at FP8 on 4 H100."""
REPLICAS = (2, 4, 8)
SHARED_PREFIXES = 20
_LEAST_CAPACITY = 100_000
_STEPS = (1, 2, 5)
_DRAWN = 120


@dataclass(frozen=True, kw_only=True)
class EngineBlocks:
    """What an engine's prefix cache is made of: tokens in a block, and whether it is on by default."""

    block_tokens: int
    prefix_caching: bool


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """So many replicas, each with a pool of `kv_tokens`."""

    replicas: int
    kv_tokens: int


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a log. Empty or None: what is sensible for this one.

    `fleets` are those that a plan's hardware can be; they give way to `kv_tokens` and `replicas`.
    """

    kv_tokens: Sequence[int] = ()
    fleets: Sequence[Fleet] = ()
    block_tokens: int | None = None
    replicas: Sequence[int] = ()
    engines: Mapping[str, EngineBlocks] = field(default_factory=dict)
    service: Service = ASSUMED_SERVICE


Curve = Callable[[int | None], HitCurve | None]
"""The hit curve at a block size; None is the source's own blocks. Each is computed once."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What ruins sharing; None where the log has no text to look at. `caveats` say how far it was looked for."""

    breakers: Sequence[Breaker] | None = None
    caveats: Sequence[Caveat] = ()


FindBreakers = Callable[[int | None], Findings]
"""Looks for what ruins sharing, with what mending it gains at a capacity in tokens."""


def profile_log(traffic: Traffic, question: Question, find: FindBreakers = lambda _: Findings()) -> TrafficReport:
    """The report on a log; `find` looks for what ruins sharing in the text that was read.

    Curves and replicas are under a salt by adapter, as engines keep adapters' blocks apart; the overlap is not.
    Raises TrafficError for a log without a request, of which nothing can be said.
    """
    if not len(traffic):
        raise TrafficError("no request in it", where=traffic.source, seen="nothing", expected="at least one request")
    salt = salt_by(traffic.adapter)
    curve: Curve = curves_of(traffic, salt=salt)
    own = curve(question.block_tokens)
    capacities = tuple(question.kv_tokens) or grid(own, longest_prompt(traffic))
    focus = focus_of(question, capacities, own)
    share = ideal(traffic)
    found = find(focus)
    timeline = _over_time(traffic, question, focus, salt, curve)
    replicas, of_routing = _replicas(traffic, question, focus, salt)
    return TrafficReport(
        requests=len(traffic),
        skipped_lines=traffic.skipped_lines,
        duration_s=traffic.duration_s,
        input_tokens=token_counts_of(traffic.input_tokens),
        output_tokens=token_counts_of(traffic.output_tokens),
        arrivals=arrivals_of(traffic),
        prefix_overlap=share.tokens,
        prefix_overlap_blocks=share.blocks,
        hit_rate_curve=points(own, capacities),
        engines={name: _engine(engine, curve, capacities) for name, engine in question.engines.items()},
        replicas=replicas,
        shared_prefixes=_shared(traffic),
        breakers=_breakers(traffic, found.breakers),
        caveats=_once((*traffic.caveats, *_doubts(traffic, timeline), *of_routing, *found.caveats)),
        source=traffic.source,
        format=traffic.format,
        fingerprint=traffic.fingerprint,
        skipped=traffic.skipped,
        grain=traffic.grain,
        curve_block_tokens=own.rule.block_tokens if own else None,
        curve_ideal=own.ideal if own else None,
        working_set_tokens=own.working_set_tokens if own else None,
        overlap_within=_within(traffic),
        over_time=stretches_of(traffic),
        concurrency=concurrency_of(traffic),
        lengths=histograms_of(traffic),
        sessions=sessions_of(traffic),
        structured=structured_of(traffic),
        tools=tools_of(traffic),
        adapters=named_of(traffic, traffic.adapter),
        tenants=named_of(traffic, traffic.tenant),
        models=models_of(traffic),
        sampling=sampling_of(traffic),
        timeline=timeline,
        meaning=None,
    )


def salt_by(*columns: Names) -> Whole | None:
    """A salt by those of the columns that have a name in them; None where none has."""
    named = [column for column in columns if column.names]
    return salt_of(*named) if named else None


def grid(curve: HitCurve | None, longest: int = 0) -> tuple[int, ...]:
    """Round capacities, 1, 2 and 5 times powers of ten, that show a curve whole: up to the first that serves all.

    From 0.1 million tokens, or a hundredth of the working set where that is less, but not from under the longest
    prompt, which would not fit, as long as a tenth of the working set is shown. Where nothing is shared, up to room for
    all prompts. Empty without content.
    """
    if curve is None or not curve.prompt_tokens:
        return ()
    most = curve.working_set_tokens or curve.prompt_tokens
    least = max(1, min(_LEAST_CAPACITY, most // 100), min(longest, most // 10))
    first = math.floor(math.log10(least))
    rounds = [step * 10**power for power in range(first, len(str(most)) + 1) for step in _STEPS]
    below = [size for size in rounds if least <= size < most]
    return (*below, next(size for size in rounds if size >= most))


def longest_prompt(traffic: Traffic) -> int:
    """The longest prompt's tokens, as its content was told apart; 0 without content."""
    return 0 if traffic.tree is None else int(traffic.tree.end[traffic.node].max())


def dense_curves(traffic: Traffic, question: Question, report: TrafficReport) -> dict[str, tuple[CurvePoint, ...]]:
    """Curves to draw, of each engine by its name and of the report's own blocks under "": 120 points, evenly in log.

    They span the report's capacities. Empty without two of those, or without content.
    """
    sizes = [point.kv_tokens for point in report.hit_rate_curve]
    if traffic.tree is None or len(sizes) < 2:  # noqa: PLR2004 - two ends make a span
        return {}
    salt = salt_by(traffic.adapter)
    span = np.unique(np.geomspace(min(sizes), max(sizes), _DRAWN).round().astype(np.int64)).tolist()
    blocks = {"": question.block_tokens} | {name: engine.block_tokens for name, engine in question.engines.items()}
    curve = curves_of(traffic, salt=salt)
    made = cache(lambda block: points(curve(block), span))
    return {name: made(block) for name, block in blocks.items()}


def focus_of(question: Question, capacities: Sequence[int], curve: HitCurve | None) -> int | None:
    """The capacity at which replicas, concurrency and fixes are looked at: the middle one of those asked for.

    Else the largest of the fleets', else the first of the grid at which half of all sharing is served, where routing
    and memory matter; None without.
    """
    asked = sorted(question.kv_tokens)
    if asked:
        return asked[(len(asked) - 1) // 2]
    if question.fleets:
        return max(fleet.kv_tokens for fleet in question.fleets)
    if curve is None or not capacities:
        return None
    half = curve.ideal.low / 2
    return next((size for size in capacities if curve.at(size).low >= half), capacities[-1])


def points(curve: HitCurve | None, capacities: Sequence[int]) -> tuple[CurvePoint, ...]:
    """The curve at `capacities`; without content a rate is None there, and so are its bounds."""
    if curve is None:
        return tuple(CurvePoint(kv_tokens=size, hit_rate=None, low=None, high=None) for size in capacities)
    rates = [(size, curve.at(size)) for size in capacities]
    return tuple(CurvePoint(kv_tokens=size, hit_rate=rate.value, low=rate.low, high=rate.high) for size, rate in rates)


def _engine(engine: EngineBlocks, curve: Curve, capacities: Sequence[int]) -> EngineReuse:
    own = curve(engine.block_tokens)
    return EngineReuse(
        block_tokens=engine.block_tokens,
        prefix_caching=engine.prefix_caching,
        ideal=own.ideal if own else None,
        hit_rate_curve=points(own, capacities),
    )


def _replicas(
    traffic: Traffic, question: Question, focus: int | None, salt: Whole | None
) -> tuple[tuple[ReplicaRate, ...] | None, list[Caveat]]:
    """Every routing over every fleet, and its doubts; None where the source says nothing of content."""
    if traffic.tree is None or focus is None:
        return None, []
    rows: list[ReplicaRate] = []
    doubts: list[Caveat] = []
    for fleet in _fleets(question, focus):
        for routing in ROUTINGS:
            hits = replica_hits(
                traffic,
                replicas=fleet.replicas,
                routing=routing,
                kv_tokens=fleet.kv_tokens,
                block_tokens=question.block_tokens,
                service=question.service,
                salt=salt,
            )
            rows.append(
                ReplicaRate(
                    n=fleet.replicas,
                    routing=routing,
                    hit_rate=hits.hit_rate.value if hits.hit_rate else None,
                    low=hits.hit_rate.low if hits.hit_rate else None,
                    high=hits.hit_rate.high if hits.hit_rate else None,
                    kv_tokens=fleet.kv_tokens,
                    busiest_share=max(hits.tokens_share, default=None),
                )
            )
            doubts += hits.caveats
    return tuple(rows), doubts


def _fleets(question: Question, focus: int) -> Sequence[Fleet]:
    if question.fleets and not question.replicas and not question.kv_tokens:
        return question.fleets
    return [Fleet(replicas=count, kv_tokens=focus) for count in question.replicas or REPLICAS]


def _over_time(
    traffic: Traffic, question: Question, focus: int | None, salt: Whole | None, curve: Curve
) -> OverTime | None:
    """What concurrency does, by the prefixes that are certainly shared; None without times, content or a capacity."""
    if focus is None or traffic.grain is None or not traffic.duration_s:
        return None
    seen = simulate(traffic, kv_tokens=focus, block_tokens=question.block_tokens, service=question.service, salt=salt)
    one = curve(None if seen.block_tokens == traffic.grain.tokens else seen.block_tokens)
    return OverTime(
        kv_tokens=focus,
        block_tokens=seen.block_tokens,
        one_after_another=one.at(focus).low if one else None,
        hit_rate=seen.hit_rate,
        still_computing=seen.still_computing,
        waited=seen.waited,
        too_large=seen.too_large,
        mean_running=seen.mean_running,
        peak_running=seen.peak_running,
        peak_pinned_tokens=seen.peak_pinned_tokens,
        prefill_tps=question.service.prefill_tps,
        tpot_s=question.service.tpot_s,
        took_known=not bool(np.isnan(traffic.took_s).any()),
        windows=seen.windows,
    )


def _shared(traffic: Traffic) -> tuple[PrefixShared, ...] | None:
    if traffic.tree is None:
        return None
    return tuple(
        PrefixShared(
            tokens=edge.tokens,
            requests=edge.requests,
            tokens_saved=edge.tokens_saved,
            begins_at=edge.begins_at,
            parent=edge.parent,
        )
        for edge in top(traffic, SHARED_PREFIXES)
    )


def _breakers(traffic: Traffic, found: Sequence[Breaker] | None) -> tuple[BreakerFound, ...] | None:
    """What was found in the text, or what a fingerprint carries of it."""
    if found is None:
        if traffic.breakers is None:
            return None
        return tuple(
            BreakerFound(what=kept.what, where=None, share_lost=kept.share_lost, gain=kept.gain)
            for kept in traffic.breakers
        )
    return tuple(
        BreakerFound(
            what=one.what,
            where=one.where,
            share_lost=one.share_lost,
            gain=one.gain,
            overlap_after=one.overlap_after,
            fix=one.fix,
            requests=one.requests,
            lines=one.lines,
        )
        for one in found
    )


def _within(traffic: Traffic) -> dict[str, float]:
    """The overlap when each tenant, or each adapter, has a cache to itself; without those the log does not name."""
    within = {}
    for name, column in (("tenant", traffic.tenant), ("adapter", traffic.adapter)):
        salt = salt_by(column)
        share = None if salt is None else ideal(traffic, salt=salt).tokens
        if share is not None:
            within[name] = share
    return within


def _once(caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
    """Each doubt once, as a sentence."""
    said = (Caveat(code=c.code, text=f"{c.text[:1].upper()}{c.text[1:].rstrip('.')}.") for c in caveats)
    return tuple(dict.fromkeys(said))


def _doubts(traffic: Traffic, timeline: OverTime | None) -> tuple[Caveat, ...]:
    return (
        *_of_grain(traffic.grain),
        *_of_times(traffic),
        *_of_lengths(traffic),
        *_of_models(traffic),
        *_of_service(timeline),
    )


def _of_grain(grain: Grain | None) -> tuple[Caveat, ...]:
    if grain is None:
        return _caveat("content_unknown", "The source says nothing of content: prefix overlap is unknown, not zero.")
    if grain.by == "bytes":
        how = "" if grain.ratio_measured else "; --tokenizer counts tokens"
        return _caveat(
            "overlap_in_bytes",
            f"Prompts are compared by bytes: a shared prefix is known to within {grain.tokens} tokens and may be "
            f"longer, not shorter{how}.",
        )
    if grain.tokens > 1:
        what = "segments" if grain.by == "segments" else "blocks"
        return _caveat(
            "overlap_in_blocks",
            f"The source tells content apart in {what} of {grain.tokens} tokens: prefix overlap may be higher, not "
            "lower, and engines with smaller blocks have a range.",
        )
    return ()


def _of_times(traffic: Traffic) -> tuple[Caveat, ...]:
    if traffic.timed:
        return ()
    return _caveat("no_times", "The log has no times: requests are taken in its order, one after another.")


def _of_lengths(traffic: Traffic) -> tuple[Caveat, ...]:
    missing = int((traffic.output_tokens < 0).sum())
    if not missing:
        return ()
    return _caveat("answers_unknown", f"{missing:,} of {len(traffic):,} requests have no answer's length.")


def _of_models(traffic: Traffic) -> tuple[Caveat, ...]:
    models = len(traffic.features.models)
    if models < 2:  # noqa: PLR2004 - one model is what a cache serves
        return ()
    return _caveat(
        "several_models",
        f"Requests ask for {models} models, which share no cache: profile each model's requests on their own.",
    )


def _of_service(timeline: OverTime | None) -> tuple[Caveat, ...]:
    if timeline is None:
        return ()
    ends = "" if timeline.took_known else f", and answers {timeline.tpot_s * 1000:g} ms a token where the log says not"
    return _caveat(
        "service_assumed",
        f"What concurrency does rests on an assumed prefill of {timeline.prefill_tps:,.0f} tokens/s a replica{ends}.",
    )


def _caveat(code: str, text: str) -> tuple[Caveat, ...]:
    return (Caveat(code=code, text=text),)
