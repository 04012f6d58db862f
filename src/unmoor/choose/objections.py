"""The strongest argument against a pick, built from this traffic and this evidence."""

from __future__ import annotations

from datetime import date

import msgspec

from unmoor.choose.cost import RATE_AT_SLO, best_figure
from unmoor.choose.facts import Facts
from unmoor.choose.rank import compare, reversibility
from unmoor.core.decision import CandidateReport, Outcome
from unmoor.core.evidence import EvidenceKind, Figure
from unmoor.core.plan import Plan
from unmoor.core.traffic import TrafficProfile

MUCH_SHARED = 0.25
_MUCH_ROOM = 1.5
_HALF = 2.0
NEWER_THAN_KNOWN = "newer_than_known"  # the code of the caveat of a version that no fact here has heard of
_TELLING = ("slo_attainment", "goodput_rps", "scheduled_ttft_p95_s")
_NAMES = {
    "scheduled_e2e_s": "end-to-end time",
    "slo_attainment": "within the SLO",
    "goodput_rps": "goodput",
    "scheduled_ttft_p95_s": "TTFT p95",
    RATE_AT_SLO: "highest rate at the SLO",
    "output_tput_tps": "output throughput",
    "scheduled_e2e_mean_s": "mean E2E",
}
CLAIM_PREFIX = "claimed_"
_UNBOUNDED = "rate_unbounded"  # the code of the caveat of a prediction in which no rate breaks the SLO
_TOO_LONG = "requests_too_long"
HIT_RATE = "prefix_hit_rate"
SLO_UNMET = "slo_unmet"  # the code of the caveat of a prediction in which layouts miss the SLO at every rate


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A pick, and everything that could be held against it."""

    plan: Plan
    pick: CandidateReport
    others: tuple[CandidateReport, ...]
    profile: TrafficProfile
    facts: Facts
    today: date

    def title(self, candidate: CandidateReport) -> str:
        """The engine's name as its project writes it."""
        return self.facts.title(candidate.engine)


def strongest_against(case: Case) -> str:
    """Sentences, the strongest first: measured elsewhere, too little hardware, gates, shape, doubts, claims."""
    found = [
        *_only_the_other_measured(case),
        *_too_small(case),
        *_may_be_too_small(case),
        *_better_but_barred(case),
        *_shared_prefixes(case),
        *_rates(case),
        *_claims(case),
        *_more_than_enough(case),
        *_harder_to_leave(case),
        *_nothing_measured(case),
    ]
    return " ".join(found or _only_as_of(case))


def carries(pick: CandidateReport, profile: TrafficProfile) -> bool | None:
    """Whether the plan's hardware is put to carry the traffic at the SLO; None where no figure says.

    False where even the upper end of the highest rate lies below the traffic's own, or no layout meets the SLO at all;
    None too where some layouts miss it and no rate breaks it in others.
    """
    rate = best_figure(pick.evidence, RATE_AT_SLO)
    if rate is None:
        codes = {caveat.code for caveat in pick.caveats}
        return False if SLO_UNMET in codes and _UNBOUNDED not in codes else None
    reach, offered = _reach(rate), profile.offered_rps
    return None if reach is None or offered is None else reach >= offered


def _too_small(case: Case) -> list[str]:
    if carries(case.pick, case.profile) is not False:
        return []
    rate = best_figure(case.pick.evidence, RATE_AT_SLO)
    size = f"{case.plan.hardware.count} × {case.plan.hardware.device}"
    others = ", ".join(sorted({case.title(other) for other in carriers(case)}))
    first = (
        f"other settings come first, or {others}, put to carry it on the same hardware."
        if others
        else "other settings, more hardware or a looser SLO come first."
    )
    if rate is None or case.profile.offered_rps is None:
        settings = f"Under {case.title(case.pick)}'s settings{too_long(case)}"
        return [f"{settings}, no layout of {size} is predicted to meet the SLO at any rate: {first}"]
    own = f"{case.profile.offered_rps:.3g} requests/s"
    return [f"Its highest rate at the SLO on {size}, {said(rate)}, is below the traffic's own {own}: {first}"]


