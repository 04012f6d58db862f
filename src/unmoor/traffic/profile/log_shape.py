"""The shape of a whole log, from its columns: lengths, arrivals, who ran when."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.log import Real, Traffic, Whole
from unmoor.traffic.profile.report import Arrivals, Bin, Concurrency, Histograms, Lengths, Spread, Stretch
from unmoor.traffic.running import Running

_GAPS_FOR_BURSTINESS = 2
_BINS_A_DECADE = 6
_STRETCHES = 48


def token_counts_of(lengths: Whole) -> Lengths:
    """Total, mean, median, 95th percentile and maximum of the lengths that are known; all None where none is."""
    known = lengths[lengths >= 0]
    if not len(known):
        return Lengths(total=None, mean=None, p50=None, p95=None, max=None)
    p50, p95 = np.quantile(known, (0.5, 0.95))
    return Lengths(
        total=int(known.sum()), mean=float(known.mean()), p50=float(p50), p95=float(p95), max=int(known.max())
    )


def spread_of(values: Real | Whole) -> Spread | None:
    """Mean, median, 95th percentile and maximum; None for no value."""
    if not len(values):
        return None
    p50, p95 = np.quantile(values, (0.5, 0.95))
    return Spread(mean=float(values.mean()), p50=float(p50), p95=float(p95), max=float(values.max()))


def arrivals_of(traffic: Traffic) -> Arrivals:
    """The mean rate, and how bursty; None in both where the log has no times."""
    duration_s = traffic.duration_s
    if not duration_s:
        return Arrivals(rps=None, interarrival_cv=None)
    gaps = np.diff(traffic.arrival_s)
    bursty = len(gaps) >= _GAPS_FOR_BURSTINESS
    return Arrivals(rps=len(gaps) / duration_s, interarrival_cv=float(gaps.std() / gaps.mean()) if bursty else None)


def histograms_of(traffic: Traffic) -> Histograms:
    """Prompt and answer lengths in bins of equal ratio."""
    return Histograms(input_tokens=histogram(traffic.input_tokens), output_tokens=histogram(traffic.output_tokens))


def histogram(lengths: Whole) -> tuple[Bin, ...]:
    """Lengths in six bins a decade, from the first that holds one to the last; a length of 0 counts with those of 1."""
    known = np.maximum(lengths[lengths >= 0], 1)
    if not len(known):
        return ()
    top = math.ceil(math.log10(int(known.max()) + 1) * _BINS_A_DECADE)
    edges = np.unique(np.ceil(10 ** (np.arange(top + 1) / _BINS_A_DECADE) - 1e-9).astype(np.int64))
    if edges[-1] <= known.max():
        edges = np.append(edges, known.max() + 1)
    counts = np.histogram(known, edges)[0]
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
    tokens = np.concatenate(([0], np.cumsum(np.maximum(traffic.input_tokens, 0))))
    running = _running(traffic)
    made = []
    for i in range(count):
        start_s, end_s = float(edges[i]), float(edges[i + 1])
        made.append(
            Stretch(
                start_s=start_s,
                end_s=end_s,
                requests=int(rows[i + 1] - rows[i]),
                input_tokens=int(tokens[rows[i + 1]] - tokens[rows[i]]),
                mean_running=None if running is None else running.mean(start_s, end_s),
                peak_running=None if running is None else running.peak(start_s, end_s),
            )
        )
    return tuple(made)


def _running(traffic: Traffic) -> Running | None:
    """None where the log does not say how long every request took."""
    if not traffic.timed or bool(np.isnan(traffic.took_s).any()):
        return None
    return Running(traffic.arrival_s, traffic.arrival_s + traffic.took_s)


def counts_by_code(code: NDArray[np.int32], names: int, weights: Whole | None = None) -> Whole:
    """For each name, how many rows have it, or the sum of their `weights`."""
    named = code >= 0
    if weights is None:
        return np.bincount(code[named], minlength=names).astype(np.int64)
    # Sums of floats are exact up to 2**53 tokens, which no log reaches.
    return np.bincount(code[named], weights=weights[named], minlength=names).astype(np.int64)
