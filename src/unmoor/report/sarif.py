"""Findings as SARIF 2.1.0, for code scanning: what the logs of every check share.

OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from unmoor.leave.finding import Finding, Kind, Severity

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MOST_RELATED = 100
"""So many further places are named in a result."""

_FINGERPRINTS = ("unmoorFinding/v1", "primaryLocationLineHash")
"""Ours, and the only one that GitHub's code scanning reads ("SARIF support for code scanning", read 2026-12-01)."""

_LEVELS: Mapping[Severity, str] = {"error": "error", "warning": "warning", "note": "note"}


def log(
    findings: Sequence[Finding],
    kinds: Mapping[str, Kind],
    places: Callable[[Finding], Sequence[Mapping[str, Any]]],
    *,
    version: str,
    properties: Mapping[str, object],
) -> dict[str, Any]:
    """A whole log with one run of this tool, one result a finding; `places` has its locations, the main one first."""
    used = list(dict.fromkeys(finding.kind for finding in findings))
    run = {
        "tool": {"driver": {"name": "unmoor", "version": version, "rules": [_rule(kinds[kind]) for kind in used]}},
        "results": [
            _result(finding, used.index(finding.kind), places(finding), fingerprint)
            for finding, fingerprint in zip(findings, _fingerprints(findings), strict=True)
        ],
        "columnKind": "utf16CodeUnits",
        "properties": dict(properties),
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def location(uri: str, line: int = 1) -> dict[str, Any]:
    """A line of a file; `uri` is percent-encoded. Code scanning needs a line, of files without lines too."""
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}


def _rule(kind: Kind) -> dict[str, Any]:
    return {
        "id": kind.id,
        "name": "".join(word.capitalize() for word in kind.name.split("-")),
        "shortDescription": {"text": kind.title},
        "fullDescription": {"text": kind.bites},
        "help": {"text": f"{kind.bites}\n\nHow it is found: {kind.look}\n\nWhat to do: {kind.mend}"},
    }


def _result(finding: Finding, rule: int, places: Sequence[Mapping[str, Any]], fingerprint: str) -> dict[str, Any]:
    first, *rest = places
    result: dict[str, Any] = {
        "ruleId": finding.kind,
        "ruleIndex": rule,
        "level": "note" if finding.outcome == "same" else _LEVELS[finding.severity],
        "message": {"text": f"{', '.join(finding.features)}: {finding.seen} Fix: {finding.fix}"},
        "locations": [first],
        "partialFingerprints": dict.fromkeys(_FINGERPRINTS, fingerprint),
        "properties": {"outcome": finding.outcome, "requests": finding.requests, "by": finding.by},
    }
    if rest:
        result["relatedLocations"] = rest[:MOST_RELATED]
    return result


def _fingerprints(findings: Sequence[Finding]) -> Iterator[str]:
    """What tells that a finding of another run is this one: its kind, features and file, hashed, and which of such.

    No line, no number of requests and no words: with other traffic, or another version of Unmoor, it stays the same.
    """
    met: Counter[str] = Counter()
    for finding in findings:
        about = "\0".join((finding.kind, *finding.features, "", finding.file))
        fingerprint = hashlib.sha256(about.encode()).hexdigest()[:16]
        met[fingerprint] += 1
        yield f"{fingerprint}:{met[fingerprint]}"
