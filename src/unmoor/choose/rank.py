"""Which evidence may rank candidates, and what one comparison of two of them finds."""

from __future__ import annotations

import re
from datetime import date

import msgspec

from unmoor.choose.cost import GOODPUT, RATE_AT_SLO, best_figure
from unmoor.choose.facts import Fact, Facts
from unmoor.core.decision import CandidateReport, LeavingFact, Outcome, PairedFinding
from unmoor.core.evidence import EvidenceKind, Figure
from unmoor.core.plan import Plan

# The properties that may decide, the most telling first. True: larger is better.
DECIDING = {
    RATE_AT_SLO: True,
    GOODPUT: True,
    "slo_attainment": True,
    "output_tput_tps": True,
    "scheduled_ttft_p95_s": False,
    "scheduled_e2e_mean_s": False,
}
PUBLISHED_STALE_AFTER_DAYS = 90
LEAVING_SUBJECTS = ("hardware", "governance", "security_policy")
_NEUTRALITY = {"foundation": 2, "community": 1}  # any other steward, or an unknown one: 0

# Codes of caveats that bar a comparison of measured figures, whatever they say.
PRECISION = "served_precision"  # its text says with which weights it was measured; two texts are two precisions
STAND_IN = "stand_in_kernel"
UNTUNED = "untuned"


Figures = tuple[Figure, ...]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate held against another on the property that tells them apart, or the first that both have.

    `paired` is the bake-off's own finding, where one run measured both: then it decides, and no interval does.
    """

    outcome: Outcome
    metric: str = ""
    figure: Figure | None = None
    against: Figure | None = None
    reason: str = ""
    paired: PairedFinding | None = None


def may_rank(figure: Figure, plan: Plan, today: date) -> bool:
    """Whether a figure may unseat the default.

    Measured; published for the plan's model, device and weights and not stale; predicted where validated. Never
    claimed, and never a figure that nobody validated.
    """
    if not figure.validated or figure.value is None or figure.kind is EvidenceKind.CLAIMED:
        return False
    if figure.kind is EvidenceKind.PUBLISHED:
        setup = (plan.model.name, plan.hardware.device, plan.model.weights)
        age = (today - date.fromisoformat(figure.as_of)).days
        return all(word in figure.detail for word in setup) and age <= PUBLISHED_STALE_AFTER_DAYS
    return True


def compare(candidate: CandidateReport, other: CandidateReport, plan: Plan, today: date) -> Comparison:
    """`candidate` against `other`: measured evidence before published before predicted, never one kind with another.

    Where one bake-off measured both, its own finding, request by request, is the outcome. Else better or worse only
    where the intervals are disjoint and the values differ by more than the equivalence margin; a measured tie goes on
    to the next property that both have, and is a tie where none tells them apart. Not comparable where both were
    measured at different or unknown precision, on a stand-in kernel, or untuned.
    """
    for kind in (EvidenceKind.MEASURED, EvidenceKind.PUBLISHED, EvidenceKind.PREDICTED):
        mine = _eligible(candidate, kind, plan, today)
        theirs = _eligible(other, kind, plan, today)
        if kind is EvidenceKind.MEASURED:
            found = _measured(candidate, other, (mine, theirs), plan)
        else:
            found = next(iter(_on_each(mine, theirs, plan)), None)
        if found is not None:
            return found
    return Comparison(outcome=Outcome.NO_EVIDENCE)


def paired(candidate: CandidateReport, other: CandidateReport) -> PairedFinding | None:
    """What one bake-off found of `candidate` against `other`; None where no run measured both."""
    return next((f for f in candidate.paired if (f.engine, f.version) == (other.engine, other.version)), None)


def _measured(
    candidate: CandidateReport, other: CandidateReport, figures: tuple[Figures, Figures], plan: Plan
) -> Comparison | None:
    found = _on_each(*figures, plan)
    twin, barred = paired(candidate, other), _barred(candidate, other)
    if twin is not None:
        shown = next((f for f in found if f.metric == twin.metric), found[0] if found else None)
        barred = barred or (twin.reason if twin.outcome is Outcome.NOT_COMPARABLE else "")
        return Comparison(
            outcome=Outcome.NOT_COMPARABLE if barred else twin.outcome,
            metric=shown.metric if barred and shown else twin.metric,
            figure=shown.figure if shown else None,
            against=shown.against if shown else None,
            reason=barred,
            paired=twin,
        )
    if not found:
        return None
    if barred:
        return msgspec.structs.replace(found[0], outcome=Outcome.NOT_COMPARABLE, reason=barred)
    return next((f for f in found if f.outcome is not Outcome.TIE), found[0])


def _on_each(mine: Figures, theirs: Figures, plan: Plan) -> list[Comparison]:
    """The figures of one kind held against each other, on every property that both have, the most telling first."""
    both = [(metric, best_figure(mine, metric), best_figure(theirs, metric)) for metric in DECIDING]
    return [
        Comparison(outcome=_outcome(figure, against, metric, plan), metric=metric, figure=figure, against=against)
        for metric, figure, against in both
        if figure is not None and against is not None
    ]


def _eligible(candidate: CandidateReport, kind: EvidenceKind, plan: Plan, today: date) -> tuple[Figure, ...]:
    return tuple(f for f in candidate.evidence if f.kind is kind and may_rank(f, plan, today))


def _barred(candidate: CandidateReport, other: CandidateReport) -> str:
    for one in (candidate, other):
        for caveat in one.caveats:
            if caveat.code in {STAND_IN, UNTUNED}:
                return caveat.text
    weights = [_precision(one) for one in (candidate, other)]
    if weights[0] == weights[1]:
        return ""
    if "" in weights:
        return f"of one was measured that {max(weights)}, of another the weights are not known"
    return f"of one was measured that {', of another that '.join(sorted(weights))}"


def _precision(candidate: CandidateReport) -> str:
    """With which weights it was measured, in its caveat's words; empty where nobody said."""
    return next((caveat.text for caveat in candidate.caveats if caveat.code == PRECISION), "")


