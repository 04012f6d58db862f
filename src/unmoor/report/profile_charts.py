"""The geometry of a log's plots: bars and lines as numbers that a template draws as SVG, with labelled axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from unmoor.report.profile_words import rate_words, seconds, tokens_short
from unmoor.report.words import name_of
from unmoor.traffic.profile.report import Bin, CurvePoint, Stretch, TrafficReport

WIDTH, HEIGHT = 480, 240
_LEFT, _RIGHT, _TOP, _FLOOR = 52, 26, 12, 196


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A tick of an axis, at `at` pixels along it."""

    at: float
    label: str


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """A bar, and what it says to who cannot see it."""

    x: float
    y: float
    width: float
    height: float
    said: str


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A line as SVG points, the band around it where its height is not known, and dots at capacities asked for.

    `style` numbers its colour and dashes, from 0.
    """

    label: str
    style: int
    points: str
    band: str
    dots: tuple[tuple[float, float, str], ...]


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """One plot: its axes with their units, its bars or its lines."""

    title: str
    x_label: str
    y_label: str
    x_marks: tuple[Mark, ...]
    y_marks: tuple[Mark, ...]
    boxes: tuple[Box, ...] = ()
    traces: tuple[Trace, ...] = ()
    left: float = _LEFT
    right: float = WIDTH - _RIGHT
    top: float = _TOP
    floor: float = _FLOOR
    width: float = WIDTH
    height: float = HEIGHT

    @property
    def said(self) -> str:
        """The plot in words."""
        bars = "; ".join(box.said for box in self.boxes)
        dots = "; ".join(f"{trace.label} {dot[2]}" for trace in self.traces for dot in trace.dots)
        return bars or dots


def histogram(bins: Sequence[Bin], title: str) -> Plot | None:
    """Lengths on a log axis; None for no length."""
    if not bins:
        return None
    low, high = math.log10(bins[0].low), math.log10(bins[-1].high)
    top, step = _round_top(max(bar.count for bar in bins))

    def x(tokens: float) -> float:
        return _LEFT + (WIDTH - _RIGHT - _LEFT) * (math.log10(tokens) - low) / (high - low)

    boxes = []
    for bar in bins:
        height = (_FLOOR - _TOP) * bar.count / top
        box = Box(
            x=round(x(bar.low), 1),
            y=round(_FLOOR - height, 1),
            width=round(max(0.5, x(bar.high) - x(bar.low) - 1), 1),
            height=round(height, 1),
            said=f"{bar.low:,} to {bar.high - 1:,} tokens: {bar.count:,}",
        )
        boxes.append(box)
    return Plot(
        title=title,
        x_label="tokens, log scale",
        y_label="requests",
        x_marks=tuple(Mark(at=round(x(at), 1), label=tokens_short(at)) for at in _decades(bins[0].low, bins[-1].high)),
        y_marks=_y_marks(top, step, tokens_short),
        boxes=tuple(boxes),
    )


def arrivals(stretches: Sequence[Stretch]) -> Plot | None:
    """Requests per second over time; None without times."""
    if not stretches:
        return None
    rates = [stretch.requests / (stretch.end_s - stretch.start_s) for stretch in stretches]
    top, step = _round_top(max(rates))
    boxes = [
        _box_of(stretch, stretches[-1].end_s, rate / top, f"{rate:.3g} requests/s")
        for stretch, rate in zip(stretches, rates, strict=True)
    ]
    marks = _y_marks(top, step, tokens_short)
    return _plot_over_time(stretches[-1].end_s, "Arrivals", "requests/s", marks, boxes=tuple(boxes))


def concurrency(stretches: Sequence[Stretch]) -> Plot | None:
    """Requests that run at a time, mean and peak of each stretch; None where the log does not say."""
    known = [s for s in stretches if s.mean_running is not None and s.peak_running is not None]
    if not known or len(known) < len(stretches):
        return None
    top, step = _round_top(max(s.peak_running or 0 for s in known))
    traces = []
    for style, (label, values) in enumerate(
        (("peak", [float(s.peak_running or 0) for s in known]), ("mean", [s.mean_running or 0.0 for s in known]))
    ):
        dots = [
            (_x_time((s.start_s + s.end_s) / 2, known[-1].end_s), _y(value / top))
            for s, value in zip(known, values, strict=True)
        ]
        traces.append(Trace(label=label, style=style, points=_svg(dots), band="", dots=()))
    marks = _y_marks(top, step, tokens_short)
    return _plot_over_time(known[-1].end_s, "Concurrency", "requests running", marks, traces=tuple(traces))


def served(report: TrafficReport) -> Plot | None:
    """The hit rate over time with concurrency, and what was still being computed; None without times or content."""
    timeline = report.timeline
    windows = timeline.windows if timeline else ()
    lines = (("served", [w.hit_rate for w in windows]), ("still being computed", [w.still_computing for w in windows]))
    highest = max((share for _, shares in lines for share in shares if share is not None), default=0.0)
    if timeline is None or not highest:
        return None
    top, step = _round_top(highest)
    traces = []
    for style, (label, shares) in enumerate(reversed(lines)):
        dots = [
            (round(_x_time((w.start_s + w.end_s) / 2, windows[-1].end_s), 1), _y(share / top))
            for w, share in zip(windows, shares, strict=True)
            if share is not None
        ]
        traces.append(Trace(label=label, style=style, points=_svg(dots), band="", dots=()))
    return _plot_over_time(
        windows[-1].end_s,
        f"Served from {tokens_short(timeline.kv_tokens)} tokens of KV",
        "share of prompt tokens",
        _y_marks(top, step, _per_cent),
        traces=tuple(traces),
    )


def _per_cent(share: float) -> str:
    return f"{share * 100:.3g} %"


def hit_curves(report: TrafficReport, curves: Mapping[str, Sequence[CurvePoint]]) -> Plot | None:
    """Hit rate against KV capacity on a log axis, dots at the report's capacities; None for no curve."""
    if not curves:
        return None
    ends = [point.kv_tokens for point in curves[""]]
    low, high = math.log10(ends[0]), math.log10(ends[-1])
    most = max((point.high or 0.0 for curve in curves.values() for point in curve), default=0.0)
    top, step = _round_top(most or 0.01)

    def at(point: CurvePoint, height: float) -> tuple[float, float]:
        x = _LEFT + (WIDTH - _RIGHT - _LEFT) * (math.log10(point.kv_tokens) - low) / (high - low)
        return round(x, 1), _y(height / top)

    traces = []
    # An engine that reuses prefixes only when told to is in the table, and not in the way here.
    drawn = [name for name in curves if name not in report.engines or report.engines[name].prefix_caching]
    for style, name in enumerate(drawn):
        reuse, curve = report.engines.get(name), curves[name]
        label = f"{name_of(name)}, blocks of {reuse.block_tokens}" if reuse else _own_label(report)
        asked = reuse.hit_rate_curve if reuse else report.hit_rate_curve
        lows = [at(point, point.low or 0.0) for point in curve]
        highs = [at(point, point.high or 0.0) for point in curve]
        exact = all(point.hit_rate is not None for point in curve)
        dots = tuple((*at(p, p.low or 0.0), f"at {tokens_short(p.kv_tokens)}: {rate_words(p)}") for p in asked)
        traces.append(
            Trace(
                label=label,
                style=style,
                points=_svg(lows),
                band="" if exact else _svg([*lows, *reversed(highs)]),
                dots=dots,
            )
        )
    marks = [10**power for power in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)]
    marks = marks if len(marks) > 1 else [ends[0], ends[-1]]
    scale = (WIDTH - _RIGHT - _LEFT) / (high - low)
    return Plot(
        title="Hit rate against KV capacity",
        x_label="KV capacity of a replica, tokens (log)",
        y_label="share of prompt tokens",
        x_marks=tuple(
            Mark(at=round(_LEFT + scale * (math.log10(at) - low), 1), label=tokens_short(at)) for at in marks
        ),
        y_marks=_y_marks(top, step, _per_cent),
        traces=tuple(traces),
    )