def carriers(case: Case) -> tuple[CandidateReport, ...]:
    """The others, barred by no gate, that the plan's hardware is put to carry the traffic with."""
    return tuple(other for other in case.others if not other.excluded and carries(other, case.profile))


def too_long(case: Case) -> str:
    """In brackets, that prompts are too long for the pick as it is set; empty where none is."""
    if not any(caveat.code == _TOO_LONG for caveat in case.pick.caveats):
        return ""
    return " (some prompts fit no KV pool, or no single batch: see requests_too_long, and the setting chunked_prefill)"


def straddles(pick: CandidateReport, profile: TrafficProfile) -> Figure | None:
    """The pick's highest rate at the SLO where the traffic's own lies inside its range; None where it does not."""
    rate, offered = best_figure(pick.evidence, RATE_AT_SLO), profile.offered_rps
    if rate is None or offered is None or not carries(pick, profile):
        return None
    return rate if rate.low is None or rate.low < offered else None


def _may_be_too_small(case: Case) -> list[str]:
    rate = straddles(case.pick, case.profile)
    if rate is None or case.profile.offered_rps is None:
        return []
    size = f"{case.plan.hardware.count} × {case.plan.hardware.device}"
    argument = (
        f"Its highest rate at the SLO on {size} is put at {said(rate)}, and the traffic's own is "
        f"{case.profile.offered_rps:.3g}: it may not carry it. Plan for more hardware or a looser SLO until it is "
        "measured."
    )
    return [argument]


def _more_than_enough(case: Case) -> list[str]:
    """That the owner may need less of the hardware, where the low end of the rate leaves much of it idle."""
    room = case.pick.headroom
    if room is None or room.low is None or room.low < _MUCH_ROOM or case.plan.hardware.count == 1:
        return []
    fewer = "half of it may do" if room.low >= _HALF else "less of it may do"
    argument = (
        f"The hardware is {room.kind.value} to carry {said(room)} times the traffic: {fewer}. Decide again with a "
        "lower hardware.count."
    )
    return [argument]


def measured_others(pick: CandidateReport, others: tuple[CandidateReport, ...]) -> tuple[CandidateReport, ...]:
    """The others that were measured and are not barred, where the pick was not measured; none where it was."""
    if is_measured(pick):
        return ()
    return tuple(other for other in others if is_measured(other) and not other.excluded)


def is_measured(candidate: CandidateReport) -> bool:
    """Whether any figure of the candidate was measured."""
    return any(figure.kind is EvidenceKind.MEASURED for figure in candidate.evidence)


def _only_the_other_measured(case: Case) -> list[str]:
    told = []
    for other in measured_others(case.pick, case.others):
        measured = tuple(f for f in other.evidence if f.kind is EvidenceKind.MEASURED)
        figures = [f for metric in _TELLING if (f := best_figure(measured, metric))] or list(measured[:1])
        shown = ", ".join(f"{metric_words(figure.metric)} {said(figure)}" for figure in figures)
        mine, theirs = case.title(case.pick), case.title(other)
        told.append(
            f"{theirs} was measured with this traffic ({shown}; {figures[0].as_of}), and {mine} was not: what speaks "
            f"for it is only that nothing shows {theirs} better."
        )
    return told


def metric_words(metric: str) -> str:
    """A deciding metric as words for a sentence; its name for one that has none."""
    return _NAMES.get(metric, metric)


def _better_but_barred(case: Case) -> list[str]:
    ahead = [
        (other, found)
        for other in case.others
        if (found := compare(other, case.pick, case.plan, case.today)).outcome is Outcome.BETTER and other.excluded
    ]
    return [
        f"{case.title(other)} is better on {metric_words(found.metric)} ({said(found.figure)} against "
        f"{said(found.against)}), and only a gate keeps it out."
        for other, found in ahead
        if found.figure and found.against
    ]


def _shared_prefixes(case: Case) -> list[str]:
    overlap, finer = case.profile.prefix_overlap, _finest_of_others(case)
    if overlap is None or overlap < MUCH_SHARED or finer is None:
        return []
    other, theirs, mine = finer
    argument = (
        f"{overlap:.0%} of prompt tokens repeat the start of an earlier prompt, and that is what the case for "
        f"{case.title(other)} rests on: it keeps shared prefixes by pages of {_tokens(theirs)}, "
        f"{case.title(case.pick)} by blocks of {mine}, across requests. The finer pages save at most "
        f"{_tokens(mine - theirs)} a request; its order and eviction may save more, which nobody has measured on this "
        "traffic."
    )
    return [argument, *_forgotten(case, overlap)]


