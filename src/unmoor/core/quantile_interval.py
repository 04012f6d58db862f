"""Intervals of quantiles without a distribution: two of the sample's own values between which the quantile lies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.core.stats import quantile


class QuantileInterval(msgspec.Struct, frozen=True, kw_only=True):
    """A quantile of a sample of `n`, and the bounds between which the true one lies with `confidence`.

    A bound is None where the sample is too small to have one on that side. `high_is_max` says that the upper bound is
    the largest value seen: one more observation could move it anywhere.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    confidence: float = 0.95
    high_is_max: bool = False


def quantile_interval(sample: Sequence[float], q: float, *, confidence: float = 0.95) -> QuantileInterval | None:
    """The q-quantile, 0 < q < 1, bounded by order statistics; None for an empty sample.

    How many observations lie below the true quantile is binomial (n, q) whatever they are distributed like, so the
    bounds hold at `confidence` at least, each side at half of what is left, for independent observations: neighbours in
    a queue are alike, and then it is too narrow. Source: David and Nagaraja, Order Statistics (2003), 7.1; Hahn and
    Meeker, Statistical Intervals (1991), 5.2. Not the same as a bootstrap, which cannot say that a sample is too small.
    """
    value = quantile(sample, q)
    if value is None:
        return None
    ordered = np.sort(np.asarray(sample, dtype=np.float64))
    n, tail = len(ordered), (1 - confidence) / 2
    at_most = np.cumsum(_binomial(n, q))  # at k: how likely it is that k observations or fewer lie below
    below = int(np.searchsorted(at_most, tail, side="right"))  # the first k that is likelier than the tail
    above = n + 1 - int(np.searchsorted(np.cumsum(_binomial(n, q)[::-1]), tail, side="right"))
    return QuantileInterval(
        value=value,
        low=min(value, float(ordered[below - 1])) if below >= 1 else None,
        high=max(value, float(ordered[above - 1])) if above <= n else None,
        n=n,
        confidence=confidence,
        high_is_max=above == n,
    )


def fewest_for(q: float, *, confidence: float = 0.95) -> int:
    """The fewest observations with which the q-quantile, 0 < q < 1, has an upper bound at all: q^n <= half the rest."""
    return math.ceil(math.log((1 - confidence) / 2) / math.log(q))


def _binomial(n: int, q: float) -> NDArray[np.float64]:
    """The probabilities of 0 to n successes, by logarithms so that none is lost for a large n."""
    counts = np.arange(n + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    logs = factorials[n] - factorials[counts] - factorials[n - counts] + counts * math.log(q)
    return np.asarray(np.exp(logs + (n - counts) * math.log1p(-q)), dtype=np.float64)
