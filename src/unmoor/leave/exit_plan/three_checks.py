"""The three checks before a runtime is committed to, filled in with what was done and what was not.

After the comparison of runtimes that this project answers: look at a current run and measure your own load; tune before
you compare, and have the security question answered in writing; write down what happens if you have to move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from unmoor.choose.decide import Measured
from unmoor.choose.rank import UNTUNED
from unmoor.core.plan import DoneStep, Plan
from unmoor.core.plural import plural
from unmoor.core.traffic import TrafficProfile
from unmoor.leave.exit_plan.exit_plan import Check, Place, Side, Step, Weights
from unmoor.leave.exit_plan.places import OUTSIDE, title_of
from unmoor.leave.starting.secrets import hidden

NOT_RECORDED = "not recorded"
_TUNED_KNOBS = ("max_running", "max_batch_tokens", "tp")


@dataclass(frozen=True, slots=True)
class Known:
    """What the checks are filled in from. `measured` is what a bake-off of ours measured; None: none was brought."""

    plan: Plan
    serves: Side
    shape: TrafficProfile
    places: Sequence[Place]
    weights: Weights
    measured: Measured | None
    open_risks: int
    today: date


def three_checks(known: Known) -> tuple[Check, ...]:
    """The checks in their order; a step of which nothing is recorded is not done."""
    return (
        Check(when="This week", steps=tuple(_this_week(known))),
        Check(when="This month", steps=tuple(_this_month(known))),
        Check(when="Before the next capacity commitment", steps=tuple(_before_capacity(known))),
    )


def _this_week(known: Known) -> Iterator[Step]:
    plan = known.plan
    yield _recorded(
        f"Pull the current InferenceX run for {plan.model.name} on {plan.hardware.device}",
        plan.exit.done.published_run,
        known.today,
    )
    asked = "Run a load test of our own at our real prompts"
    yield _measured(known, asked) or _recorded(asked, plan.exit.done.load_test, known.today)
    yield _overlap(known)


def _this_month(known: Known) -> Iterator[Step]:
    plan = known.plan
    asked = "Tune every candidate on purpose (running requests, batch tokens, tensor parallelism), then measure again"
    done = _recorded(asked, plan.exit.done.tuning, known.today)
    yield done if done.done else _tuned(known, asked) or _pinned(plan, done)
    owner = plan.exit.risk_owner or "whoever owns third-party risk (not recorded)"
    yield _recorded(
        f"Have the question of the security policy answered in writing by {owner}",
        plan.exit.done.risk_answer,
        known.today,
    )


def _before_capacity(known: Known) -> Iterator[Step]:
    yield Step(
        asked="Write down what happens if we have to move",
        done=True,
        said=f"this page, {known.today.isoformat()}, with {plural(known.open_risks, 'open risk')}",
        known_by="seen",
    )
    yield _outside(known.places)
    yield _replaceable(known.plan, known.today)
    roadmap = known.serves.fact("roadmap")
    step = _recorded(
        f"Check our roadmap against that of {known.serves.title}", known.plan.exit.done.roadmap, known.today
    )
    if roadmap is not None and not step.done:
        step = Step(asked=step.asked, done=False, said=f"{step.said}. Of its roadmap, to check: {roadmap.text}")
    yield step


def _recorded(asked: str, step: DoneStep | None, today: date) -> Step:
    """What the plan records; a day that is yet to come is not done."""
    if step is None:
        return Step(asked=asked, done=False, said=NOT_RECORDED)
    if step.on > today:
        return Step(asked=asked, done=False, said=f"recorded for {step.on.isoformat()}, which is yet to come")
    return Step(asked=asked, done=True, said=f"{step.on.isoformat()}: {hidden('', step.where)}", known_by="plan")


def _measured(known: Known, asked: str) -> Step | None:
    """A bake-off of ours on this plan's traffic; None where none was brought."""
    if not known.measured:
        return None
    engines = ", ".join(f"{one.engine} {one.version}" for one in known.measured)
    days = sorted({figure.as_of for one in known.measured for figure in one.figures})
    said = f"a bake-off measured {engines} on this plan's traffic ({', '.join(days)})"
    return Step(asked=asked, done=True, said=said, known_by="seen")


