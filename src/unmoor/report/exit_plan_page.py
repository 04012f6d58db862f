"""An exit plan as one HTML file that needs nothing else: no script, no font, no request."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache

import jinja2

from unmoor.leave.exit_plan.exit_plan import ExitPlan
from unmoor.leave.finding import Kind
from unmoor.report import exit_plan_words
from unmoor.report.move_page import outcome_class
from unmoor.report.move_words import features_words, requests_words, source_words
from unmoor.report.pages import page_environment


def render(plan: ExitPlan, kinds: Mapping[str, Kind]) -> str:
    """The page, what is open first. Everything from outside is escaped. `kinds` are those of findings, by id."""
    template = _environment().get_template("exit_plan.html")
    return template.render(plan=plan, kinds=kinds, sides=(plan.serves, *plan.others))


@cache
def _environment() -> jinja2.Environment:
    environment = page_environment(
        {
            "features_words": features_words,
            "outcome_class": outcome_class,
            "requests_words": requests_words,
            "source_words": source_words,
            "shell_words": shlex.join,
        }
    )
    environment.globals["words"] = exit_plan_words
    return environment
