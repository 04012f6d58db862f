"""When a load has seen enough: the interval of its p95 time to first token is as narrow as was asked."""

from __future__ import annotations

from unmoor.core.evidence import Caveat
from unmoor.core.quantile_interval import QuantileInterval, fewest_for, quantile_interval
from unmoor.core.record import Record, scheduled_ttft_s

_QUANTILE = 0.95
_GROWTH = 1.1
"""Looked at again when there are so many times as many answers: each look could stop the run by luck."""


class NarrowEnough:
    """Takes records as they end, and says when high - low is at most `share` of the p95 itself.

    Requests due in the first `warm_up_s` do not count, nor failed ones, as in the figures. Stopping where an interval
    happens to be narrow makes it cover a little less than its 95 %; looks are few so that it is little (fixed-width
    sequential intervals: Chow and Robbins, 1965).
    """

    def __init__(self, share: float, *, warm_up_s: float) -> None:
        self._share = share
        self._warm_up_ns = round(warm_up_s * 1e9)
        self._first_due_ns: int | None = None
        self._ttfts_s: list[float] = []
        self._look_at = fewest_for(_QUANTILE)
        self._last: QuantileInterval | None = None

    def note(self, record: Record) -> None:
        """One more request has ended."""
        # The first to end need not be the first due; a few requests' difference at the edge of the warm-up is none.
        if self._first_due_ns is None or record.scheduled_at_ns < self._first_due_ns:
            self._first_due_ns = record.scheduled_at_ns
        ttft_s = scheduled_ttft_s(record)
        if ttft_s is not None and record.scheduled_at_ns >= self._first_due_ns + self._warm_up_ns:
            self._ttfts_s.append(ttft_s)

    def enough(self) -> bool:
        """Whether the interval was narrow enough when last looked at."""
        if len(self._ttfts_s) >= self._look_at:
            self._look_at = int(_GROWTH * len(self._ttfts_s)) + 1
            self._last = quantile_interval(self._ttfts_s, _QUANTILE)
        width = self.width
        return width is not None and width <= self._share

    @property
    def width(self) -> float | None:
        """The interval's width as a share of the p95, when last looked at; None where there was no whole interval."""
        last = self._last
        if last is None or last.low is None or last.high is None or last.high_is_max or last.value <= 0:
            return None
        return (last.high - last.low) / last.value

    def caveats(self) -> tuple[Caveat, ...]:
        """That the load ended before its interval was narrow enough, where it did."""
        if self.enough():
            return ()
        width = self.width
        seen = "had no upper bound yet" if width is None else f"was still {width:.0%} of it wide"
        ended = "The load ended before it was sure: the interval of its p95 time to first token"
        text = f"{ended} {seen}, not {self._share:.0%}."
        return (Caveat(code="not_yet_sure", text=text),)
