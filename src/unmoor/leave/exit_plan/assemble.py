"""Puts the exit plan together from what is known: a pure function of the plan, the facts and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from unmoor.choose.decide import Measured
from unmoor.choose.facts import Facts, PriceBook
from unmoor.core.decision import CandidateReport, Decision
from unmoor.core.plan import CandidatePlan, Plan, RehearsedMove
from unmoor.core.plural import plural
from unmoor.engines.surface.surface import Surface
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.exit_plan import risks
from unmoor.leave.exit_plan.engine_only import engine_only
from unmoor.leave.exit_plan.exit_plan import ExitPlan, Move, Place, Risk, Side, Weights
from unmoor.leave.exit_plan.expiry import goes_stale
from unmoor.leave.exit_plan.hardware import hardware_kinds, of_the_word, scheme_of
from unmoor.leave.exit_plan.letter import letter
from unmoor.leave.exit_plan.sides import side_of
from unmoor.leave.exit_plan.three_checks import Known, three_checks
from unmoor.leave.exit_plan.withheld import without_secrets


@dataclass(frozen=True, slots=True)
class Sides:
    """The candidates of a plan, the one that serves first; each with its surface, None where none is known."""

    serves: Side
    surface: Surface | None
    settings: CandidatePlan
    serves_by: Literal["plan", "decision", "default"]
    others: tuple[tuple[Side, Surface | None], ...]

    @property
    def all(self) -> tuple[tuple[Side, Surface | None], ...]:
        """Every side."""
        return ((self.serves, self.surface), *self.others)


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for the page.

    `checkpoint` and `weights` are None where no folder was read: then the plan's word for its weights stands alone.
    `measured` is what a bake-off measured, None where none was brought; `bodies` counts requests with their content.
    """

    decision: Decision
    sides: Sides
    places: Sequence[Place]
    moves: Sequence[Move]
    checkpoint: Checkpoint | None = None
    weights: Weights | None = None
    measured: Measured | None = None
    bodies: int = 0


def sides_of(
    plan: Plan,
    decision: Decision,
    surfaces: Sequence[Surface | None],
    facts: Facts,
    traits: frozenset[str],
    *,
    today: date,
) -> Sides:
    """The sides, with `surfaces` in the order of the plan's candidates.

    The one that serves is the plan's `exit.serves`; else the decision's pick; else the plan's default, or its first.
    """
    first, by = _served(plan, decision)

    def side(number: int) -> tuple[Side, Surface | None]:
        report: CandidateReport = decision.candidates[number]
        return side_of(report, facts, surfaces[number], traits, today=today), surfaces[number]

    serves, surface = side(first)
    others = tuple(side(number) for number in range(len(plan.candidates)) if number != first)
    return Sides(serves=serves, surface=surface, settings=plan.candidates[first], serves_by=by, others=others)


def _served(plan: Plan, decision: Decision) -> tuple[int, Literal["plan", "decision", "default"]]:
    """The place among the candidates of the one that serves, and whose word that is."""
    verdict = decision.verdict
    if plan.exit.serves is not None:
        return _place(one.is_named(plan.exit.serves) for one in plan.candidates), "plan"
    if verdict.pick is not None:
        picked = (verdict.pick, verdict.pick_version)
        return _place((one.engine, one.version) == picked for one in decision.candidates), "decision"
    return _place(one.engine == plan.default_engine for one in plan.candidates), "default"


def _place(matches: Iterable[bool]) -> int:
    """The place of the first that matches; the first of all where none does."""
    return next((number for number, match in enumerate(matches) if match), 0)


def make_exit_plan(plan: Plan, found: Found, facts: Facts, prices: PriceBook, *, today: date) -> ExitPlan:
    """The whole document, as it stands on `today`. What the plan does not record is said to be not recorded.

    It repeats the plan `without_secrets`; so is to be the plan of which `found.decision` was made.
    """
    sides, decision = found.sides, found.decision
    cost = decision.candidates[plan.candidates.index(sides.settings)].cost
    plan = without_secrets(plan)
    others = tuple(side for side, _ in sides.others)
    every = (sides.serves, *others)
    weights = found.weights or Weights(scheme=scheme_of(plan.model.weights), said_in="plan")
    checkpoint = found.checkpoint or of_the_word(plan.model.weights)
    kinds = hardware_kinds(checkpoint, sides.all, plan.hardware, facts)
    stale = goes_stale(plan, every, prices, today=today)
    names = [side.name for side in every]
    open_risks: tuple[Risk, ...] = (
        *risks.of_the_record(plan.exit, found.places, today),
        *risks.of_the_moves(found.moves, names[1:]),
        *risks.of_the_weights(weights),
        *risks.of_the_hardware(kinds, weights, names),
        *risks.of_the_decision(sides.serves, decision.verdict),
        *risks.of_the_sides(every, _risk_of(sides.serves)),
        *risks.of_the_dates(stale),
    )
    known = Known(
        plan=plan,
        serves=sides.serves,
        shape=decision.traffic,
        places=found.places,
        weights=weights,
        measured=found.measured,
        open_risks=len(open_risks),
        today=today,
    )
    ways_out = [side for side in others if plan.exit.leave_to is None or side.is_named(plan.exit.leave_to)]
    return ExitPlan(
        plan=plan.name,
        made_on=today,
        model=plan.model.name,
        weights_word=plan.model.weights,
        hardware=decision.hardware,
        traffic=_traffic(plan, decision, found.bodies),
        serves=sides.serves,
        serves_by=sides.serves_by,
        others=others,
        leave_to=plan.exit.leave_to,
        decision=decision.verdict,
        decision_rests_on=_rests_on(found.measured),
        cost=cost,
        places=tuple(found.places),
        weights=weights,
        moves=tuple(found.moves),
        engine_only=engine_only(sides.surface, sides.others, sides.settings.settings),
        hardware_kinds=kinds,
        rehearsals=_rehearsed(plan, today),
        risks=open_risks,
        goes_stale=stale,
        checks=three_checks(known),
        letter=letter(
            plan.exit.risk_owner,
            plan.model.name,
            sides.serves,
            ways_out,
            serves_today=sides.serves_by == "plan",
            way_out_named=plan.exit.leave_to is not None,
        ),
    )


def _rehearsed(plan: Plan, today: date) -> tuple[RehearsedMove, ...]:
    """Those whose day has come, the earliest first."""
    return tuple(sorted((one for one in plan.exit.rehearsals if one.on <= today), key=lambda one: one.on))


def _risk_of(side: Side) -> str:
    """The risk that the engine which serves is known for."""
    fact = side.fact("biggest_risk")
    if fact is None:
        return f"{side.title}: no risk of it is on record here, which is one."
    return f"{side.title}: {fact.text} ({fact.kind.value}: {fact.source}, seen {fact.as_of.isoformat()})"


def _rests_on(measured: Measured | None) -> str:
    if measured:
        return "gates, dated facts and what the bake-off measured; nothing was predicted for this page"
    return "gates and dated facts alone; nothing was measured or predicted for this page (unmoor decide does)"


def _traffic(plan: Plan, decision: Decision, bodies: int) -> str:
    if plan.traffic.synthetic is not None:
        return f"{plural(decision.traffic.requests, 'described request')}; nothing was recorded"
    kept = f"{bodies:,} of them with their bodies" if bodies else "lengths, without bodies"
    return f"{plan.traffic.path}: {plural(decision.traffic.requests, 'request')}, {kept}"
