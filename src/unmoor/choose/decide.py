"""The main job: a plan and its traffic in, a decision out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from unmoor.choose.cost import cost_of, headroom_of, hourly_price
from unmoor.choose.devices import device_names
from unmoor.choose.facts import VERDICT_SUBJECTS, Facts, load_facts, load_prices
from unmoor.choose.gates import apply_gates
from unmoor.choose.objections import CLAIM_PREFIX, MUCH_SHARED, NEWER_THAN_KNOWN
from unmoor.choose.prediction.kernel_tables import TableFinder, find_table
from unmoor.choose.prediction.predict import Effort, Prediction, predict_candidate
from unmoor.choose.rank import leaving_facts, release_order
from unmoor.choose.verdict import decide_verdict
from unmoor.core.decision import CandidateReport, Decision, MendFirst, PairedFinding
from unmoor.core.evidence import Caveat, EvidenceKind, Figure
from unmoor.core.hardware import THIS_MACHINE
from unmoor.core.plan import CandidatePlan, Plan, Setting
from unmoor.core.traffic import TrafficProfile, Workload
from unmoor.engines.registry import engine
from unmoor.traffic.shape import profile

_HARDLY_SHARED = 0.05
_DOES_NOT_FIT = "does_not_fit"
_RELEASE = re.compile(r"\d+(\.\d+)+((rc|a|b|\.?post|\.?dev)\d+)?$")
_NOT_OF_A_RELEASE = ("newest_version", "support", *VERDICT_SUBJECTS)
"""Facts that say nothing of one release: on the project, on somebody else's product, or drawn from other facts."""


@dataclass(frozen=True, kw_only=True)
class MeasuredCandidate:
    """What was measured of one version of an engine at its best settings, and what the run found of it.

    `pinned` are the settings that the measured plan fixed; `paired` holds it against the run's other engines.
    """

    engine: str
    version: str
    figures: tuple[Figure, ...]
    pinned: Mapping[str, Setting] = field(default_factory=dict)
    paired: tuple[PairedFinding, ...] = ()
    caveats: tuple[Caveat, ...] = ()


