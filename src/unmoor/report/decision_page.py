"""A decision as one HTML file that needs nothing else: no script, no font, no request."""

from __future__ import annotations

import math
from functools import cache

import jinja2
import msgspec

from unmoor.core.decision import Decision, GateResult
from unmoor.core.evidence import Figure
from unmoor.report.mend_words import MEND_FIRST, mend_lines, mend_note
from unmoor.report.pages import page_environment
from unmoor.report.words import (
    band,
    counts_word,
    headroom_words,
    kind_of,
    name_of,
    number,
    overlap_words,
    shared_caveats,
    sources_of,
    titled,
    unit_of,
)

RATE = "max_rate_at_slo_rps"
_WIDTH, _LEFT, _ROW = 960, 210, 26


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A gridline of the chart."""

    x: float
    label: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One range bar: an engine's layout, from the low to the high end of its rate."""

    label: str
    said: str
    y: float
    x: float
    width: float
    dot_x: float | None
    validated: bool


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Range bars of the highest rate at the SLO, all on one axis from 0; `now_x` is the traffic's own rate."""

    width: int
    height: int
    left: int
    floor: int
    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...]
    now_x: float | None


def render(decision: Decision) -> str:
    """The page, verdict first; everything that came from outside is escaped."""
    template = _environment().get_template("decision.html")
    return template.render(
        decision=decision,
        verdict=decision.verdict,
        mend_title=MEND_FIRST,
        mend_lines=mend_lines(decision),
        mend_note=mend_note(decision),
        chart=chart_of(decision),
        shared=shared_caveats(decision.candidates),
        leaving={candidate.engine: candidate.leaving for candidate in decision.candidates},
    )


@cache
def _environment() -> jinja2.Environment:
    return page_environment(
        {
            "band": band,
            "counts_word": counts_word,
            "gate_word": gate_word,
            "headroom_words": headroom_words,
            "kind_of": kind_of,
            "name_of": name_of,
            "number": number,
            "overlap_words": overlap_words,
            "sources_of": sources_of,
            "titled": titled,
            "unit_of": unit_of,
        }
    )


def gate_word(gate: GateResult) -> str:
    """How a gate stands, in one word: "passes", "fails", or "open" where no fact answers."""
    return {True: "passes", False: "fails", None: "open"}[gate.passed]


def chart_of(decision: Decision) -> Chart:
    """The bars of every layout that has a rate; no rows where none has."""
    bars = [
        (f"{name_of(c.engine)} {figure.detail.split(',')[0]}".strip(), figure)
        for c in decision.candidates
        for figure in c.evidence
        if figure.metric == RATE and _ends(figure) is not None
    ]
    now = decision.traffic.offered_rps
    tops = [ends[1] for _, figure in bars if (ends := _ends(figure))] + ([now] if now else [])
    step = _step(max(tops, default=1.0))
    most = step * math.ceil(max(tops, default=1.0) / step)
    floor = 8 + _ROW * len(bars)

    def x(rate_rps: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 24) * rate_rps / most, 1)

    return Chart(
        width=_WIDTH,
        height=floor + 44,
        left=_LEFT,
        floor=floor,
        rows=tuple(_row(label, figure, n, x(0.0), x(1.0) - x(0.0)) for n, (label, figure) in enumerate(bars)),
        ticks=tuple(Tick(x=x(step * n), label=f"{step * n:g}") for n in range(round(most / step) + 1)),
        now_x=x(now) if now else None,
    )


def _ends(figure: Figure) -> tuple[float, float] | None:
    known = [end for end in (figure.low, figure.value, figure.high) if end is not None]
    return (known[0], known[-1]) if known else None


def _row(label: str, figure: Figure, n: int, zero: float, scale: float) -> Row:
    low, high = _ends(figure) or (0.0, 0.0)
    value = figure.value
    return Row(
        label=label,
        said=f"{number(figure, value)} {band(figure)} {unit_of(figure)}, {kind_of(figure)}".strip(),
        y=4 + _ROW * n,
        x=round(zero + scale * low, 1),
        width=round(max(1.0, scale * (high - low)), 1),
        dot_x=None if value is None else round(zero + scale * value, 1),
        validated=figure.validated,
    )


def _step(top: float) -> float:
    """The distance of gridlines: 1, 2 or 5 times a power of ten, so that about five fit."""
    rough = top / 5
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
