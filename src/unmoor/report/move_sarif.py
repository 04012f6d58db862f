"""A check of a move as SARIF 2.1.0, for code scanning: a result for each finding, at the first line it concerns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unmoor.leave.finding import Kind, MoveReport
from unmoor.report.sarif import MOST_RELATED, location, log


def render(report: MoveReport, kinds: Mapping[str, Kind], *, version: str, traffic_uri: str) -> dict[str, Any]:
    """The log of one run; `traffic_uri` names the recorded traffic, percent-encoded.

    Findings that concern no request stand at its first line: code scanning needs a place.
    """
    properties = {
        "from": f"{report.source_engine}@{report.source_version}",
        "to": f"{report.target_engine}@{report.target_version}",
        "requests": report.requests,
    }
    return log(
        report.findings,
        kinds,
        lambda finding: [location(traffic_uri, line) for line in (finding.lines or (1,))[: MOST_RELATED + 1]],
        version=version,
        properties=properties,
    )
