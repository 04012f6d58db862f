"""The verdict: gates first, then evidence that may rank, then what is hard to reverse."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from unmoor.choose.cost import RATE_AT_SLO, best_figure
from unmoor.choose.facts import Fact, Facts
from unmoor.choose.objections import Case, carries, said, strongest_against
from unmoor.choose.rank import Comparison, Outcome, compare, reversibility
from unmoor.core.decision import CandidateReport, GateResult, Verdict
from unmoor.core.evidence import EvidenceKind
from unmoor.core.plan import Plan
from unmoor.core.traffic import TrafficProfile


class _Contest(msgspec.Struct, frozen=True, kw_only=True):
    """The pick, and how each other candidate that passes the gates stands against it."""

    pick: CandidateReport
    incumbent: CandidateReport
    others: tuple[CandidateReport, ...]
    findings: tuple[Comparison, ...]

    @property
    def unseated(self) -> bool:
        return self.pick is not self.incumbent

    @property
    def proven(self) -> bool:
        """Whether evidence puts every other candidate behind the pick."""
        return bool(self.others) and all(found.outcome is Outcome.WORSE for found in self.findings)


def decide_verdict(
    plan: Plan, candidates: Sequence[CandidateReport], profile: TrafficProfile, facts: Facts, *, today: date
) -> Verdict:
    """The pick, with what speaks against it; the order of `candidates` changes nothing.

    A candidate that fails a gate is never picked. Of the rest, the plan's default engine stands until another is
    better on a named property by more than the margin, with evidence that may rank (`choose.rank`). Without a default
    among them, the one that is easiest to leave takes its place: more hardware vendors possible, then neutral
    governance, then a security policy. Where nobody passes, the pick is None, and the sentence says which gate
    to relax.
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
    sentence = _sentence(plan, contest, excluded, decided_by, facts)
    if carries(pick, profile) is False:
        sentence = f"{sentence.removesuffix('.')}; this hardware is not predicted to carry the traffic at the SLO."
    return Verdict(
        pick=pick.engine,
        sentence=sentence,
        decided_by=decided_by,
        against=strongest_against(case),
        risk=_from_fact(facts.find(pick.engine, "biggest_risk"), "No risk of it is on record here, which is one."),
        not_for=_from_fact(facts.find(pick.engine, "not_for"), "Nothing is on record here."),
        tie=bool(contest.others) and not contest.unseated and not contest.proven,
    )


def _contest(plan: Plan, standing: list[CandidateReport], facts: Facts, today: date) -> _Contest:
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
    return _Contest(pick=pick, incumbent=incumbent, others=others, findings=findings)


def _easiest_to_leave(candidates: list[CandidateReport], facts: Facts) -> CandidateReport:
    """The most reversible; among equals the newest version of the first name, so that the order given never decides."""
    best = max(reversibility(c.engine, facts) for c in candidates)
    equal = [c for c in candidates if reversibility(c.engine, facts) == best]
    first = min(c.engine for c in equal)
    return max((c for c in equal if c.engine == first), key=lambda c: _version_order(c.version))


def _version_order(version: str | None) -> tuple[tuple[int, int, str], ...]:
    parts = (version or "").replace("-", ".").split(".")
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts)


def _decided_by(contest: _Contest, excluded: tuple[CandidateReport, ...], facts: Facts) -> str:
    """The property that decides: "gates", a metric, "reversibility", "default", or "only_candidate"."""
    if not contest.others:
        return "gates" if excluded else "only_candidate"
    if contest.unseated or contest.proven:
        return next(f.metric for f in contest.findings if f.outcome is Outcome.WORSE)
    mine, rivals = reversibility(contest.pick.engine, facts), _rivals(contest, facts)
    return "reversibility" if rivals and mine > max(rivals) else "default"


def _rivals(contest: _Contest, facts: Facts) -> list[tuple[int, int, int]]:
    """How easy the other engines are to leave; another version of the same engine is no easier or harder."""
    return [reversibility(o.engine, facts) for o in contest.others if o.engine != contest.pick.engine]


def _sentence(
    plan: Plan,
    contest: _Contest,
    excluded: tuple[CandidateReport, ...],
    decided_by: str,
    facts: Facts,
) -> str:
    pick = contest.pick
    out = "; ".join(f"{facts.title(c.engine)}: {'; '.join(_short(g) for g in failed(c))}" for c in excluded)
    if decided_by == "only_candidate":
        why = "it is the only candidate, so nothing was decided"
    elif decided_by == "gates":
        why = f"it is the only candidate that passes every gate ({out})"
        if not any(f.kind is EvidenceKind.MEASURED for c in excluded for f in c.evidence):
            why += ", and nothing measured shows another one better"
    else:
        why = _reason(plan, contest, decided_by, facts)
        if out:
            why += f"; out by a gate: {out}"
    conditions = [g.name for g in pick.gates if g.passed is None]
    provided = f"; on condition that you get in writing: {', '.join(conditions)}" if conditions else ""
    return f"Run {named(pick, facts)}{_layout(pick)}: {why}{provided}."


