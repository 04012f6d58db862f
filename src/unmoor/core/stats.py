"""Statistics without a domain: quantiles, bootstrap intervals, paired comparison. Randomness is a seed passed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Reduces the last axis of an array: (..., n) -> (...)."""


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A point estimate with a two-sided interval at `confidence`; `n` is the sample's size."""

    value: float
    low: float
    high: float
    n: int
    confidence: float = 0.95

    def excludes(self, point: float) -> bool:
        """Whether `point` lies outside the interval."""
        return point < self.low or point > self.high


def quantile(sample: Sequence[float], q: float) -> float | None:
    """The q-quantile by linear interpolation (Hyndman and Fan type 7, numpy's default); None for an empty sample."""
    return float(np.quantile(np.asarray(sample, dtype=np.float64), q)) if len(sample) else None


def bootstrap(
    sample: Sequence[float],
    statistic: Statistic,
    *,
    seed: int,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> Interval | None:
    """A percentile-bootstrap interval of `statistic`; None for an empty sample.

    Percentile method (Efron 1979): for high quantiles of small samples it is too narrow, since no resample can
    exceed the sample's maximum; callers say how many observations stand behind a tail.
    """
    values = np.asarray(sample, dtype=np.float64)
    if values.size == 0:
        return None
    rng = np.random.default_rng(seed)
    draws = statistic(values[rng.integers(0, values.size, size=(resamples, values.size))])
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    point = float(statistic(values))
    return Interval(value=point, low=float(low), high=float(high), n=int(values.size), confidence=confidence)


def mean_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean over the last axis, as a `Statistic`."""
    return np.asarray(values.mean(axis=-1))


def quantile_of(q: float) -> Statistic:
    """The q-quantile over the last axis, as a `Statistic`."""

    def statistic(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.quantile(values, q, axis=-1))

    return statistic


def paired_difference(
    before: Sequence[float], after: Sequence[float], *, seed: int, confidence: float = 0.95
) -> Interval | None:
    """The mean of after - before over pairs, with a bootstrap interval over pairs; None for no pair.

    Raises ValueError for sequences of unequal length: an unpaired observation has no place here.
    """
    if len(before) != len(after):
        raise ValueError(f"{len(before)} observations before, {len(after)} after")
    difference = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    return bootstrap(difference.tolist(), mean_of, seed=seed, confidence=confidence)


def wilson(successes: int, trials: int, *, z: float = 1.96) -> Interval | None:
    """The Wilson score interval of a share (Wilson 1927), honest for few trials and extreme shares; None for none."""
    if trials == 0:
        return None
    share = successes / trials
    scale = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z * float(np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))) / scale
    # At a share of 0 or 1 the bound equals the share; rounding must not put it on the wrong side.
    low, high = min(share, centre - half), max(share, centre + half)
    return Interval(value=share, low=max(0.0, low), high=min(1.0, high), n=trials)
