"""A check of a move as one HTML file that needs nothing else: no script, no font, no request."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import jinja2

from unmoor.leave.finding import FeatureOutcome, Finding, Kind, MoveReport
from unmoor.report.move_words import (
    OUTCOME_TITLES,
    features_words,
    requests_words,
    source_words,
    start_lines,
    title,
    verdict,
)
from unmoor.report.pages import page_environment

_CLASSES: Mapping[FeatureOutcome, str] = {"lost": "fails", "translated": "open", "unknown": "open", "same": "passes"}


def render(report: MoveReport, kinds: Mapping[str, Kind]) -> str:
    """The page, what is lost first. Everything from outside is escaped."""
    groups = [(outcome, [one for one in report.findings if one.outcome == outcome]) for outcome in OUTCOME_TITLES]
    shown = [(outcome, found) for outcome, found in groups if found]
    return _environment().get_template("move.html").render(report=report, kinds=kinds, groups=shown)


def outcome_class(outcome: FeatureOutcome) -> str:
    """The page's class for an outcome."""
    return _CLASSES[outcome]


def severity_class(finding: Finding) -> str:
    """The page's class for a finding's severity."""
    return {"error": "fails", "warning": "open"}.get(finding.severity, "soft")


@cache
def _environment() -> jinja2.Environment:
    environment = page_environment(
        {
            "features_words": features_words,
            "outcome_class": outcome_class,
            "requests_words": requests_words,
            "severity_class": severity_class,
            "source_words": source_words,
            "start_lines": start_lines,
            "title": title,
            "verdict": verdict,
        }
    )
    environment.globals["outcome_titles"] = OUTCOME_TITLES
    return environment
