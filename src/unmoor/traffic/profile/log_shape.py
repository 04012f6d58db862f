"""The shape of a whole log, from its columns: lengths, arrivals, who ran when."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.log import Real, Traffic, Whole
from unmoor.traffic.profile.report import Arrivals, Bin, Concurrency, Histograms, Lengths, Spread, Stretch
from unmoor.traffic.ranked import quantiles
from unmoor.traffic.running import Running
from unmoor.traffic.scratch import MEMORY, Scratch

_GAPS_FOR_BURSTINESS = 2
_BINS_A_DECADE = 6
_STRETCHES = 48


def token_counts_of(lengths: Whole, scratch: Scratch = MEMORY) -> Lengths:
    """Total, mean, median, 95th percentile and maximum of the lengths that are known; all None where none is."""
    known = _known(lengths, scratch)
    if not len(known):
        return Lengths(total=None, mean=None, p50=None, p95=None, max=None)
    p50, p95 = quantiles(known, (0.5, 0.95))
    return Lengths(
        total=int(known.sum(dtype=np.int64)), mean=float(known.mean()), p50=p50, p95=p95, max=int(known.max())
    )


def _known(lengths: Whole, scratch: Scratch) -> Whole:
    known = lengths >= 0
    return lengths if known.all() else cast("Whole", scratch.kept(lengths, known))


def spread_of(values: Real | Whole) -> Spread | None:
    """Mean, median, 95th percentile and maximum of values of at least 0; None for no value."""
    if not len(values):
        return None
    p50, p95 = quantiles(values, (0.5, 0.95))
    return Spread(mean=float(values.mean()), p50=p50, p95=p95, max=float(values.max()))


def arrivals_of(traffic: Traffic) -> Arrivals:
    """The mean rate, and how bursty; None in both where the log has no times."""
    duration_s = traffic.duration_s
    if not duration_s:
        return Arrivals(rps=None, interarrival_cv=None)
    count = len(traffic) - 1
    bursty = count >= _GAPS_FOR_BURSTINESS
    return Arrivals(rps=count / duration_s, interarrival_cv=_gaps_cv(traffic) if bursty else None)


def _gaps_cv(traffic: Traffic) -> float:
    """The gaps' standard deviation over their mean."""
    count = len(traffic) - 1
    gaps = traffic.scratch.zeros(count, np.float64)
    for some in traffic.scratch.stretches(count):
        gaps[some] = np.diff(traffic.arrival_s[some.start : some.stop + 1])
    mean = gaps.mean()
    for some in traffic.scratch.stretches(count):
        gaps[some] -= mean
        gaps[some] *= gaps[some]
    return math.sqrt(gaps.sum() / count) / float(mean)


def histograms_of(traffic: Traffic) -> Histograms:
    """Prompt and answer lengths in bins of equal ratio."""
    inputs, outputs, scratch = traffic.input_tokens, traffic.output_tokens, traffic.scratch
    return Histograms(input_tokens=histogram(inputs, scratch), output_tokens=histogram(outputs, scratch))


def histogram(lengths: Whole, scratch: Scratch = MEMORY) -> tuple[Bin, ...]:
    """Lengths in six bins a decade, from the first that holds one to the last; a length of 0 counts with those of 1."""
    if not len(lengths) or int(lengths.max()) < 0:
        return ()
    longest = max(int(lengths.max()), 1)
    top = math.ceil(math.log10(longest + 1) * _BINS_A_DECADE)
    edges = np.unique(np.ceil(10 ** (np.arange(top + 1) / _BINS_A_DECADE) - 1e-9).astype(np.int64))
    if edges[-1] <= longest:
        edges = np.append(edges, longest + 1)
    counts = np.zeros(len(edges) - 1, dtype=np.int64)
    for some in scratch.stretches(len(lengths)):
        known = lengths[some][lengths[some] >= 0]
        counts += np.histogram(np.maximum(known, 1), edges)[0]
    held = np.flatnonzero(counts)
    return tuple(
        Bin(low=int(edges[i]), high=int(edges[i + 1]), count=int(counts[i])) for i in range(held[0], held[-1] + 1)
    )


def concurrency_of(traffic: Traffic) -> Concurrency | None:
    """How many requests ran at a time, from the first arrival to the last; None where any request's end is unknown."""
    running = _running(traffic)
    duration_s = traffic.duration_s
    if running is None or not duration_s:
        return None
    return Concurrency(mean=running.mean(0.0, duration_s), peak=running.peak(-math.inf, math.inf))


def stretches_of(traffic: Traffic, count: int = _STRETCHES) -> tuple[Stretch, ...]:
    """The time from the first arrival to the last in `count` equal stretches; empty where that is no time."""
    duration_s = traffic.duration_s
    if not duration_s:
        return ()
    edges = np.linspace(0.0, duration_s, count + 1)
    rows = np.searchsorted(traffic.arrival_s, edges, side="left")
    rows[-1] = len(traffic)  # the last stretch includes its end
    running = _running(traffic)
    made = []
    for i in range(count):
        start_s, end_s = float(edges[i]), float(edges[i + 1])
        made.append(
            Stretch(
                start_s=start_s,
                end_s=end_s,
                requests=int(rows[i + 1] - rows[i]),
                input_tokens=int(np.maximum(traffic.input_tokens[rows[i] : rows[i + 1]], 0).sum(dtype=np.int64)),
                mean_running=None if running is None else running.mean(start_s, end_s),
                peak_running=None if running is None else running.peak(start_s, end_s),
            )
        )
    return tuple(made)


def _running(traffic: Traffic) -> Running | None:
    """None where the log does not say how long every request took."""
    if not traffic.timed or bool(np.isnan(traffic.took_s).any()):
        return None
    scratch = traffic.scratch
    end_s = scratch.zeros(len(traffic), np.float64)
    for some in scratch.stretches(len(traffic)):
        end_s[some] = traffic.arrival_s[some] + traffic.took_s[some]
    return Running(traffic.arrival_s, end_s, scratch=scratch)


def counts_by_code(
    code: NDArray[np.int32], names: int, weights: Whole | None = None, scratch: Scratch = MEMORY
) -> NDArray[np.int64]:
    """For each name, how many rows have it, or the sum of their `weights`, of which those below 0 count as 0."""
    counts = scratch.zeros(names, np.int64)
    for some in scratch.stretches(len(code)):
        named = code[some] >= 0
        np.add.at(counts, code[some][named], 1 if weights is None else np.maximum(weights[some][named], 0))
    return counts