def _own_label(report: TrafficReport) -> str:
    if not _is_own(report):
        return f"blocks of {report.curve_block_tokens}, as asked for"
    return (
        "token by token" if report.curve_block_tokens == 1 else f"blocks of {report.curve_block_tokens}, the log's own"
    )


def _is_own(report: TrafficReport) -> bool:
    return report.grain is not None and report.curve_block_tokens == report.grain.tokens


def _plot_over_time(
    end_s: float,
    title: str,
    y_label: str,
    y_marks: tuple[Mark, ...],
    *,
    boxes: tuple[Box, ...] = (),
    traces: tuple[Trace, ...] = (),
) -> Plot:
    unit_s, unit = next((u for u in _TIME_UNITS if end_s >= 2 * u[0]), (1.0, "seconds"))
    step = _round_top(end_s / unit_s)[1]
    marks = [n * step for n in range(math.floor(end_s / unit_s / step + 1e-9) + 1)]
    return Plot(
        title=title,
        x_label=f"{unit} from the first request",
        y_label=y_label,
        x_marks=tuple(Mark(at=round(_x_time(at * unit_s, end_s), 1), label=f"{at:g}") for at in marks),
        y_marks=y_marks,
        boxes=boxes,
        traces=traces,
    )


_TIME_UNITS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))


def _box_of(stretch: Stretch, end_s: float, share: float, said: str) -> Box:
    x, right = _x_time(stretch.start_s, end_s), _x_time(stretch.end_s, end_s)
    return Box(
        x=round(x, 1),
        y=_y(share),
        width=round(max(0.5, right - x - 1), 1),
        height=round(_FLOOR - _y(share), 1),
        said=f"from {seconds(stretch.start_s)}: {said}",
    )


def _x_time(at_s: float, end_s: float) -> float:
    return _LEFT + (WIDTH - _RIGHT - _LEFT) * at_s / end_s


def _y(share: float) -> float:
    return round(_FLOOR - (_FLOOR - _TOP) * share, 1)


def _svg(dots: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in dots)


def _y_marks(top: float, step: float, said: Callable[[float], str]) -> tuple[Mark, ...]:
    return tuple(Mark(at=_y(n * step / top), label=said(n * step)) for n in range(round(top / step) + 1))


def _decades(low: int, high: int) -> list[int]:
    """Powers of ten within a span; its ends where it has fewer than two."""
    inside = [10**power for power in range(len(str(high)) + 1) if low <= 10**power <= high]
    return inside if len(inside) > 1 else [low, high]


def _round_top(most: float) -> tuple[float, float]:
    """The least round number of gridlines' steps that holds `most`, and the step: about four of 1, 2 or 5 tens."""
    if most <= 0:
        return 1.0, 1.0
    rough = most / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    return step * math.ceil(most / step - 1e-9), step
