"""The check of a move: all checks over one case, and every feature of the traffic classed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from unmoor.leave.case import Case, Hit
from unmoor.leave.checks.registry import checks
from unmoor.leave.finding import Feature, FeatureOutcome, Finding, MoveReport, Outcome
from unmoor.leave.places import places_of
from unmoor.leave.schemas.undecided import Undecided, undecided
from unmoor.leave.start_command import start_command
from unmoor.leave.uses import ABSENT, Rows, Uses

_WORSE: dict[FeatureOutcome, int] = {"same": 0, "translated": 1, "unknown": 2, "lost": 3}


def check_move(case: Case) -> MoveReport:
    """What the move would change, feature by feature: same, translated or lost.

    A feature of which no check says anything is the same; the check of request fields looks at every field, so that
    nothing is passed over. Every constraint is a feature, and unknown where nobody knows what the target makes of it.
    Nothing changes where engine and version stay. Requests that the log holds no body of are told as not looked at.
    """
    uses = case.uses
    hits = [] if case.stays else [found for check in checks() for found in check.look(case)]
    if bodiless := uses.requests - uses.bodies:
        case.skipped(_without_bodies(bodiless, uses))
    left = undecided(case.schemas, case.source, case.target) if case.schemas and not case.stays else Undecided()
    for why in left.told:
        case.skipped(why)
    placed = (msgspec.structs.replace(one.finding, places=places_of(case, one.finding)) for one in hits)
    findings = tuple(sorted(placed, key=_order))
    features = tuple(_features(case, findings, left.keys))
    start = start_command(case, findings)
    return MoveReport(
        source_engine=case.source.engine,
        source_version=case.source.version,
        target_engine=case.target.engine,
        target_version=case.target.version,
        traffic=uses.source,
        format=uses.format,
        requests=uses.requests,
        bodies=uses.bodies,
        features=features,
        findings=findings,
        lost_requests=len(_concerned(hits, "lost")),
        translated_requests=len(_concerned(hits, "translated")),
        not_looked_at=tuple(case.not_looked_at),
        caveats=tuple(dict.fromkeys((*case.source.caveats, *case.target.caveats, *uses.caveats))),
        start_command=start.words,
        start_config=start.config,
        start_notes=start.notes,
    )


def _without_bodies(bodiless: int, uses: Uses) -> str:
    """What a log of lengths, or an engine's own, cannot tell."""
    known = "their parameters as far as it logs them" if uses.by_use else "times and lengths"
    return (
        f"{bodiless:,} of {uses.requests:,} requests: the log holds {known}, and no body; the fields, schemas, "
        "tools and prompts that they ask with are unknown, and could be lost. A log of bodies, as a gateway keeps it, "
        "tells"
    )


def _features(case: Case, findings: Sequence[Finding], not_known: Collection[str]) -> Iterable[Feature]:
    rows: dict[str, list[Rows]] = {}
    for use, found in case.uses.by_use.items():
        rows.setdefault(use.feature, []).extend([] if use.value == ABSENT else [found])
    for key in case.schemas.target if case.schemas else ():
        rows[f"schema {key}"] = [case.uses.by_constraint.get(key, Rows())]
    unknown = {f"schema {key}" for key in not_known}
    about: dict[str, list[Finding]] = {}
    for finding in findings:
        for name in finding.features:
            about.setdefault(name, []).append(finding)
    for name in dict.fromkeys((*rows, *about)):
        told = about.get(name, [])
        outcomes: list[FeatureOutcome] = [
            "unknown" if name in unknown else "same",
            *(finding.outcome for finding in told),
        ]
        outcome = max(outcomes, key=_WORSE.__getitem__)
        requests = len(Rows.union(rows[name])) if name in rows else max(finding.requests for finding in told)
        yield Feature(
            name=name, requests=requests, outcome=outcome, kinds=tuple(dict.fromkeys(one.kind for one in told))
        )


def _concerned(hits: Sequence[Hit], outcome: Outcome) -> Rows:
    """The distinct requests of all hits with this outcome."""
    return Rows.union(one.rows for one in hits if one.finding.outcome == outcome)


def _order(finding: Finding) -> tuple[int, int, str]:
    severity = {"error": 0, "warning": 1, "note": 2}[finding.severity]
    return -_WORSE[finding.outcome], severity, finding.kind
