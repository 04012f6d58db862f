"""How many requests run at a time."""

from __future__ import annotations

import numpy as np

from unmoor.traffic.log import Real, Whole


class Running:
    """Requests under way at any moment; one that takes no time runs at its own moment.

    `start_s` rises; `end_s` is in the same order of requests. `at_start` says how many ran when each had started, where
    the caller knows it better than the times tell.
    """

    def __init__(self, start_s: Real, end_s: Real, at_start: Whole | None = None) -> None:
        self._start_s, self._end_s = start_s, np.sort(end_s)
        self._starts_sum = np.concatenate(([0.0], np.cumsum(self._start_s)))
        self._ends_sum = np.concatenate(([0.0], np.cumsum(self._end_s)))
        if at_start is None:
            ended = np.searchsorted(self._end_s, self._start_s, side="right")
            at_start = np.maximum(np.arange(1, len(start_s) + 1) - ended, 1)
        self._at_start = at_start

    def peak(self, from_s: float, to_s: float) -> int:
        """The most at any moment of the span."""
        first = int(np.searchsorted(self._start_s, from_s, side="left"))
        last = int(np.searchsorted(self._start_s, to_s, side="right"))
        carried = first - int(np.searchsorted(self._end_s, from_s, side="right"))
        return max(carried, int(self._at_start[first:last].max(initial=0)))

    def mean(self, from_s: float, to_s: float) -> float:
        """The mean over the span, weighted by time."""
        return (self._area(to_s) - self._area(from_s)) / (to_s - from_s)

    def _area(self, at_s: float) -> float:
        """Request-seconds up to a moment."""
        started = int(np.searchsorted(self._start_s, at_s, side="right"))
        ended = int(np.searchsorted(self._end_s, at_s, side="right"))
        return float(started * at_s - self._starts_sum[started] - ended * at_s + self._ends_sum[ended])
