"""All that is said of a log, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from unmoor.core.errors import TrafficError
from unmoor.core.evidence import Caveat
from unmoor.traffic.breakers.breaker import Breaker
from unmoor.traffic.log import Names, Traffic, Whole
from unmoor.traffic.profile.doubts import doubts_of, of_part, once
from unmoor.traffic.profile.log_asked import models_of, named_of, sampling_of, sessions_of, structured_of, tools_of
from unmoor.traffic.profile.log_shape import arrivals_of, concurrency_of, histograms_of, stretches_of, token_counts_of
from unmoor.traffic.profile.question import REPLICAS, EngineBlocks, Question, focus_of, grid
from unmoor.traffic.profile.report import (
    BreakerFound,
    CurvePoint,
    EngineReuse,
    OverTime,
    PrefixShared,
    ReplicaRate,
    TrafficReport,
)
from unmoor.traffic.reuse.block_pool import prompt_tokens
from unmoor.traffic.reuse.curve import HitCurve, curves_of, ideal, salt_of
from unmoor.traffic.reuse.routing import ROUTINGS, ReplicaHits, Routing, replica_hits
from unmoor.traffic.reuse.shared_prefixes import top
from unmoor.traffic.reuse.timeline import simulate

SHARED_PREFIXES = 20
SIMULATED = 100_000
"""Replicas and concurrency are simulated for the first so many requests; each of a dozen simulations takes seconds."""

_DRAWN = 120

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

    Curves, replicas, and what shared prefixes save are under a salt by adapter, as engines keep adapters' blocks apart;
    the overlap is not.
    Raises TrafficError for a log without a request, of which nothing can be said.
    """
    if not len(traffic):
        raise TrafficError(
            "no request in it",
            where=traffic.source,
            seen="nothing",
            expected="at least one request",
            hint="a longer stretch of the log, or another log",
        )
    question = _by_its_blocks(question, traffic)
    salt = salt_by(traffic.adapter)
    curve: Curve = curves_of(traffic, salt=salt)
    own = curve(question.block_tokens)
    room = room_for_each(traffic, own.rule.block_tokens if own else 1)
    capacities = tuple(question.kv_tokens) or grid(own, longest_prompt(traffic), room)
    focus = focus_of(question, capacities, own, room)
    share = ideal(traffic)
    found = find(focus)
    simulated = traffic.first(SIMULATED)
    salt_there = None if salt is None else salt[:SIMULATED]
    there = curve if simulated is traffic else curves_of(simulated, salt=salt_there)
    timeline = _over_time(simulated, question, focus, salt_there, there)
    replicas, of_routing = _replicas(simulated, question, focus, salt_there)
    return TrafficReport(
        requests=len(traffic),
        skipped_lines=traffic.skipped_lines,
        duration_s=traffic.duration_s,
        input_tokens=token_counts_of(traffic.input_tokens, traffic.scratch),
        output_tokens=token_counts_of(traffic.output_tokens, traffic.scratch),
        arrivals=arrivals_of(traffic),
        prefix_overlap=share.tokens,
        prefix_overlap_blocks=share.blocks,
        hit_rate_curve=points(own, capacities),
        engines={name: _engine(engine, curve, capacities) for name, engine in question.engines.items()},
        replicas=replicas,
        shared_prefixes=_shared(traffic, salt),
        breakers=_breakers(traffic, found.breakers, focus),
        breakers_looked_for=found.breakers is not None or traffic.breakers is not None,
        caveats=once(
            (*traffic.caveats, *doubts_of(traffic, question), *of_part(traffic, simulated), *of_routing, *found.caveats)
        ),
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


def _by_its_blocks(question: Question, traffic: Traffic) -> Question:
    """With the block size of a fingerprint whose blocks are an engine's, unless another is asked for."""
    if question.block_tokens is not None or not traffic.whole_blocks or traffic.grain is None:
        return question
    return replace(question, block_tokens=traffic.grain.tokens)


def salt_by(*columns: Names) -> Whole | None:
    """A salt by those of the columns that have a name in them; None where none has."""
    named = [column for column in columns if column.names]
    return salt_of(*named) if named else None


def longest_prompt(traffic: Traffic) -> int:
    """The longest prompt's tokens, as its content was told apart; 0 without content."""
    if traffic.tree is None:
        return 0
    return max(int(traffic.tree.end[traffic.node[some]].max()) for some in traffic.scratch.stretches(len(traffic)))


def room_for_each(traffic: Traffic, block_tokens: int) -> int:
    """The smallest capacity, in whole blocks as they can be simulated, at which each request fits with its answer."""
    size = max(block_tokens, traffic.grain.tokens if traffic.grain else 1)
    largest = 0
    for some in traffic.scratch.stretches(len(traffic)):
        answers = np.maximum(traffic.output_tokens[some], 0)
        largest = max(largest, int((prompt_tokens(traffic, some) + answers).max()))
    return -(-largest // size) * size


def dense_curves(traffic: Traffic, question: Question, report: TrafficReport) -> dict[str, tuple[CurvePoint, ...]]:
    """Curves to draw, of each engine by its name and of the report's own blocks under "": 120 points, evenly in log.

    They span the report's capacities. Empty without two of those, or without content.
    """
    sizes = [point.kv_tokens for point in report.hit_rate_curve]
    if traffic.tree is None or len(sizes) < 2:  # noqa: PLR2004 - two ends make a span
        return {}
    question = _by_its_blocks(question, traffic)
    salt = salt_by(traffic.adapter)
    span = np.unique(np.geomspace(min(sizes), max(sizes), _DRAWN).round().astype(np.int64)).tolist()
    blocks = {"": question.block_tokens} | {name: engine.block_tokens for name, engine in question.engines.items()}
    curve = curves_of(traffic, salt=salt)
    made = cache(lambda block: points(curve(block), span))
    return {name: made(block) for name, block in blocks.items()}


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
) -> tuple[tuple[ReplicaRate, ...], list[Caveat]]:
    """Every routing over every fleet, and its doubts; without content no rate is known, whoever is dealt what."""
    rows: list[ReplicaRate] = []
    doubts: list[Caveat] = []
    for count, kv_tokens in _fleets(question, focus):
        for routing in ROUTINGS:
            if traffic.tree is None or kv_tokens is None:
                rows.append(_replica_rate(count, routing, kv_tokens, None))
                continue
            hits = replica_hits(
                traffic,
                replicas=count,
                routing=routing,
                kv_tokens=kv_tokens,
                block_tokens=question.block_tokens,
                service=question.service,
                salt=salt,
            )
            rows.append(_replica_rate(count, routing, kv_tokens, hits))
            doubts += hits.caveats
    return tuple(rows), doubts


def _replica_rate(count: int, routing: Routing, kv_tokens: int | None, hits: ReplicaHits | None) -> ReplicaRate:
    rate = hits.hit_rate if hits else None
    return ReplicaRate(
        n=count,
        routing=routing,
        hit_rate=rate.value if rate else None,
        low=rate.low if rate else None,
        high=rate.high if rate else None,
        kv_tokens=kv_tokens,
        busiest_share=max(hits.tokens_share, default=None) if hits else None,
    )


def _fleets(question: Question, focus: int | None) -> Sequence[tuple[int, int | None]]:
    """How many replicas, and the capacity of each."""
    if question.fleets and not question.replicas and not question.kv_tokens:
        return [(fleet.replicas, fleet.kv_tokens) for fleet in question.fleets]
    return [(count, focus) for count in question.replicas or REPLICAS]


def _over_time(
    traffic: Traffic, question: Question, focus: int | None, salt: Whole | None, curve: Curve
) -> OverTime | None:
    """What concurrency does, by the prefixes that are certainly shared; None without times, content or a capacity."""
    if focus is None or traffic.grain is None or not traffic.duration_s:
        return None
    seen = simulate(traffic, kv_tokens=focus, block_tokens=question.block_tokens, service=question.service, salt=salt)
    asked = question.block_tokens
    one = curve(asked if asked == seen.block_tokens else None)  # blocks too fine to be simulated: the trace's own rule
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


def _shared(traffic: Traffic, salt: Whole | None) -> tuple[PrefixShared, ...]:
    if traffic.tree is None:
        return ()
    return tuple(
        PrefixShared(
            tokens=edge.tokens,
            requests=edge.requests,
            tokens_saved=edge.tokens_saved,
            begins_at=edge.begins_at,
            parent=edge.parent,
        )
        for edge in top(traffic, SHARED_PREFIXES, salt=salt)
    )


def _breakers(traffic: Traffic, found: Sequence[Breaker] | None, focus: int | None) -> tuple[BreakerFound, ...]:
    """What was found in the text, or what a fingerprint carries of it."""
    if found is None:
        return tuple(
            BreakerFound(what=kept.what, where=None, share_lost=kept.share_lost, gain=kept.gain)
            for kept in traffic.breakers or ()
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
            kv_tokens=focus,
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
