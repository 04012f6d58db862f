"""A check of a move as SARIF 2.1.0, for code scanning: one result a finding, at the first line of the log it concerns.

OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unmoor.leave.finding import Finding, Kind, MoveReport, Severity

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MOST_RELATED = 100
"""So many further lines are named in a result."""

_LEVELS: Mapping[Severity, str] = {"error": "error", "warning": "warning", "note": "note"}


def render(report: MoveReport, kinds: Mapping[str, Kind], *, version: str, traffic_uri: str) -> dict[str, Any]:
    """The log of one run; `traffic_uri` names the recorded traffic, percent-encoded.

    Findings that concern no request stand at its first line: code scanning needs a place.
    """
    used = list(dict.fromkeys(finding.kind for finding in report.findings))
    rules = [_rule(kinds[kind]) for kind in used]
    driver = {"name": "unmoor", "version": version, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "results": [_result(finding, used.index(finding.kind), traffic_uri) for finding in report.findings],
        "columnKind": "utf16CodeUnits",
        "properties": {
            "from": f"{report.source_engine}@{report.source_version}",
            "to": f"{report.target_engine}@{report.target_version}",
            "requests": report.requests,
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(kind: Kind) -> dict[str, Any]:
    return {
        "id": kind.id,
        "name": "".join(word.capitalize() for word in kind.name.split("-")),
        "shortDescription": {"text": kind.title},
        "fullDescription": {"text": kind.bites},
        "help": {"text": f"{kind.bites}\n\nHow it is found: {kind.look}\n\nWhat to do: {kind.mend}"},
    }


def _result(finding: Finding, rule: int, traffic: str) -> dict[str, Any]:
    first, *rest = finding.lines or (1,)
    result: dict[str, Any] = {
        "ruleId": finding.kind,
        "ruleIndex": rule,
        "level": "note" if finding.outcome == "same" else _LEVELS[finding.severity],
        "message": {"text": f"{', '.join(finding.features)}: {finding.seen} Fix: {finding.fix}"},
        "locations": [_location(traffic, first)],
        "properties": {"outcome": finding.outcome, "requests": finding.requests, "by": finding.by},
    }
    if rest:
        result["relatedLocations"] = [_location(traffic, line) for line in rest[:MOST_RELATED]]
    return result


def _location(traffic: str, line: int) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": traffic}, "region": {"startLine": line}}}