def named(candidate: CandidateReport, facts: Facts) -> str:
    """The engine as its project writes it, with its version where known."""
    title = facts.title(candidate.engine)
    return f"{title} {candidate.version}" if candidate.version else title


def _layout(pick: CandidateReport) -> str:
    rate = best_figure(pick.evidence, RATE_AT_SLO)
    if rate is None or rate.kind is not EvidenceKind.PREDICTED or not rate.detail:
        return ""
    doubt = "predicted" if rate.validated else "predicted, unvalidated"
    return f" as {rate.detail.split(',')[0]} ({doubt})"


def _reason(plan: Plan, contest: _Contest, decided_by: str, facts: Facts) -> str:
    titles = _listed([facts.title(c.engine) for c in contest.others], "or")
    margin = f"{plan.bakeoff.equivalence_margin:.0%}"
    barred = next((f for f in contest.findings if f.outcome is Outcome.NOT_COMPARABLE), None)
    if barred is not None and barred.figure and barred.against:
        gap = f"{barred.metric} {said(barred.against)} against {said(barred.figure)}"
        return f"NOT COMPARABLE with {titles}: {barred.reason.rstrip('.')}, so the gap ({gap}) ranks nobody"
    if contest.unseated or contest.proven:
        return _proof(contest, margin, facts)
    shown = f"no evidence that may rank shows {titles} better by more than {margin}"
    if decided_by == "default":
        stands = "the default stands" if contest.pick.engine == plan.default_engine else "it comes first"
        return f"{shown}, so {stands}"
    stands = "the default stands, and" if contest.pick.engine == plan.default_engine else "the pick is what"
    return f"{shown}; {stands} is the easiest to leave ({_easier(contest, facts)})"


def _easier(contest: _Contest, facts: Facts) -> str:
    """What makes the pick easier to leave than the next easiest."""
    mine = reversibility(contest.pick.engine, facts)
    theirs = max(_rivals(contest, facts))
    if mine[0] > theirs[0]:
        return f"{mine[0]} kinds of hardware against {theirs[0]}"
    if mine[1] > theirs[1]:
        return f"as many kinds of hardware, {mine[0]}, and governance that is no one company's"
    return "as many kinds of hardware and like governance, and a published security policy"


def _proof(contest: _Contest, margin: str, facts: Facts) -> str:
    behind = [
        (found, facts.title(other.engine))
        for found, other in zip(contest.findings, contest.others, strict=True)
        if found.outcome is Outcome.WORSE
    ]
    decisive, _ = behind[0]
    kind = decisive.against.kind.value if decisive.against else ""
    titles = _listed([title for _, title in behind], "and")
    return f"its {kind} {decisive.metric} is better than that of {titles} by more than {margin}, beyond the intervals"


def _listed(names: list[str], word: str) -> str:
    unique = sorted(set(names))
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} {word} {unique[-1]}"


def failed(candidate: CandidateReport) -> tuple[GateResult, ...]:
    """The gates that bar the candidate."""
    return tuple(g for g in candidate.gates if g.passed is False)


def _short(gate: GateResult) -> str:
    first = gate.reason.split(". ")[0].rstrip(".")
    return first[:1].lower() + first[1:]


def _from_fact(fact: Fact | None, otherwise: str) -> str:
    return f"{fact.claim} ({fact.kind.value}: {fact.cited()})" if fact else otherwise


def _nobody(plan: Plan, candidates: list[CandidateReport], facts: Facts) -> Verdict:
    fails = "; ".join(
        f"{named(c, facts)} fails {', '.join(f'{g.name} ({_short(g)})' for g in failed(c))}" for c in candidates
    )
    gates, let_in = _gates_to_relax(plan, candidates)
    titles = " and ".join(named(c, facts) for c in let_in)
    return Verdict(
        pick=None,
        sentence=f"No candidate passes every gate: {fails}. Relax {' and '.join(gates)} to let in {titles}.",
        decided_by="gates",
        against="The gates may be stricter than the need behind them; each is named above with the candidate it bars.",
        risk="Serving nothing, or serving outside the gates that the plan sets.",
        not_for="Nobody can follow this verdict as it stands.",
        tie=False,
    )


def _gates_to_relax(plan: Plan, candidates: list[CandidateReport]) -> tuple[list[str], list[CandidateReport]]:
    """The fewest gates whose removal lets a candidate in; among equals the set that lets in most, the default first."""
    sets = {frozenset(g.name for g in failed(c)) for c in candidates}
    fewest = min(len(s) for s in sets)

    def worth(gates: frozenset[str]) -> tuple[int, bool, list[str]]:
        let_in = [c for c in candidates if {g.name for g in failed(c)} <= gates]
        return len(let_in), any(c.engine == plan.default_engine for c in let_in), sorted(gates)

    best = max((s for s in sets if len(s) == fewest), key=worth)
    return sorted(best), [c for c in candidates if {g.name for g in failed(c)} <= best]
