"""What a bake-off measured, as evidence for a decision on the same plan."""

from __future__ import annotations

from pathlib import Path

import msgspec

from unmoor.bakeoff.result import EngineReport, TrialReport
from unmoor.bakeoff.summary import summarise
from unmoor.choose.decide import Measured, MeasuredCandidate
from unmoor.core.errors import UsageError
from unmoor.core.evidence import Caveat
from unmoor.core.hardware import THIS_MACHINE
from unmoor.core.plan import Plan
from unmoor.core.plan_text import read_plan
from unmoor.measure.run_store import StoredRun


def measured_in(run: Path, plan: Plan, traffic_fingerprint: str) -> Measured:
    """Every engine that the bake-off in `run` measured, at its best settings, by name.

    Raises UsageError for a run of other traffic, model, hardware or SLO than the plan's: a figure holds for what it
    was measured on. Also for a plan of any device but "cpu": a bake-off measures this machine's own processor, whatever
    the plan says. Raises RunError for a directory that holds no bake-off.
    """
    _refuse_elsewhere(run, plan)
    stored = StoredRun(run)
    theirs = read_plan(stored.identity.plan_text, where=str(run))
    _refuse_other(run, "traffic", stored.identity.traffic_fingerprint[:12], traffic_fingerprint[:12])
    for name in ("model", "hardware", "slo"):
        _refuse_other(run, name, getattr(theirs, name), getattr(plan, name))
    result = summarise(stored)
    found = {}
    for engine in result.engines:
        best = engine.trial(engine.best) if engine.best else None
        if best is not None and best.figures:
            found[engine.engine] = _candidate(engine, best)
    return found


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


def _candidate(engine: EngineReport, best: TrialReport) -> MeasuredCandidate:
    """An engine whose tuning was cut short is marked untuned, which bars it from any performance verdict."""
    tried = f"{best.name}, {best.requests} requests in {best.blocks} blocks"
    figures = tuple(
        msgspec.structs.replace(figure, detail=f"{figure.detail}; {tried}" if figure.detail else tried)
        for figure in best.figures
    )
    untried = [trial.name for trial in engine.trials if not trial.blocks and not trial.failed_to_start]
    text = f"{engine.title} is not tuned to the end: {', '.join(untried)} not measured yet"
    untuned = (Caveat(code="untuned", text=text),) if untried else ()
    return MeasuredCandidate(
        version=engine.version, figures=figures, caveats=(*engine.caveats, *best.caveats, *untuned)
    )
