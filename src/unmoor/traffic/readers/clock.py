"""The times of a log, whatever their unit, as seconds from one origin."""

from __future__ import annotations

import datetime as dt
import re
from typing import Literal

from unmoor.core.evidence import Caveat
from unmoor.traffic.readers.contract import Broken
from unmoor.traffic.readers.dates import date_of, shape_of
from unmoor.traffic.readers.lines import is_harmless, shown

Unit = Literal["s", "ms", "us", "ns"]

_PER_SECOND: dict[str, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
# Times since 1970 lie between 2001 and 2103, so that the four units cannot be taken for one another.
_FIRST_EPOCH_S, _LAST_EPOCH_S = 10**9, 4_200_000_000
MOST_RELATIVE_S = 10**9  # 31 years: a count from a start of its own is below it
_NUMBER = re.compile(r"[-+]?[0-9]{1,20}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,2})?")
_EXPECTED = "a time in s, ms, us or ns, ISO 8601, or as HTTP, nginx or Go write it"
_DATES = "dates"


class Clock:
    """One log's clock: the first time decides how all are read, and one that contradicts it is broken.

    Without `unit`, numbers between 2001 and 2103 are times since 1970 in the unit that this implies, and numbers below
    10^9 are seconds from a start of the log's own. With `unit`, numbers are in it, from whatever start. Text is a
    number, or a date as `dates` knows them, with UTC where it names no zone. `name` is the field's, for errors.
    """

    def __init__(self, *, unit: Unit | None = None, name: str = "timestamp") -> None:
        self._given = unit
        self._name = name
        self._kind: str | None = None
        self._origin: int | float = 0
        self._without_zone = 0

    def seconds(self, value: object) -> float:
        """Seconds from the log's first time rounded down to a second, exact to the microsecond; may be negative.

        Raises Broken for what is no time, and for a time that contradicts the log's first one.
        """
        if isinstance(value, str):
            text = value.strip()
            if not _NUMBER.fullmatch(text):
                return self._date(text)
            value = int(text) if text.lstrip("+-").isdigit() else float(text)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._broken(f"wrong value for '{self._name}'", seen=f"a {type(value).__name__}")
        return self._number(value)

    @property
    def note(self) -> Caveat | None:
        """How times were read, where that was told from the times themselves (`clock_unit`); else None."""
        if self._kind is None:
            return None
        if self._kind == _DATES:
            if not self._without_zone:
                return None
            return Caveat(code="clock_unit", text="Times that name no zone were read as UTC.")
        if self._given is not None:
            return None
        return Caveat(code="clock_unit", text=f"Times were read as {self._kind}, by their size.")

    def _number(self, value: float) -> float:
        per_second = _PER_SECOND[self._given] if self._given else 0
        if per_second:
            kind = f"{_NAMES[self._given or 's']} from a start"
            if not -(10**15) < value < 10**15 * per_second:  # so written that NaN is refused too
                raise self._broken(f"'{self._name}' is out of range", seen=f"{value:.6g}")
        else:
            kind, per_second = self._told_by_size(value)
        self._settle(kind, (value // per_second) * per_second)
        return (value - self._origin) / per_second

    def _told_by_size(self, value: float) -> tuple[str, int]:
        for unit, per_second in _PER_SECOND.items():
            if _FIRST_EPOCH_S * per_second <= value <= _LAST_EPOCH_S * per_second:
                return f"{_NAMES[unit]} since 1970", per_second
        if 0 <= value < MOST_RELATIVE_S:
            return "seconds from a start of their own", 1
        raise self._broken(f"'{self._name}' is out of range", seen=f"{value:.6g}")

    def _date(self, text: str) -> float:
        at = date_of(text)
        if at is None:
            seen = shown(text) if is_harmless(text) else shape_of(text)
            raise self._broken(f"wrong value for '{self._name}'", seen=seen)
        if at.tzinfo is None:
            self._without_zone += 1
            at = at.replace(tzinfo=dt.UTC)
        try:
            since = at - _EPOCH
        except OverflowError:
            raise self._broken(f"'{self._name}' is out of range", seen=shown(text)) from None
        whole = since.days * 86_400 + since.seconds
        self._settle(_DATES, whole)
        return (whole - self._origin) + since.microseconds / 1e6

    def _settle(self, kind: str, origin: float) -> None:
        if self._kind is None:
            self._kind, self._origin = kind, origin
        elif self._kind != kind:
            raise self._broken(f"'{self._name}' contradicts the log's first time", seen=kind, expected=self._kind)

    def _broken(self, message: str, *, seen: str, expected: str = _EXPECTED) -> Broken:
        return Broken(message, seen=seen, expected=expected)


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
