"""A log's report as one HTML file that needs nothing else: no script, no font, no request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import jinja2

from unmoor.report.pages import page_environment
from unmoor.report.profile_bars import prefix_bars, replica_bars
from unmoor.report.profile_charts import arrivals, concurrency, histogram, hit_curves, served
from unmoor.report.profile_words import (
    arrivals_words,
    asks_words,
    breaker_title,
    breaker_words,
    breakers_scope,
    expected_words,
    next_steps,
    overlap_sentence,
    percent,
    rate_words,
    sessions_words,
    size_words,
    timeline_words,
    tokens_short,
)
from unmoor.report.words import name_of
from unmoor.traffic.profile.report import CurvePoint, TrafficReport


def render(report: TrafficReport, curves: Mapping[str, Sequence[CurvePoint]]) -> str:
    """The page, overlap first; `curves` are those of `dense_curves`. Everything from outside is escaped."""
    lengths = report.lengths
    return (
        _environment()
        .get_template("profile.html")
        .render(
            report=report,
            histograms=_there(histogram(lengths.input_tokens, "Prompts"), histogram(lengths.output_tokens, "Answers")),
            over_time=_there(arrivals(report.over_time), concurrency(report.over_time), served(report)),
            curve=hit_curves(report, curves),
            replicas=replica_bars(report.replicas),
            prefixes=prefix_bars(report),
        )
    )


def _there(*plots: object) -> list[object]:
    return [plot for plot in plots if plot is not None]


@cache
def _environment() -> jinja2.Environment:
    return page_environment(
        {
            "arrivals_words": arrivals_words,
            "asks_words": asks_words,
            "breaker_title": breaker_title,
            "breaker_words": breaker_words,
            "breakers_scope": breakers_scope,
            "expected_words": expected_words,
            "name_of": name_of,
            "next_steps": next_steps,
            "overlap_sentence": overlap_sentence,
            "percent": percent,
            "rate_words": rate_words,
            "sessions_words": sessions_words,
            "size_words": size_words,
            "timeline_words": timeline_words,
            "tokens_short": tokens_short,
        }
    )
