"""A bake-off as one HTML file that needs nothing else: no script, no font, no request."""

from __future__ import annotations

import math
from functools import cache

import jinja2
import msgspec

from unmoor.bakeoff.result import BakeoffResult, EngineReport
from unmoor.core.evidence import Figure
from unmoor.report.pages import page_environment
from unmoor.report.run_words import (
    cell_of,
    compared_of,
    figure_row,
    finding_class,
    head_of,
    mark_of,
    state_of,
    traffic_of,
)

CHARTED = ("scheduled_ttft_p95_s", "scheduled_e2e_mean_s", "slo_attainment")
_WIDTH, _LEFT, _ROW, _TOP = 960, 300, 26, 8


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One setting's interval, and its value inside; `open_end` where failures leave it without an upper end."""

    label: str
    said: str
    y: float
    x: float
    width: float
    dot_x: float | None
    open_end: bool


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of one metric for every setting of an engine, on one axis from 0."""

    title: str
    width: int
    height: int
    left: int
    floor: int
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]


def render(result: BakeoffResult) -> str:
    """The page, verdict first; everything that came from outside is escaped."""
    charts = [(engine, [chart for m in CHARTED if (chart := chart_of(engine, m)).bars]) for engine in result.engines]
    return _environment().get_template("run.html").render(result=result, engines=charts)


@cache
def _environment() -> jinja2.Environment:
    return page_environment(
        {
            "cell_of": cell_of,
            "compared_of": compared_of,
            "figure_row": figure_row,
            "finding_class": finding_class,
            "mark_of": mark_of,
            "state_of": state_of,
            "traffic_of": traffic_of,
        }
    )


def chart_of(engine: EngineReport, metric: str) -> Chart:
    """The intervals of `metric`; no bars where no setting has it."""
    figures = [(trial.name, figure) for trial in engine.trials if (figure := trial.figure(metric)) is not None]
    scale = {"s": 1000.0, "1": 100.0}.get(figures[0][1].unit, 1.0) if figures else 1.0
    tops = [end * scale for _, figure in figures for end in (figure.low, figure.value, figure.high) if end is not None]
    step = _step(max(tops, default=1.0))
    most = step * max(1, math.ceil(max(tops, default=1.0) / step))
    floor = _TOP + _ROW * len(figures)
    per_unit = (_WIDTH - _LEFT - 24) / most
    return Chart(
        title=head_of(metric),
        width=_WIDTH,
        height=floor + 28,
        left=_LEFT,
        floor=floor,
        bars=tuple(
            _bar(label, figure, place, per_unit=per_unit * scale) for place, (label, figure) in enumerate(figures)
        ),
        ticks=tuple((round(_LEFT + per_unit * step * n, 1), f"{step * n:g}") for n in range(round(most / step) + 1)),
    )


def _bar(label: str, figure: Figure, place: int, *, per_unit: float) -> Bar:
    end_x = float(_WIDTH - 24)

    def x(value: float) -> float:
        return round(_LEFT + per_unit * value, 1)

    low = end_x if figure.low is None else x(figure.low)
    high = end_x if figure.high is None else x(figure.high)
    return Bar(
        label=label,
        said=cell_of(figure),
        y=float(_TOP + _ROW * place),
        x=low,
        width=max(1.0, round(high - low, 1)),
        dot_x=None if figure.value is None else x(figure.value),
        open_end=figure.high is None,
    )


def _step(top: float) -> float:
    """The distance of gridlines: 1, 2 or 5 times a power of ten, so that about five fit."""
    rough = top / 5
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