def _finest_of_others(case: Case) -> tuple[CandidateReport, int, int] | None:
    """The other candidate with the finest shared prefixes, its granularity and the pick's; None for none finer."""

    def grain(candidate: CandidateReport) -> int | None:
        fact = case.facts.find(candidate.engine, "prefix_granularity_tokens")
        return fact.value if fact and isinstance(fact.value, int) else None

    mine = grain(case.pick)
    others = [(tokens, other.engine, other) for other in case.others if (tokens := grain(other))]
    theirs, _, other = min(others, key=lambda found: found[:2], default=(None, "", None))
    return (other, theirs, mine) if other and theirs and mine and theirs < mine else None


def _forgotten(case: Case, overlap: float) -> list[str]:
    """That the cache is too small for the overlap, where the simulation says so: a finer tree then gains less."""
    hits = best_figure(case.pick.evidence, HIT_RATE)
    if hits is None or hits.high is None or hits.high > overlap / 2:
        return []
    return [f"Yet at most {hits.high:.0%} is simulated to be still in the cache when it comes again: memory is short."]


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"


def _rates(case: Case) -> list[str]:
    mine = best_figure(case.pick.evidence, RATE_AT_SLO)
    rivals = [(f, o) for o in case.others if (f := best_figure(o.evidence, RATE_AT_SLO)) and _reach(f) is not None]
    if mine is None or not rivals:
        return []
    theirs, other = max(rivals, key=lambda pair: (_reach(pair[0]) or 0.0, pair[1].engine))
    if (_reach(theirs) or 0.0) <= (mine.low or 0.0):
        return []
    unproven = [title for f, title in ((mine, case.title(case.pick)), (theirs, case.title(other))) if not f.validated]
    doubt = f" ({' and '.join(unproven)} unvalidated)" if unproven else ""
    argument = (
        f"{case.title(other)}'s highest rate at the SLO is put at {said(theirs)} against {said(mine)} for "
        f"{case.title(case.pick)}{doubt}: that does not show which is faster."
    )
    return [argument]


def _reach(figure: Figure) -> float | None:
    return figure.high if figure.high is not None else figure.value


def said(figure: Figure) -> str:
    """A figure with its range and unit, for a sentence."""
    unit = {"rps": " requests/s", "tps": " tokens/s", "s": " s", "1": " %"}.get(figure.unit, "")
    scale = 100.0 if figure.unit == "1" else 1.0
    ends = [f"{end * scale:.3g}" for end in (figure.low, figure.high) if end is not None]
    band = " to ".join(dict.fromkeys(ends)) if len(ends) == 2 else "no range"  # noqa: PLR2004 - a range has two ends
    return f"{figure.value * scale:.3g} ({band}){unit}" if figure.value is not None else f"{band}{unit}"


def _claims(case: Case) -> list[str]:
    return [caveat.text for caveat in case.pick.caveats if caveat.code.startswith(CLAIM_PREFIX)]


def _nothing_measured(case: Case) -> list[str]:
    if is_measured(case.pick) or measured_others(case.pick, case.others):
        return []  # the second is said already, and first
    return ["None of the figures behind it was measured on this hardware with this traffic."]


def _harder_to_leave(case: Case) -> list[str]:
    mine = reversibility(case.pick.engine, case.facts)
    passing = [o for o in case.others if not o.excluded]
    easier = max(passing, key=lambda o: (reversibility(o.engine, case.facts), o.engine), default=None)
    if easier is None or reversibility(easier.engine, case.facts) <= mine:
        return []
    return [
        f"{case.title(easier)} would be easier to leave: hardware, governance and security policy weigh in that order."
    ]


def _only_as_of(case: Case) -> list[str]:
    seen = max((f.as_of for f in case.pick.evidence), default=case.today.isoformat())
    return [f"It rests on figures of {seen}, for the traffic as it was: engines change places from release to release."]
