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
    results = [_result(finding, used.index(finding.kind), traffic_uri) for finding in report.findings]
    properties = {
        "from": f"{report.source_engine}@{report.source_version}",
        "to": f"{report.target_engine}@{report.target_version}",
        "requests": report.requests,
    }
    return log([rule(kinds[kind]) for kind in used], results, version=version, properties=properties)


def log(
    rules: list[dict[str, Any]], results: list[dict[str, Any]], *, version: str, properties: Mapping[str, object]
) -> dict[str, Any]:
    """A whole log with one run of this tool."""
    run = {
        "tool": {"driver": {"name": "unmoor", "version": version, "rules": rules}},
        "results": results,
        "columnKind": "utf16CodeUnits",
        "properties": dict(properties),
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def rule(kind: Kind) -> dict[str, Any]:
    """What code scanning shows of a kind of finding."""
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
        "level": level(finding),
        "message": {"text": f"{', '.join(finding.features)}: {finding.seen} Fix: {finding.fix}"},
        "locations": [location(traffic, first)],
        "properties": {"outcome": finding.outcome, "requests": finding.requests, "by": finding.by},
    }
    if rest:
        result["relatedLocations"] = [location(traffic, line) for line in rest[:MOST_RELATED]]
    return result


def level(finding: Finding) -> str:
    """The finding's severity as SARIF says it."""
    return "note" if finding.outcome == "same" else _LEVELS[finding.severity]


def location(uri: str, line: int = 1) -> dict[str, Any]:
    """A line of a file; `uri` is percent-encoded. Code scanning needs a line, of files without lines too."""
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}
