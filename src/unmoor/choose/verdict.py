"""The verdict: gates first, then evidence that may rank, then what is hard to reverse."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from unmoor.choose.cost import RATE_AT_SLO, best_figure
from unmoor.choose.facts import Fact, Facts
from unmoor.choose.gates import FITS, PLAN_KEYS, RUNS
from unmoor.choose.objections import (
    NEWER_THAN_KNOWN,
    Case,
    carries,
    is_measured,
    measured_others,
    metric_words,
    said,
    straddles,
    strongest_against,
)
from unmoor.choose.rank import Comparison, compare, release_order, reversibility
from unmoor.core.decision import CandidateReport, GateResult, Outcome, Verdict
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
    sentence = _sentence(plan, contest, excluded, decided_by, facts)
    sentence = f"{sentence.removesuffix('.')}{_will_it_carry(pick, profile)}{_measure_it(case)}."
    return Verdict(
        pick=pick.engine,
        sentence=sentence,
        decided_by=decided_by,
        against=strongest_against(case),
        risk=_from_fact(
            facts.most_telling(pick.engine, "biggest_risk", traits), "No risk of it is on record here, which is one."
        ),
        not_for=_from_fact(facts.most_telling(pick.engine, "not_for", traits), "Nothing is on record here."),
        tie=bool(contest.others) and not contest.unseated and not contest.proven,
    )


def _will_it_carry(pick: CandidateReport, profile: TrafficProfile) -> str:
    if carries(pick, profile) is False:
        return "; this hardware is not predicted to carry the traffic at the SLO"
    rate = straddles(pick, profile)
    if rate is None:
        return ""
    seen = f"{said(rate)} {rate.kind.value}, {profile.offered_rps:.3g} needed"
    return f"; this hardware may not carry the traffic at the SLO ({seen})"


def _measure_it(case: Case) -> str:
    """What to do where another candidate was measured and the pick was not."""
    measured = measured_others(case.pick, case.others)
    if not measured:
        return ""
    titles = _listed([case.title(other) for other in measured], "and")
    verb = "was" if len(measured) == 1 else "were"
    mine = case.title(case.pick)
    return f"; but {titles} {verb} measured and {mine} was not: measure {mine} (`unmoor bakeoff`) before you rely on it"


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
    return max((c for c in equal if c.engine == first), key=lambda c: release_order(c.version or ""))


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
        if not any(is_measured(c) for c in excluded):
            why += ", and nothing measured shows another one better"
    else:
        why = _reason(plan, contest, decided_by, facts)
        if out:
            why += f"; out by a gate: {out}"
    open_ = [g.question or g.name.replace("_", " ") for g in pick.gates if g.passed is None]
    provided = f"; to be settled before you sign: {'; '.join(open_)}" if open_ else ""
    return f"Run {named(pick, facts)}{_unheard_of(pick)}{_layout(pick)}: {why}{provided}."


def _unheard_of(pick: CandidateReport) -> str:
    newer = any(caveat.code == NEWER_THAN_KNOWN for caveat in pick.caveats)
    return " (a version newer than any known here)" if newer else ""


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
        gap = f"{metric_words(barred.metric)} {said(barred.against)} against {said(barred.figure)}"
        return f"NOT COMPARABLE with {titles}: {barred.reason.rstrip('.')}, so the gap ({gap}) ranks nobody"
    if contest.unseated or contest.proven:
        return _proof(contest, margin, facts)
    shown = f"no evidence that may rank shows {titles} better by more than {margin}"
    if decided_by == "default":
        stands = "the default stands" if contest.pick.engine == plan.default_engine else "it comes first"
        return f"{shown}, so {stands}"
    stands = "the default stands, and" if contest.pick.engine == plan.default_engine else "of those left it"
    return f"{shown}; {stands} is the easiest to leave ({_easier(contest, facts)})"


def _easier(contest: _Contest, facts: Facts) -> str:
    """What makes the pick easier to leave than the next easiest."""
    mine = reversibility(contest.pick.engine, facts)
    theirs = max(_rivals(contest, facts))
    if mine[0] > theirs[0]:
        return f"it runs on {mine[0]} kinds of hardware, the next on {theirs[0]}"
    if mine[1] > theirs[1]:
        return f"it runs on {mine[0]} kinds of hardware like the next, and is governed by no single company"
    return "it runs on as many kinds of hardware as the next, is governed alike, and publishes a security policy"


def _proof(contest: _Contest, margin: str, facts: Facts) -> str:
    behind = [
        (found, facts.title(other.engine))
        for found, other in zip(contest.findings, contest.others, strict=True)
        if found.outcome is Outcome.WORSE
    ]
    decisive, _ = behind[0]
    kind = decisive.against.kind.value if decisive.against else ""
    titles = _listed([title for _, title in behind], "and")
    metric = metric_words(decisive.metric)
    return f"its {kind} {metric} is better than that of {titles} by more than {margin}, beyond the intervals"


def _listed(names: list[str], word: str) -> str:
    unique = sorted(set(names))
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} {word} {unique[-1]}"


def failed(candidate: CandidateReport) -> tuple[GateResult, ...]:
    """The gates that bar the candidate."""
    return tuple(g for g in candidate.gates if g.passed is False)


def _short(gate: GateResult) -> str:
    """The first sentence of the reason, to stand after a colon; a name or an acronym keeps its letters."""
    first = gate.reason.split(". ")[0].rstrip(".")
    word = first.split(" ")[0]
    return first[:1].lower() + first[1:] if word[1:].islower() and word.isalpha() else first


def _from_fact(fact: Fact | None, otherwise: str) -> str:
    return f"{fact.claim} ({fact.kind.value}: {fact.cited()})" if fact else otherwise


def _nobody(plan: Plan, candidates: list[CandidateReport], facts: Facts) -> Verdict:
    reasons: dict[str, list[str]] = {}
    for candidate in candidates:
        reasons.setdefault("; ".join(_short(gate) for gate in failed(candidate)), []).append(named(candidate, facts))
    fails = ". ".join(f"{_listed(names, 'and')}: {why}" for why, names in reasons.items())
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
    return f"Relax {keys} in the plan to let in {_listed([named(c, facts) for c in let_in], 'and')}."


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