def _outcome(figure: Figure, against: Figure, metric: str, plan: Plan) -> Outcome:
    sign = 1.0 if DECIDING[metric] else -1.0
    margin = plan.bakeoff.equivalence_margin
    if _exceeds(figure, against, sign, margin):
        return Outcome.BETTER
    return Outcome.WORSE if _exceeds(against, figure, sign, margin) else Outcome.TIE


def _exceeds(figure: Figure, against: Figure, sign: float, margin: float) -> bool:
    value, other = _known(figure.value), _known(against.value)
    disjoint = figure.kind is EvidenceKind.PUBLISHED or _near_end(figure, sign) > _far_end(against, sign)
    return disjoint and sign * (value - other) > margin * abs(other)


def _near_end(figure: Figure, sign: float) -> float:
    """The end of the interval that is worst for the figure, as a quantity of which more is better."""
    end = figure.low if sign > 0 else figure.high
    return float("-inf") if end is None else sign * end


def _far_end(figure: Figure, sign: float) -> float:
    end = figure.high if sign > 0 else figure.low
    return float("inf") if end is None else sign * end


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("a figure without a value cannot rank")
    return value


def reversibility(engine: str, facts: Facts) -> tuple[int, int, int]:
    """How easy an engine is to leave, larger is easier: kinds of hardware, neutral governance, a security policy.

    What is only claimed of governance or policy counts for nothing here.
    """
    hardware = facts.find(engine, "hardware")
    governance = facts.find(engine, "governance")
    policy = facts.find(engine, "security_policy")
    return (
        len(hardware.items) if hardware else 0,
        _NEUTRALITY.get(str(governance.value), 0) if governance and _counts(governance) else 0,
        int(bool(policy and _counts(policy) and policy.value)),
    )


def leaving_facts(engine: str, facts: Facts) -> tuple[LeavingFact, ...]:
    """The facts that `reversibility` reads, to be shown: what, where, when, of which kind, and whether it counts."""
    known = [fact for subject in LEAVING_SUBJECTS if (fact := facts.find(engine, subject))]
    return tuple(
        LeavingFact(
            subject=fact.subject,
            text=f"{_kinds(len(fact.items))}: {fact.claim}" if fact.subject == "hardware" else fact.claim,
            kind=fact.kind,
            counts=fact.subject == "hardware" or _counts(fact),
            source=f"{fact.source}, {fact.version}",
            as_of=fact.as_of.isoformat(),
        )
        for fact in known
    )


def _kinds(count: int) -> str:
    return "1 kind of hardware" if count == 1 else f"{count} kinds of hardware"


def release_order(version: str) -> tuple[tuple[int, int, str], ...]:
    """A version as a value that sorts as releases do: 1.3.0rc3 < 1.3 = 1.3.0 < 1.10; an empty one before all."""
    plain = version.lower().removeprefix("v").partition("+")[0]
    numbers = re.findall(r"^[\d.]*", plain)[0]
    rest = plain.removeprefix(numbers)
    parts = [int(part) for part in numbers.split(".") if part]
    while parts and not parts[-1]:
        parts.pop()
    words = [(0, int(number or 0), word) for word, number in re.findall(r"([a-z]+)[.\-]?(\d*)", rest)]
    return (*((2, part, "") for part in parts), *words, (1, 0, ""))


def _counts(fact: Fact) -> bool:
    return fact.kind is not EvidenceKind.CLAIMED