def _overlap(known: Known) -> Step:
    asked = "Measure how much prefix our prompts share"
    shape, described = known.shape, known.plan.traffic.synthetic is not None
    if described:
        return Step(asked=asked, done=False, said="the plan describes its traffic, so that nothing was measured")
    if shape.prefix_overlap is None:
        return Step(asked=asked, done=False, said="the log says nothing of what prompts contain")
    said = f"{shape.prefix_overlap:.1%} of prompt tokens repeat the start of an earlier prompt"
    said = f"{said} ({plural(shape.requests, 'request')})"
    return Step(asked=asked, done=True, said="; ".join((said, *_of_models(shape))), known_by="seen")


def _of_models(shape: TrafficProfile) -> Iterator[str]:
    """The doubt about a figure that is a sum over several models."""
    for caveat in shape.caveats:
        if caveat.code == "several_models":
            yield caveat.text[:1].lower() + caveat.text[1:].rstrip(".")


def _tuned(known: Known, asked: str) -> Step | None:
    """What a bake-off says of tuning: done only where it tuned every candidate that is not optional."""
    if not known.measured:
        return None
    tuned = {one.engine for one in known.measured if all(caveat.code != UNTUNED for caveat in one.caveats)}
    lacking = [one.engine for one in known.plan.candidates if one.engine not in tuned and not one.optional]
    said = f"a bake-off tried settings of {', '.join(sorted(tuned)) or 'none'}"
    if lacking:
        return Step(asked=asked, done=False, said=f"{said}, and not of {', '.join(lacking)}")
    return Step(asked=asked, done=True, said=said, known_by="seen")


def _pinned(plan: Plan, step: Step) -> Step:
    """Which of the settings the plan pins, which is not yet to have measured them."""
    pinned = [
        f"{one.engine} {knob} = {one.settings[knob]}"
        for one in plan.candidates
        for knob in _TUNED_KNOBS
        if knob in one.settings
    ]
    said = f"the plan pins {', '.join(pinned)}" if pinned else "the plan pins none of these settings for any candidate"
    return Step(asked=step.asked, done=False, said=f"{step.said}; {said}")


def _outside(places: Sequence[Place]) -> Step:
    asked = "Keep weights, evals, routing and metering outside the runtime"
    outside = [place for place in places if place.what in OUTSIDE]
    lacking = [title_of(place.what) for place in outside if place.seen == "not recorded"]
    missing = [title_of(place.what) for place in outside if place.seen == "missing"]
    if not lacking and not missing:
        return Step(asked=asked, done=True, said="each has its place", known_by="plan")
    parts = [f"{NOT_RECORDED}: {', '.join(lacking)}"] if lacking else []
    parts += [f"not at the place that the plan records: {', '.join(missing)}"] if missing else []
    return Step(asked=asked, done=False, said="; ".join(parts))


def _replaceable(plan: Plan, today: date) -> Step:
    asked = "Confirm that the orchestration layer treats the engine as replaceable"
    layer = None if plan.exit.orchestration is None else hidden("", plan.exit.orchestration)
    rehearsed = [one for one in plan.exit.rehearsals if one.on <= today]
    if layer is None:
        return Step(asked=asked, done=False, said=f"the orchestration layer is {NOT_RECORDED}")
    if not rehearsed:
        return Step(asked=asked, done=False, said=f"{layer}; no move through it was rehearsed")
    last = max(rehearsed, key=lambda one: one.on)
    return Step(asked=asked, done=True, said=f"{layer}; rehearsed {last.on.isoformat()}", known_by="plan")
