"""The verdict: gates first, then evidence that may rank, then what is hard to reverse."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from unmoor.choose.facts import Fact, Facts
from unmoor.choose.gates import FITS, PLAN_KEYS, RUNS
from unmoor.choose.objections import Case, strongest_against
from unmoor.choose.rank import compare, release_order, reversibility
from unmoor.choose.sentence import Contest, failed, listed, named, rivals, sentence_of, short
from unmoor.core.decision import CandidateReport, GateResult, Outcome, Verdict
from unmoor.core.plan import Plan
from unmoor.core.traffic import TrafficProfile


def decide_verdict(
    plan: Plan,
    candidates: Sequence[CandidateReport],
    profile: TrafficProfile,
    facts: Facts,
    *,
    today: date,
    traits: frozenset[str] = frozenset(),
) -> Verdict:
    """The pick, with what speaks against it; the order of `candidates` changes nothing.

    A candidate that fails a gate is never picked. Of the rest, the plan's default engine stands until another is
    better on a named property by more than the margin, with evidence that may rank (`choose.rank`). Without a default
    among them, the one that is easiest to leave takes its place: more hardware vendors possible, then neutral
    governance, then a security policy. Where nobody passes, the pick is None, and the sentence says which gate
    to relax. `traits` of the traffic choose which risk is told.
    """
    ordered = sorted(candidates, key=lambda c: (c.engine, c.version or ""))
    standing = [c for c in ordered if not c.excluded]
    if not standing:
        return _nobody(plan, ordered, facts)
    contest = _contest(plan, standing, facts, today)
    pick = contest.pick
    excluded = tuple(c for c in ordered if c.excluded)
    case = Case(
        plan=plan,
        pick=pick,
        others=tuple(c for c in ordered if c is not pick),
        profile=profile,
        facts=facts,
        today=today,
    )
    decided_by = _decided_by(contest, excluded, facts)
    sentence = sentence_of(case, contest, excluded, decided_by)
    return Verdict(
        pick=pick.engine,
        pick_version=pick.version,
        sentence=sentence,
        decided_by=decided_by,
        against=strongest_against(case),
        risk=_from_fact(
            facts.most_telling(pick.engine, "biggest_risk", traits), "No risk of it is on record here, which is one."
        ),
        not_for=_from_fact(facts.most_telling(pick.engine, "not_for", traits), "Nothing is on record here."),
        tie=bool(contest.others) and not contest.unseated and not contest.proven,
    )


def _contest(plan: Plan, standing: list[CandidateReport], facts: Facts, today: date) -> Contest:
    defaults = [c for c in standing if c.engine == plan.default_engine]
    incumbent = _easiest_to_leave(defaults or standing, facts)
    winners = [
        c for c in standing
        if c is not incumbent and compare(c, incumbent, plan, today).outcome is Outcome.BETTER
    ]  # fmt: skip
    unbeaten = [
        c
        for c in winners
        if not any(compare(o, c, plan, today).outcome is Outcome.BETTER for o in winners if o is not c)
    ]
    pick = _easiest_to_leave(unbeaten or winners, facts) if winners else incumbent
    others = tuple(c for c in standing if c is not pick)
    findings = tuple(compare(c, pick, plan, today) for c in others)
    return Contest(pick=pick, incumbent=incumbent, others=others, findings=findings)


def _easiest_to_leave(candidates: list[CandidateReport], facts: Facts) -> CandidateReport:
    """The most reversible; among equals the newest version of the first name, so that the order given never decides."""
    best = max(reversibility(c.engine, facts) for c in candidates)
    equal = [c for c in candidates if reversibility(c.engine, facts) == best]
    first = min(c.engine for c in equal)
    return max((c for c in equal if c.engine == first), key=lambda c: release_order(c.version or ""))


def _decided_by(contest: Contest, excluded: tuple[CandidateReport, ...], facts: Facts) -> str:
    """The property that decides: "gates", a metric, "reversibility", "default", or "only_candidate"."""
    if not contest.others:
        return "gates" if excluded else "only_candidate"
    if contest.unseated or contest.proven:
        return next(f.metric for f in contest.findings if f.outcome is Outcome.WORSE)
    mine, theirs = reversibility(contest.pick.engine, facts), rivals(contest, facts)
    return "reversibility" if theirs and mine > max(theirs) else "default"


def _from_fact(fact: Fact | None, otherwise: str) -> str:
    return f"{fact.claim} ({fact.kind.value}: {fact.cited()})" if fact else otherwise


def _nobody(plan: Plan, candidates: list[CandidateReport], facts: Facts) -> Verdict:
    reasons: dict[str, list[str]] = {}
    for candidate in candidates:
        reasons.setdefault("; ".join(short(gate) for gate in failed(candidate)), []).append(named(candidate, facts))
    fails = ". ".join(f"{listed(names, 'and')}: {why}" for why, names in reasons.items())
    of_hardware = all(any(_of_hardware(gate) for gate in failed(c)) for c in candidates)
    gates_doubted = "The gates may be stricter than the need behind them; each is named above with whom it bars."
    facts_doubted = (
        "It rests on what each project lists and on memory as predicted: a port or another setting may differ."
    )
    return Verdict(
        pick=None,
        sentence=f"No candidate passes every gate. {fails}. {_way_out(plan, candidates, facts)}",
        decided_by="gates",
        against=facts_doubted if of_hardware else gates_doubted,
        risk="Serving nothing." if of_hardware else "Serving nothing, or serving outside the gates that the plan sets.",
        not_for="Nobody can follow this verdict as it stands.",
        tie=False,
    )


def _way_out(plan: Plan, candidates: list[CandidateReport], facts: Facts) -> str:
    """Which keys of the plan to relax, and whom that lets in; other hardware or engines where no key would do."""
    relaxable = [c for c in candidates if all(not _of_hardware(g) for g in failed(c))]
    if not relaxable:
        return (
            f"None of them can serve this on {plan.hardware.count} × {plan.hardware.device}: change one or the other."
        )
    gates, let_in = _gates_to_relax(plan, relaxable)
    keys = " and ".join(PLAN_KEYS.get(gate, gate) for gate in gates)
    return f"Relax {keys} in the plan to let in {listed([named(c, facts) for c in let_in], 'and')}."


def _of_hardware(gate: GateResult) -> bool:
    return gate.name in {RUNS, FITS}


def _gates_to_relax(plan: Plan, candidates: list[CandidateReport]) -> tuple[list[str], list[CandidateReport]]:
    """The fewest gates whose removal lets a candidate in; among equals the set that lets in most, the default first."""
    sets = {frozenset(g.name for g in failed(c)) for c in candidates}
    fewest = min(len(s) for s in sets)

    def worth(gates: frozenset[str]) -> tuple[int, bool, list[str]]:
        let_in = [c for c in candidates if {g.name for g in failed(c)} <= gates]
        return len(let_in), any(c.engine == plan.default_engine for c in let_in), sorted(gates)

    best = max((s for s in sets if len(s) == fewest), key=worth)
    return sorted(best), [c for c in candidates if {g.name for g in failed(c)} <= best]
