"""The engines of a plan as the two sides of a move: their dated facts, and which gates stand in the way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from unmoor.choose.decide import newest_version
from unmoor.choose.facts import Fact, Facts
from unmoor.core.decision import CandidateReport
from unmoor.engines.surface.surface import Surface
from unmoor.leave.exit_plan.exit_plan import CitedFact, Side

SUBJECTS = (
    "licence", "bundled_licences", "governance", "security_policy", "support", "hardware", "hardware_elsewhere",
    "newest_version", "roadmap", "engine_build",
)  # fmt: skip
"""What is told of each side, in this order; the risk that its project is known for comes last."""


def side_of(
    candidate: CandidateReport, facts: Facts, surface: Surface | None, traits: frozenset[str], *, today: date
) -> Side:
    """One engine's side. `traits` of the traffic choose which of its risks is told."""
    found = [facts.find(candidate.engine, subject) for subject in SUBJECTS]
    found.append(facts.most_telling(candidate.engine, "biggest_risk", traits))
    return Side(
        engine=candidate.engine,
        title=facts.title(candidate.engine),
        version=candidate.version or newest_version(candidate.engine, facts),
        surface=surface.version if surface else "",
        newest=newest_version(candidate.engine, facts),
        facts=tuple(cited(fact, today) for fact in found if fact is not None),
        gates=tuple(gate for gate in candidate.gates if gate.passed is not True),
        caveats=surface.caveats if surface else (),
    )


def cited(fact: Fact, today: date) -> CitedFact:
    """The fact with the last day on which it may be relied on."""
    return CitedFact(
        subject=fact.subject,
        text=fact.claim,
        answer=fact.value if isinstance(fact.value, bool) else None,
        kind=fact.kind,
        source=fact.source,
        version=fact.version,
        as_of=fact.as_of,
        good_until=fact.as_of + timedelta(days=fact.stale_after_days),
        stale=fact.is_stale(today),
        recheck=fact.recheck,
    )


def runs_on(engine: str, facts: Facts) -> Mapping[str, bool] | None:
    """The vendors that the engine runs on: True in its own release, False elsewhere only; None where no fact says."""
    own, elsewhere = facts.find(engine, "hardware"), facts.find(engine, "hardware_elsewhere")
    if own is None:
        return None
    return {**dict.fromkeys(elsewhere.items if elsewhere else (), False), **dict.fromkeys(own.items, True)}
