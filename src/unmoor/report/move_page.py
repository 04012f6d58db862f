"""A check of a move as one HTML file that needs nothing else: no script, no font, no request."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import jinja2

from unmoor.leave.finding import FeatureOutcome, Finding, Kind, MoveReport
from unmoor.report.move_words import (
    excerpt_lines,
    features_words,
    requests_words,
    sections,
    source_words,
    start_lines,
    title,
    verdict,
)
from unmoor.report.pages import page_environment

_CLASSES: Mapping[FeatureOutcome, str] = {"lost": "fails", "translated": "open", "unknown": "open", "same": "passes"}


def render(report: MoveReport, kinds: Mapping[str, Kind]) -> str:
    """The page, in the order of the text. Everything from outside is escaped."""
    return _environment().get_template("move.html").render(report=report, kinds=kinds, sections=sections(report))


def outcome_class(outcome: FeatureOutcome) -> str:
    """The page's class for an outcome."""
    return _CLASSES[outcome]


def severity_class(finding: Finding) -> str:
    """The page's class for a finding's severity."""
    return {"error": "fails", "warning": "open"}.get(finding.severity, "soft")


@cache
def _environment() -> jinja2.Environment:
    return page_environment(
        {
            "excerpt_lines": excerpt_lines,
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