Measured = Sequence[MeasuredCandidate]
"""What one run measured; of one engine there may be several versions."""


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
    mend_first: Sequence[MendFirst] = (),
) -> Decision:
    """The decision on `plan` for `workload`, with facts as they stand on `today`.

    `effort` "coarse" searches rates in wide steps, "full" refines them. `say` is told what is going on, a line at a
    time. `tables` finds iteration times for what is predicted (see `predict_candidate`). `mend_first` is said with it.
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
        _report(question, candidate, *_measured_of(candidate, measured or ())) for candidate in plan.candidates
    )
    return Decision(
        plan=plan.name,
        made_on=today.isoformat(),
        slo=plan.slo.describe(),
        hardware=f"{plan.hardware.count} × {plan.hardware.device}",
        model=f"{plan.model.name} ({plan.model.weights})",
        traffic=shape,
        mend_first=tuple(mend_first),
        candidates=candidates,
        verdict=decide_verdict(plan, candidates, shape, facts, today=today, traits=traits_of(workload, shape)),
    )


def _measured_of(candidate: CandidatePlan, measured: Measured) -> tuple[MeasuredCandidate | None, tuple[Caveat, ...]]:
    """What was measured of this version with these settings pinned, the newest where the plan names no version.

    Else None, and the doubt that says what was measured instead.
    """
    found = [one for one in measured if one.engine == candidate.engine]
    same = [one for one in found if candidate.version in {None, one.version} and dict(one.pinned) == candidate.settings]
    if same or not found:
        return max(same, key=lambda one: release_order(one.version), default=None), ()
    pinned = [", ".join(f"{knob} = {value}" for knob, value in one.pinned.items()) or "nothing" for one in found]
    seen = " and ".join(f"{one.version} with {fixed} pinned" for one, fixed in zip(found, pinned, strict=True))
    text = f"The run measured {seen}, which is not this candidate as the plan has it: nothing of it is used."
    return None, (Caveat(code="measured_otherwise", text=text),)


def _report(
    question: _Question,
    candidate: CandidatePlan,
    measured: MeasuredCandidate | None,
    doubts: tuple[Caveat, ...],
) -> CandidateReport:
    plan, facts, today, name = question.plan, question.facts, question.today, candidate.engine
    traits = traits_of(question.workload, question.shape)
    version = candidate.version or (measured.version if measured else newest_version(name, facts))
    prediction = _predict(question, candidate, version) if measured is None else Prediction()
    evidence = (*(measured.figures if measured else ()), *prediction.figures, *facts.figures_bearing_on(name, traits))
    price = hourly_price(plan, name, load_prices(), today)
    return CandidateReport(
        engine=name,
        version=version,
        gates=apply_gates(plan, name, facts, today, too_large=_too_large(prediction)),
        evidence=evidence,
        cost=cost_of(plan, price, evidence, question.shape.output_tokens.mean),
        headroom=headroom_of(evidence, question.shape.offered_rps),
        leaving=leaving_facts(name, facts),
        paired=measured.paired if measured else (),
        caveats=(
            *doubts,
            *(measured.caveats if measured else ()),
            *prediction.caveats,
            *price.caveats,
            *_said_of_it(name, traits, facts),
            *_version_doubts(name, version, facts, traits),
            *_device_doubt(plan),
        ),
    )


def _too_large(prediction: Prediction) -> str:
    """Why the model does not fit; empty where it is predicted to, or nothing is known of it."""
    if prediction.fits is not False:
        return ""
    told = next((c.text for c in prediction.caveats if c.code == _DOES_NOT_FIT), "")
    why = told.partition("does not fit: ")[2]
    return f"Does not fit: {why}" if why else told or "The model does not fit in memory."


def traits_of(workload: Workload, shape: TrafficProfile) -> frozenset[str]:
    """What the traffic asks for besides text ("schema", "adapter"), and "shared_prefix" or "no_shared_prefix"."""
    traits = {"schema"} if any(request.schema for request in workload.requests) else set()
    traits |= {"adapter"} if any(request.adapter for request in workload.requests) else set()
    if shape.prefix_overlap is not None:
        traits |= {"shared_prefix"} if shape.prefix_overlap >= MUCH_SHARED else set()
        traits |= {"no_shared_prefix"} if shape.prefix_overlap < _HARDLY_SHARED else set()
    return frozenset(traits)


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


def _version_doubts(name: str, version: str | None, facts: Facts, traits: frozenset[str]) -> tuple[Caveat, ...]:
    """That the version in question is newer than any known, and which facts were read at another one."""
    newest = newest_version(name, facts)
    if version is None or newest is None:
        return ()
    doubts = []
    if release_order(version) > release_order(newest):
        text = f"{version} is newer than any release known here ({newest}, and that may be old): check that it exists."
        doubts.append(Caveat(code=NEWER_THAN_KNOWN, text=text))
    elsewhere: dict[str, list[str]] = {}
    for fact in facts.facts:
        if fact.engine != name or fact.subject in _NOT_OF_A_RELEASE or fact.bears_on not in traits | {""}:
            continue
        if _RELEASE.match(fact.version) and release_order(fact.version) != release_order(version):
            elsewhere.setdefault(fact.version, []).append(fact.subject.removesuffix("_tokens").replace("_", " "))
    if elsewhere:
        read = "; ".join(f"those on {', '.join(dict.fromkeys(about))} at {at}" for at, about in elsewhere.items())
        text = f"Some facts were read at another version than {version}, and may not hold for it: {read}."
        doubts.append(Caveat(code="other_version", text=text))
    return tuple(doubts)


def _device_doubt(plan: Plan) -> tuple[Caveat, ...]:
    if plan.hardware.device in device_names():
        return ()
    text = f"No device of the name {plan.hardware.device} is known here: neither a price nor kernel tables are at hand."
    return (Caveat(code="unknown_device", text=text),)
