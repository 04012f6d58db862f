"""Quantiles of columns too long to be sorted: exact, by counting the highest bits first, then the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.log import Real, Whole
from unmoor.traffic.scratch import STRETCH

Weighted = tuple[NDArray[np.float64], NDArray[np.int64] | None]
Parts = Callable[[], Iterator[Weighted]]
"""Values of at least 0, none NaN, and their weights above 0 (None: 1 each); anew from the start on each call."""

_DIGIT_BITS = 16
_KEY_BITS = 64


def value_at(parts: Parts, weight: float) -> float:
    """The smallest value up to which, it included, the weights come to `weight` or more; there must be one."""
    known, below = 0, 0
    for shift in range(_KEY_BITS - _DIGIT_BITS, -1, -_DIGIT_BITS):
        sums = np.zeros(1 << _DIGIT_BITS, dtype=np.int64)
        for values, own_weights in parts():
            weights: NDArray[np.int64] | int = 1 if own_weights is None else own_weights
            keys = (values + 0.0).view(np.uint64)  # of floats from 0 on, bits are in the order of values; -0 becomes 0
            if shift + _DIGIT_BITS < _KEY_BITS:
                chosen = keys >> np.uint64(shift + _DIGIT_BITS) == np.uint64(known)
                keys = keys[chosen]
                weights = 1 if own_weights is None else own_weights[chosen]
            digits = (keys >> np.uint64(shift)).astype(np.int64) & ((1 << _DIGIT_BITS) - 1)
            np.add.at(sums, digits, weights)
        up_to = below + np.cumsum(sums)
        digit = int(np.searchsorted(up_to, weight))
        below = int(up_to[digit] - sums[digit])
        known = known << _DIGIT_BITS | digit
    return float(np.array([known], dtype=np.uint64).view(np.float64)[0])


def quantiles(values: Real | Whole, shares: tuple[float, ...]) -> tuple[float, ...]:
    """`numpy.quantile` of values of at least 0, without a copy of a long column."""
    if len(values) <= STRETCH:
        return tuple(np.quantile(values, shares).tolist())
    return tuple(_quantile(values, share) for share in shares)


def _quantile(values: Real | Whole, share: float) -> float:
    """Between two neighbours as numpy places it: at (values - 1) times the share."""

    def parts() -> Iterator[Weighted]:
        for start in range(0, len(values), STRETCH):
            yield values[start : start + STRETCH].astype(np.float64), None

    place = (len(values) - 1) * share
    low = value_at(parts, int(place) + 1)
    high = value_at(parts, min(int(place) + 2, len(values)))
    return float(np.quantile((low, high), place - int(place)))
