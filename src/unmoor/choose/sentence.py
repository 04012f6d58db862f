"""The verdict in one sentence: what to run, by what it stands, and what is still in doubt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from unmoor.choose.cost import RATE_AT_SLO, best_figure
from unmoor.choose.facts import Facts
from unmoor.choose.objections import (
    NEWER_THAN_KNOWN,
    Case,
    carriers,
    carries,
    is_measured,
    measured_others,
    metric_words,
    said,
    straddles,
    too_long,
)
from unmoor.choose.rank import Comparison, paired, reversibility
from unmoor.core.decision import CandidateReport, GateResult, Outcome, PairedFinding
from unmoor.core.evidence import EvidenceKind


class Contest(msgspec.Struct, frozen=True, kw_only=True):
    """The pick, and how each other candidate that passes the gates stands against it."""

    pick: CandidateReport
    incumbent: CandidateReport
    others: tuple[CandidateReport, ...]
    findings: tuple[Comparison, ...]

    @property
    def unseated(self) -> bool:
        """Whether evidence put the pick in the incumbent's place."""
        return self.pick is not self.incumbent

    @property
    def proven(self) -> bool:
        """Whether evidence puts every other candidate behind the pick."""
        return bool(self.others) and all(found.outcome is Outcome.WORSE for found in self.findings)

    def called(self, candidate: CandidateReport, facts: Facts) -> str:
        """The engine's title; with its version where another version of the same engine is in the contest."""
        engines = [c.engine for c in (self.pick, *self.others)]
        return named(candidate, facts) if engines.count(candidate.engine) > 1 else facts.title(candidate.engine)


def sentence_of(case: Case, contest: Contest, excluded: Sequence[CandidateReport], decided_by: str) -> str:
    """The pick with its layout, the reason, what is to be settled, and whether the hardware carries the traffic."""
    pick, facts = contest.pick, case.facts
    why = _why(case, contest, excluded, decided_by)
    open_ = [gate.question or gate.name.replace("_", " ") for gate in pick.gates if gate.passed is None]
    provided = f"; to be settled before you sign: {'; '.join(open_)}" if open_ else ""
    run = f"Run {named(pick, facts)}{_unheard_of(pick)}{_layout(pick)}"
    return f"{run}: {why}{provided}{_will_it_carry(case)}{_measure_it(case)}."


def _why(case: Case, contest: Contest, excluded: Sequence[CandidateReport], decided_by: str) -> str:
    out = "; ".join(f"{case.title(c)}: {'; '.join(short(g) for g in failed(c))}" for c in excluded)
    if decided_by == "only_candidate":
        return "it is the only candidate, so nothing was decided"
    if decided_by == "gates":
        unsettled = any(gate.passed is None for gate in contest.pick.gates)
        passes = "that no gate bars" if unsettled else "that passes every gate"
        unmeasured = "" if any(is_measured(c) for c in excluded) else ", and nothing measured shows another one better"
        return f"it is the only candidate {passes} ({out}){unmeasured}"
    reason = _reason(case, contest, decided_by)
    return f"{reason}; out by a gate: {out}" if out else reason


def _will_it_carry(case: Case) -> str:
    pick, profile = case.pick, case.profile
    if carries(pick, profile) is False:
        others = carriers(case)
        able = f", and is under {listed(map(case.title, others), 'and')}'s" if others else ""
        return (
            "; this hardware is not predicted to carry the traffic at the SLO under "
            f"{case.title(pick)}'s settings{too_long(case)}{able}"
        )
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
    titles = listed([case.title(other) for other in measured], "and")
    verb = "was" if len(measured) == 1 else "were"
    mine = case.title(case.pick)
    return f"; but {titles} {verb} measured and {mine} was not: measure {mine} (`unmoor bakeoff`) before you rely on it"


def _reason(case: Case, contest: Contest, decided_by: str) -> str:
    """What is proven of whom, who cannot be compared and why, and why the pick stands against the rest."""
    against = list(zip(contest.findings, contest.others, strict=True))
    barred = [(f, o) for f, o in against if f.outcome is Outcome.NOT_COMPARABLE]
    rest = [o for f, o in against if f.outcome not in {Outcome.WORSE, Outcome.NOT_COMPARABLE}]
    clauses = [*_proofs(case, contest), *_not_comparable(case, contest, barred)]
    proven = contest.unseated or contest.proven
    if rest:
        titles = listed([contest.called(o, case.facts) for o in rest], "or")
        shown = f"no evidence that may rank shows {titles} better by more than {_margin(case)}"
        clauses.append(shown)
    if not proven:
        clauses.append(_stands(case, contest, decided_by))
    *first, last = clauses
    joined = ", so " if rest and decided_by == "default" and not proven else "; "
    return f"{'; '.join(first)}{joined}{last}" if first else last


