"""Resampling observations that came in blocks, each in order of time: neighbours in a queue are not independent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unmoor.core.stats import Interval, Statistic

Draws = NDArray[np.intp]
"""(resamples, observations): positions into the blocks laid end to end."""

_NEVER = 1e15  # stands for infinity while quantiles are interpolated, where infinity would give no number


def blocked_draws(lengths: Sequence[int], *, seed: int, resamples: int = 2000) -> Draws:
    """Positions to resample blocks of these lengths, laid end to end; shape (resamples, sum of lengths).

    Two levels: first blocks are drawn with replacement (a restart has luck of its own), then, inside a drawn block,
    runs of n^(1/3) neighbours, around its end (circular block bootstrap, Politis and Romano 1992: a queue makes
    neighbours alike). With two blocks the first level is coarse: an interval then covers about what each says alone.
    """
    sizes = np.asarray([n for n in lengths if n > 0], dtype=np.intp)
    if sizes.size == 0:
        return np.empty((resamples, 0), dtype=np.intp)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
    rng = np.random.default_rng(seed)
    slots = []
    for size in sizes:
        drawn = rng.integers(0, sizes.size, size=(resamples, 1))
        run = max(1, round(float(size) ** (1 / 3)))
        runs = -(-int(size) // run)
        first = rng.integers(0, sizes[drawn], size=(resamples, runs))
        within = (first[:, :, None] + np.arange(run)).reshape(resamples, -1)[:, :size]
        slots.append(starts[drawn] + within % sizes[drawn])
    return np.concatenate(slots, axis=1)


def interval(values: Sequence[float], statistic: Statistic, draws: Draws, *, confidence: float = 0.95) -> Interval:
    """The statistic with its percentile interval over `draws`; infinity marks an observation that never came.

    An end, or the value, that rests on such an observation is infinite. Raises ValueError for no observation.
    """
    sample = np.minimum(np.asarray(values, dtype=np.float64), _NEVER)
    if sample.size == 0:
        raise ValueError("no observation to take an interval of")
    tail = (1 - confidence) / 2
    low, high = np.quantile(statistic(sample[draws]), [tail, 1 - tail])
    point, low, high = (
        float("inf") if seen > _NEVER / 1e6 else float(seen) for seen in (float(statistic(sample)), low, high)
    )
    return Interval(value=point, low=low, high=high, n=int(sample.size), confidence=confidence)
