"""A check of a model as one HTML file that needs nothing else: no script, no font, no request."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import jinja2

from unmoor.leave.check_model import ModelReport
from unmoor.leave.checkpoint.bounded import shown
from unmoor.leave.checkpoint.support import Loads
from unmoor.leave.finding import Kind
from unmoor.report.model_facts import SERVES, model_facts, traits_words
from unmoor.report.model_words import (
    engine_words,
    kv_scales_todo,
    moves,
    notes_words,
    nothing_lost,
    places_words,
    rows,
    summary,
)
from unmoor.report.move_page import severity_class
from unmoor.report.pages import page_environment

_CLASSES: Mapping[Loads, str] = {"native": "passes", "fallback": "open", "refused": "fails", "unknown": "soft"}


def render(report: ModelReport, kinds: Mapping[str, Kind]) -> str:
    """The page. Everything from outside is escaped."""
    return (
        _environment()
        .get_template("model.html")
        .render(
            report=report,
            kinds=kinds,
            looked_at={one.hardware for one in report.verdicts},
            rows=rows(report.verdicts),
            moves=moves(report),
            kv_scales=kv_scales_todo(report),
        )
    )


def loads_class(loads: Loads) -> str:
    """The page's class for an answer."""
    return _CLASSES[loads]


@cache
def _environment() -> jinja2.Environment:
    environment = page_environment(
        {
            "engine_words": engine_words,
            "loads_class": loads_class,
            "model_facts": model_facts,
            "notes_words": notes_words,
            "places_words": places_words,
            "severity_class": severity_class,
            "shown": shown,
            "nothing_lost": nothing_lost,
            "summary": summary,
            "traits_words": traits_words,
        }
    )
    environment.globals["serves"] = SERVES
    return environment