def _stands(case: Case, contest: Contest, decided_by: str) -> str:
    is_default = contest.pick.engine == case.plan.default_engine
    if decided_by == "default":
        return "the default stands" if is_default else "it comes first"
    stands = "the default stands, and" if is_default else "of those left it"
    return f"{stands} is the easiest to leave ({_easier(contest, case.facts)})"


def _margin(case: Case) -> str:
    return f"{case.plan.bakeoff.equivalence_margin:.0%}"


def _not_comparable(case: Case, contest: Contest, barred: Sequence[tuple[Comparison, CandidateReport]]) -> list[str]:
    """Those barred from comparison, by the reason that bars them, each with its gap."""
    reasons: dict[str, list[tuple[Comparison, CandidateReport]]] = {}
    for found, other in barred:
        reasons.setdefault(found.reason.rstrip("."), []).append((found, other))
    return [
        f"NOT COMPARABLE with {listed([contest.called(o, case.facts) for _, o in pairs], 'or')}: "
        f"{reason}{_gaps([found for found, _ in pairs])}"
        for reason, pairs in reasons.items()
    ]


def _gaps(found: Sequence[Comparison]) -> str:
    gaps = [
        f"{metric_words(f.metric)} {said(f.against)} against {said(f.figure)}" for f in found if f.against and f.figure
    ]
    if not gaps:
        return ""
    return (
        f", so the gap ({gaps[0]}) ranks nobody" if len(gaps) == 1 else f", so the gaps ({'; '.join(gaps)}) rank nobody"
    )


def _proofs(case: Case, contest: Contest) -> list[str]:
    """What puts others behind the pick, a clause for each kind of evidence and property."""
    groups: dict[tuple[str, str], list[str]] = {}
    clauses = []
    for found, other in zip(contest.findings, contest.others, strict=True):
        if found.outcome is not Outcome.WORSE:
            continue
        title = contest.called(other, case.facts)
        twin = paired(contest.pick, other)
        if twin is not None:
            clauses.append(_paired_proof(twin, title))
        elif found.against is not None:
            groups.setdefault((found.against.kind.value, found.metric), []).append(title)
    for (kind, metric), titles in groups.items():
        apart = "" if kind == EvidenceKind.PUBLISHED.value else ", beyond the intervals"
        better = f"its {kind} {metric_words(metric)} is better than that of {listed(titles, 'and')}"
        clauses.append(f"{better} by more than {_margin(case)}{apart}")
    return clauses


def _paired_proof(twin: PairedFinding, title: str) -> str:
    """The bake-off's finding for the pick: points of requests within the SLO, or how long a request takes."""
    if twin.effect is None or twin.low is None or twin.high is None:
        return f"measured request by request it is better than {title}"
    if twin.kind == "ratio":
        much = f"{twin.effect:.2f}× as long end to end, 95 % interval {twin.low:.2f} to {twin.high:.2f}"
        return f"measured request by request it is sooner done than {title} ({much})"
    much = f"{twin.effect * 100:+.3g} points, 95 % interval {twin.low * 100:.3g} to {twin.high * 100:.3g}"
    return f"measured request by request it meets the SLO more often than {title} ({much})"


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


def _easier(contest: Contest, facts: Facts) -> str:
    """What makes the pick easier to leave than the next easiest."""
    mine = reversibility(contest.pick.engine, facts)
    theirs = max(rivals(contest, facts))
    if mine[0] > theirs[0]:
        return f"it runs on {mine[0]} kinds of hardware, the next on {theirs[0]}"
    if mine[1] > theirs[1]:
        return f"it runs on {mine[0]} kinds of hardware like the next, and is governed by no single company"
    return "it runs on as many kinds of hardware as the next, is governed alike, and publishes a security policy"


def rivals(contest: Contest, facts: Facts) -> list[tuple[int, int, int]]:
    """How easy the other engines are to leave; another version of the same engine is no easier or harder."""
    return [reversibility(o.engine, facts) for o in contest.others if o.engine != contest.pick.engine]


def listed(names: Iterable[str], word: str) -> str:
    """Names in order, each once, with `word` before the last."""
    unique = sorted(set(names))
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} {word} {unique[-1]}"


def failed(candidate: CandidateReport) -> tuple[GateResult, ...]:
    """The gates that bar the candidate."""
    return tuple(g for g in candidate.gates if g.passed is False)


def short(gate: GateResult) -> str:
    """The first sentence of the reason, to stand after a colon; a name or an acronym keeps its letters."""
    first = gate.reason.split(". ")[0].rstrip(".")
    word = first.split(" ")[0]
    return first[:1].lower() + first[1:] if word[1:].islower() and word.isalpha() else first
