"""What a bake-off measured, as evidence for a decision on the same plan."""

from __future__ import annotations

from pathlib import Path

import msgspec

from unmoor.bakeoff import ledger
from unmoor.bakeoff.comparison import beats
from unmoor.bakeoff.result import EngineReport, Finding, Machine, TrialReport
from unmoor.bakeoff.summary import summarise
from unmoor.bakeoff.tuned import Tuned, tuned_engines
from unmoor.bakeoff.versus import versus_between
from unmoor.choose.decide import Measured, MeasuredCandidate
from unmoor.choose.rank import UNTUNED
from unmoor.cli.plan_files import shown
from unmoor.core.decision import Outcome, PairedFinding
from unmoor.core.errors import UsageError
from unmoor.core.evidence import Caveat, Figure
from unmoor.core.hardware import THIS_MACHINE
from unmoor.core.plan import Plan, Setting
from unmoor.core.plan_text import read_plan
from unmoor.core.plural import plural
from unmoor.measure.run_store import StoredRun

_DECIDE = ("slo_attainment", "scheduled_e2e_s")  # what `beats` reads, the first before the second


def measured_in(run: Path, plan: Plan, traffic_fingerprint: str) -> Measured:
    """Every engine that the bake-off in `run` measured, at its best settings, and how they stand to each other there.

    Raises UsageError for a path that is no directory, and for a run of other traffic, model, hardware or SLO than the
    plan's: a figure holds for what it was measured on. Also for a plan of any device but "cpu": a bake-off measures
    this machine's own processor, whatever the plan says. Raises RunError for a directory that holds no bake-off.
    """
    _refuse_elsewhere(run, plan)
    _refuse_missing(run)
    stored = StoredRun(run)
    theirs = read_plan(stored.identity.plan_text, where=str(run))
    _refuse_other(run, "traffic", stored.identity.traffic_fingerprint[:12], traffic_fingerprint[:12])
    for name in ("model", "hardware", "slo"):
        _refuse_other(run, name, getattr(theirs, name), getattr(plan, name))
    kept = ledger.kept_traffic(stored)
    contenders, _ = ledger.contenders_of(stored.events())
    tuned = tuned_engines(stored, theirs, kept.requests, contenders)
    result = summarise(stored)
    measured = [one for one in tuned if one.standing is not None]
    found = []
    for engine, one in zip(result.engines, tuned, strict=True):
        best = engine.trial(engine.best) if engine.best else None
        if best is None or not best.figures:
            continue
        candidate = MeasuredCandidate(
            engine=engine.engine,
            version=engine.version,
            figures=_figures(best, result.machine),
            pinned=_pinned(theirs, engine),
            paired=tuple(paired_finding(one, other) for other in measured if other is not one),
            caveats=(*engine.caveats, *best.caveats, *_untuned(one, theirs, finished=result.finished)),
        )
        found.append(candidate)
    return tuple(found)


def paired_finding(one: Tuned, other: Tuned) -> PairedFinding:
    """What the bake-off says of `one` against `other`, each at its best: better, worse, a tie, or not comparable."""
    found = versus_between(other, one)
    ahead, behind = beats(found.comparisons), beats(versus_between(one, other).comparisons)
    outcome = Outcome.BETTER if ahead else Outcome.WORSE if behind else Outcome.TIE
    if not found.comparable:
        outcome = Outcome.NOT_COMPARABLE
    apart = {Finding.BETTER, Finding.WORSE}
    attainment, time = (next(c for c in found.comparisons if c.metric == metric) for metric in _DECIDE)
    telling = time if attainment.finding not in apart and time.finding in apart else attainment
    return PairedFinding(
        engine=other.contender.engine,
        version=other.contender.version,
        outcome=outcome,
        metric=telling.metric,
        effect=telling.effect,
        low=telling.low,
        high=telling.high,
        kind=telling.kind,
        reason="" if found.comparable else found.reason,
    )


def _pinned(plan: Plan, engine: EngineReport) -> dict[str, Setting]:
    """What the measured plan pins of this engine; a candidate of this very version before one of any."""
    named = [c for c in plan.candidates if c.engine == engine.engine and c.version in {None, engine.version}]
    return next((c.settings for c in sorted(named, key=lambda c: c.version is None)), {})


def _refuse_missing(run: Path) -> None:
    if not run.is_dir():
        raise UsageError(
            "no such run",
            where=f"--run {shown(run)}",
            seen="a file" if run.exists() else "nothing at this path",
            expected="the directory of a bake-off",
            hint="unmoor bakeoff PLAN says where its run is kept",
        )


def _refuse_elsewhere(run: Path, plan: Plan) -> None:
    if plan.hardware.device != THIS_MACHINE:
        raise UsageError(
            "a bake-off measures this machine's processor, which says nothing of the plan's hardware",
            where=f"--run {run}",
            seen=f"hardware.device = '{plan.hardware.device}'",
            expected=f"hardware.device = '{THIS_MACHINE}'",
            hint="leave --run out: what can be predicted for that hardware is used then",
        )


def _refuse_other(run: Path, name: str, seen: object, expected: object) -> None:
    if seen != expected:
        raise UsageError(
            f"this run was measured with another {name} than the plan's",
            where=f"--run {run}",
            seen=str(seen),
            expected=str(expected),
            hint="unmoor bakeoff PLAN measures the plan as it stands",
        )


def _figures(best: TrialReport, machine: Machine) -> tuple[Figure, ...]:
    """The best trial's figures, each saying with which settings, in how much, and on which machine it was seen."""
    tried = f"{best.name}, {plural(best.requests, 'request')} in {plural(best.blocks, 'block')}"
    seen = f"{tried}, on {machine.cpu}, {plural(machine.cores, 'core')}"
    return tuple(
        msgspec.structs.replace(figure, detail=f"{figure.detail}; {seen}" if figure.detail else seen)
        for figure in best.figures
    )


def _untuned(engine: Tuned, plan: Plan, *, finished: bool) -> tuple[Caveat, ...]:
    """An engine whose tuning was cut short is marked untuned, which bars it from any performance verdict."""
    owed = plan.bakeoff.blocks
    tried = [trial.name for trial in engine.trials if trial.name not in engine.refused]
    short = [
        name
        for name in tried
        if len(engine.blocks[name]) < owed or not all(block.complete for block in engine.blocks[name])
    ]
    if finished and not short:
        return ()
    why = f"{', '.join(short)} not measured {plural(owed, 'time')} to the end" if short else "the run is not finished"
    return (Caveat(code=UNTUNED, text=f"{engine.contender.title} is not tuned to the end: {why}"),)
