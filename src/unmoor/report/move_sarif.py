"""A check of a move as SARIF 2.1.0, for code scanning: a result for each finding, at the first line it concerns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unmoor.leave.finding import Finding, Kind, MoveReport
from unmoor.report.move_words import TODAY, section
from unmoor.report.sarif import MOST_RELATED, location, log


def render(report: MoveReport, kinds: Mapping[str, Kind], *, version: str, uri: Callable[[str], str]) -> dict[str, Any]:
    """The log of one run; `uri` makes a percent-encoded address of a file's name.

    A finding about requests stands at their lines of the log, one about the start, a dashboard or the model's files
    there; one without any place at the first line of the log, or of the first file that any finding names: code
    scanning needs a place. Each result says under which heading of the text it stands, as its property `section`.
    """
    first = report.traffic or next((one.places[0].file for one in report.findings if one.places), "traffic")

    def places(finding: Finding) -> list[dict[str, Any]]:
        if finding.places:
            return [location(uri(place.file), place.line) for place in finding.places[: MOST_RELATED + 1]]
        return [location(uri(first), line) for line in (finding.lines or (1,))[: MOST_RELATED + 1]]

    properties = {
        "from": f"{report.source_engine}@{report.source_version}",
        "to": f"{report.target_engine}@{report.target_version}",
        "requests": report.requests,
    }
    written = log(report.findings, kinds, places, version=version, properties=properties)
    for result, finding in zip(written["runs"][0]["results"], report.findings, strict=True):
        result["properties"]["section"] = section(finding)
        if finding.kind == TODAY:
            result["level"] = finding.severity  # a constraint that vanishes today is no note, the same or not
    return written
