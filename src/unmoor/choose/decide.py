"""The main job: a plan and its traffic in, a decision out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date

from unmoor.choose.cost import cost_of, hourly_price
from unmoor.choose.facts import Facts, load_facts, load_prices
from unmoor.choose.gates import apply_gates
from unmoor.choose.objections import CLAIM_PREFIX
from unmoor.choose.prediction.kernel_tables import TableFinder, find_table
from unmoor.choose.prediction.predict import Effort, Prediction, predict_candidate
from unmoor.choose.verdict import decide_verdict
from unmoor.core.decision import CandidateReport, Decision
from unmoor.core.evidence import Caveat, EvidenceKind, Figure
from unmoor.core.plan import CandidatePlan, Plan
from unmoor.core.traffic import TrafficProfile, Workload
from unmoor.engines.registry import engine
from unmoor.traffic.shape import profile

THIS_MACHINE = "cpu"


@dataclass(frozen=True, kw_only=True)
class MeasuredCandidate:
    """What was measured of one engine at its best settings, with the version that was measured and the doubts."""

    version: str
    figures: tuple[Figure, ...]
    caveats: tuple[Caveat, ...] = ()


Measured = Mapping[str, MeasuredCandidate]
"""What was measured, by the candidate's engine."""


@dataclass(frozen=True, kw_only=True)
class _Question:
    """All that a candidate's report depends on besides the candidate."""

    plan: Plan
    workload: Workload
    shape: TrafficProfile
    facts: Facts
    today: date
    effort: Effort
    say: Callable[[str], None]
    tables: TableFinder


def make_decision(
    plan: Plan,
    workload: Workload,
    *,
    today: date,
    effort: Effort,
    say: Callable[[str], None],
    measured: Measured | None = None,
    tables: TableFinder = find_table,
) -> Decision:
    """The decision on `plan` for `workload`, with facts as they stand on `today`.

    `effort` "coarse" searches rates in wide steps, "full" refines them. `say` is told what is going on, a line at a
    time. `tables` finds iteration times for what is predicted (see `predict_candidate`).
    Raises UsageError for a candidate that is no known engine, and TrafficError for traffic without a request.
    """
    shape = profile(workload)
    say(f"traffic: {shape.requests} requests over {shape.duration_s:.0f} s")
    facts = load_facts()
    question = _Question(
        plan=plan,
        workload=workload,
        shape=shape,
        facts=facts,
        today=today,
        effort=effort,
        say=say,
        tables=tables,
    )
    candidates = tuple(
        _report(question, candidate, (measured or {}).get(candidate.engine)) for candidate in plan.candidates
    )
    return Decision(
        plan=plan.name,
        made_on=today.isoformat(),
        slo=plan.slo.describe(),
        hardware=f"{plan.hardware.count} × {plan.hardware.device}",
        model=f"{plan.model.name} ({plan.model.weights})",
        traffic=shape,
        candidates=candidates,
        verdict=decide_verdict(plan, candidates, shape, facts, today=today),
    )


def _report(question: _Question, candidate: CandidatePlan, measured: MeasuredCandidate | None) -> CandidateReport:
    plan, facts, today, name = question.plan, question.facts, question.today, candidate.engine
    traits = traits_of(question.workload)
    version = candidate.version or (measured.version if measured else newest_version(name, facts))
    prediction = _predict(question, candidate, version) if measured is None else Prediction()
    evidence = (*(measured.figures if measured else ()), *prediction.figures, *facts.figures_bearing_on(name, traits))
    price = hourly_price(plan, name, load_prices(), today)
    return CandidateReport(
        engine=name,
        version=version,
        gates=apply_gates(plan.gates, name, facts, today),
        evidence=evidence,
        cost=cost_of(plan, price, evidence, question.shape.output_tokens.mean),
        caveats=(
            *(measured.caveats if measured else ()),
            *prediction.caveats,
            *price.caveats,
            *_said_of_it(name, traits, facts),
            *_version_doubt(name, version, facts),
        ),
    )


def traits_of(workload: Workload) -> frozenset[str]:
    """What the traffic asks for besides text: "schema", "adapter"."""
    schema = {"schema"} if any(request.schema for request in workload.requests) else set()
    adapter = {"adapter"} if any(request.adapter for request in workload.requests) else set()
    return frozenset(schema | adapter)


def newest_version(name: str, facts: Facts) -> str | None:
    """The newest stable version that the facts know; None where they know none."""
    fact = facts.find(name, "newest_version")
    return str(fact.value) if fact else None


def _predict(question: _Question, candidate: CandidatePlan, version: str | None) -> Prediction:
    found = engine(candidate.engine)
    plan = question.plan
    if plan.hardware.device == THIS_MACHINE:
        text = "Nothing is predicted for this machine: run `unmoor bakeoff` on this plan, which measures it."
        return Prediction(caveats=(Caveat(code="measure_here", text=text),))
    return predict_candidate(
        question.workload,
        plan.slo,
        plan.model,
        plan.hardware,
        engine=found,
        version=version,
        settings=candidate.settings,
        effort=question.effort,
        say=question.say,
        tables=question.tables,
    )


def _said_of_it(name: str, traits: frozenset[str], facts: Facts) -> tuple[Caveat, ...]:
    """Facts and claims that this traffic makes matter. Only claims carry the prefix that the argument against reads."""
    return tuple(
        Caveat(
            code=f"{CLAIM_PREFIX if fact.kind is EvidenceKind.CLAIMED else 'fact_'}{fact.subject}",
            text=f"{fact.claim} ({fact.kind.value}: {fact.cited()})",
        )
        for fact in facts.bearing_on(name, traits)
    )


def _version_doubt(name: str, version: str | None, facts: Facts) -> tuple[Caveat, ...]:
    fact = facts.find(name, "newest_version")
    if fact is None or version is None or fact.value == version:
        return ()
    text = f"The facts were read at {fact.value}; the plan names {version}, where they may not hold."
    return (Caveat(code="other_version", text=text),)
