"""How many requests run at a time."""

from __future__ import annotations

import numpy as np

from unmoor.traffic.log import Real, Whole
from unmoor.traffic.scratch import MEMORY, Scratch


class Running:
    """Requests under way at any moment; one that takes no time runs at its own moment.

    `start_s` rises; `end_s` is in the same order of requests. `at_start` says how many ran when each had started, where
    the caller knows it better than the times tell.
    """

    def __init__(self, start_s: Real, end_s: Real, at_start: Whole | None = None, scratch: Scratch = MEMORY) -> None:
        self._start_s, self._end_s = start_s, scratch.copy(end_s)
        self._end_s.sort()  # in place, so that it takes no memory beside them
        self._starts_sum, self._ends_sum = _sums_before(start_s, scratch), _sums_before(self._end_s, scratch)
        self._at_start = self._counted(scratch) if at_start is None else at_start

    def _counted(self, scratch: Scratch) -> Whole:
        """How many ran when each had started."""
        running = scratch.zeros(len(self._start_s), np.int64)
        for some in scratch.stretches(len(running)):
            ended = np.searchsorted(self._end_s, self._start_s[some], side="right")
            running[some] = np.maximum(np.arange(some.start + 1, some.stop + 1) - ended, 1)
        return running

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


def _sums_before(values: Real, scratch: Scratch) -> Real:
    """One longer than the values: at i, the sum of all before i."""
    sums, carried = scratch.zeros(len(values) + 1, np.float64), 0.0
    for some in scratch.stretches(len(values)):
        sums[some.start + 1 : some.stop + 1] = np.cumsum(np.append(carried, values[some]))[1:]
        carried = float(sums[some.stop])
    return sums
