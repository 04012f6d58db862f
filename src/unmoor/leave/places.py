"""Where a finding stands that no recorded request shows: in the start, in a dashboard, or in the model's files."""

from __future__ import annotations

from collections.abc import Iterator

from unmoor.leave.case import Case
from unmoor.leave.finding import Finding, Place

MOST_PLACES = 100


def places_of(case: Case, finding: Finding) -> tuple[Place, ...]:
    """The lines of the user's files that this finding is about; empty for one about requests.

    The features say which: "flag NAME" stands in the start, "metric NAME" and "route NAME" where those were found.
    """
    if finding.lines:
        return ()
    found = dict.fromkeys(place for feature in finding.features for place in _of(case, feature))
    if not found and finding.file and case.model is not None:
        found = {Place(file=f"{case.model.path}/{finding.file}"): None}
    return tuple(found)[:MOST_PLACES]


def _of(case: Case, feature: str) -> Iterator[Place]:
    what, _, name = feature.partition(" ")
    if what == "flag" and case.flags is not None:
        yield Place(file=case.flags.where, line=case.flags.lines.get(name, 1))
    elif case.names is not None:
        names = {"metric": case.names.metrics, "route": case.names.routes}.get(what, {})
        shown = names.get(name) or case.names.buckets.get(name, ())
        if feature == "error body":
            shown = tuple(place for places in case.names.error_shapes.values() for place in places)
        for place in shown:
            file, _, line = place.rpartition(":")
            yield Place(file=case.names.paths.get(file, file), line=int(line))
