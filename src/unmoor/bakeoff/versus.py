"""Engine against engine, each at its best settings: tuned against tuned, or not at all. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unmoor.bakeoff.comparison import beats, compare
from unmoor.bakeoff.result import DEFAULTS, Comparison, Finding, Versus
from unmoor.bakeoff.slo_met import slo_sentence
from unmoor.bakeoff.tuned import Tuned

_A_CONTEST = 2


def versus_of(tuned: Sequence[Tuned], *, default_engine: str) -> tuple[Versus, ...]:
    """Every other engine against the default one (the first, where the default is not among them), each at its best.

    Engines that compute with weights of different precision are not comparable: the gap is told, never ranked. An
    engine of which nothing was measured is in no contest.
    """
    measured = [engine for engine in tuned if engine.standing is not None]
    if len(measured) < _A_CONTEST:
        return ()
    default = next((engine for engine in measured if engine.contender.engine == default_engine), measured[0])
    return tuple(versus_between(default, other) for other in measured if other is not default)


def verdict_of(versus: Sequence[Versus], tuned: Sequence[Tuned]) -> str:
    """The bake-off's end: who stands, and whether each engine at its best is shown to meet the SLO.

    The default stands until another is better by more than the margin.
    """
    measured = [engine for engine in tuned if engine.standing is not None]
    if not measured:
        return "Nothing was measured, so nothing is said."
    slo = [
        f"{engine.contender.title} with {_settings(engine)} {said}."
        for engine in measured
        if (said := slo_sentence(engine.at_best, engine.terms))
    ]
    return " ".join([_contest(versus, measured), *slo])


def _contest(versus: Sequence[Versus], measured: Sequence[Tuned]) -> str:
    if not versus:
        alone, name = measured[0], name_of(measured[0])
        settings = f"Of {name}, {_settings(alone)} stand" if _untuned(alone) else f"Best of {name}: {_settings(alone)}"
        return f"{settings}; no engine verdict, one engine alone was measured."
    ranked = [found for found in versus if found.comparable]
    if not ranked:
        return f"NOT COMPARABLE, no engine verdict: {versus[0].reason}."
    winners = [found for found in ranked if beats(found.comparisons)]
    if not winners:
        return f"{ranked[0].before} stands: no other engine, tuned, was better by more than the margin."
    if len(winners) == 1:
        return f"{winners[0].after} is better than {winners[0].before}, tuned against tuned."
    return (
        f"{', '.join(found.after for found in winners)} are each better than {winners[0].before}, tuned against tuned."
    )


def label(engine: Tuned) -> str:
    """The engine with its version and, in brackets, its best settings."""
    best = engine.standing.best if engine.standing else "nothing measured"
    return f"{name_of(engine)} ({best})"


def _untuned(engine: Tuned) -> bool:
    return engine.standing is None or engine.standing.best == DEFAULTS


def _settings(engine: Tuned) -> str:
    return "its defaults" if engine.standing is None or _untuned(engine) else engine.standing.best


def name_of(engine: Tuned) -> str:
    """The engine with its version."""
    return f"{engine.contender.title} {engine.contender.version}"


def versus_between(before: Tuned, after: Tuned) -> Versus:
    """`after` against `before`, each at its best settings; not comparable at different or unknown precision."""
    weights = (before.contender.weights, after.contender.weights)
    comparable = weights[0] == weights[1] != ""
    found = compare(before.at_best, after.at_best, before.terms, margin=before.margin)
    names = (label(before), label(after))
    return Versus(
        before=names[0],
        after=names[1],
        comparable=comparable,
        reason=(
            f"both compute with {weights[0]} weights"
            if comparable
            else f"{before.contender.title} computes with {weights[0] or 'unknown'} weights, "
            f"{after.contender.title} with {weights[1] or 'unknown'}"
        ),
        comparisons=tuple(_named(comparison, names, comparable=comparable) for comparison in found),
    )


def _named(found: Comparison, names: tuple[str, str], *, comparable: bool) -> Comparison:
    finding = found.finding if comparable else Finding.NOT_COMPARABLE
    return msgspec.structs.replace(found, before=names[0], after=names[1], finding=finding)
