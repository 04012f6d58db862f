"""An exit plan as one HTML file that needs nothing else: no script, no font, no request."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache

import jinja2

from unmoor.leave.exit_plan.exit_plan import ExitPlan
from unmoor.leave.finding import Kind
from unmoor.report.exit_plan_words import (
    NOT_RECORDED,
    by_kind,
    cost_words,
    doubts,
    fact_words,
    format_words,
    hardware_notes,
    hash_words,
    loads_class,
    loads_words,
    move_words,
    place_words,
    serves_words,
    size_words,
    stale_words,
    step_words,
    subject_words,
    surface_sources,
    there_words,
    unknown_subjects,
    way_out_words,
)
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
            "by_kind": by_kind,
            "cost_words": cost_words,
            "doubts": doubts,
            "fact_words": fact_words,
            "features_words": features_words,
            "format_words": format_words,
            "hardware_notes": hardware_notes,
            "hash_words": hash_words,
            "loads_class": loads_class,
            "loads_words": loads_words,
            "move_words": move_words,
            "outcome_class": outcome_class,
            "place_words": place_words,
            "requests_words": requests_words,
            "serves_words": serves_words,
            "size_words": size_words,
            "source_words": source_words,
            "shell_words": shlex.join,
            "stale_words": stale_words,
            "step_words": step_words,
            "subject_words": subject_words,
            "surface_sources": surface_sources,
            "there_words": there_words,
            "unknown_subjects": unknown_subjects,
            "way_out_words": way_out_words,
        }
    )
    environment.globals["not_recorded"] = NOT_RECORDED
    return environment
