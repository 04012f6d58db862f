"""The broken records of a log: counted, the first few remembered, and too many of them an error."""

from __future__ import annotations

from typing import Protocol

from unmoor.core.errors import TrafficError
from unmoor.core.evidence import Caveat
from unmoor.traffic.readers.contract import Broken, Unreadable
from unmoor.traffic.readers.lines import cut

FEWEST_ALLOWED = 10
SHARE_ALLOWED = 0.01
_REMEMBERED = 5
INDENT = "\n            "
_PATIENCE = 1000
"""How many more than allowed may be broken before the whole log is read: those allowed grow with it."""

HINT = "docs/reference/traffic.md lists the formats, and `--format` or traffic.format names one"


class Places(Protocol):
    """What knows where the record of a number is: `records.Records`."""

    def place(self, number: int) -> str:
        """As an error's place, FILE:LINE."""

    def spot(self, number: int) -> str:
        """In words, for a list."""


class Skipped:
    """Broken records, up to `most`: by default 10, or 1 % of all records where that is more.

    A record of several requests is broken once, whether all of them are or some.
    """

    def __init__(self, most: int | None, records: Places) -> None:
        self._most = most
        self._records = records
        self._first: list[tuple[int, Broken]] = []
        self.count = 0
        self._good = self._partly = 0
        self._last_good = self._last_broken = 0

    def taken(self, number: int) -> None:
        """Counts record `number` as good: it held a request, or several in a row, none of which was broken."""
        if number == self._last_good:
            return
        self._last_good = number
        if number == self._last_broken:
            self._partly += 1
        else:
            self._good += 1

    def add(self, number: int, broken: Broken) -> None:
        """Counts record `number` as broken. Raises TrafficError where that is hopeless, and for a header."""
        if isinstance(broken, Unreadable):
            raise self.error_of(number, broken)
        if number == self._last_broken:
            return
        self._last_broken = number
        if number == self._last_good:
            self._good -= 1
            self._partly += 1
        self.count += 1
        if len(self._first) < _REMEMBERED:
            self._first.append((number, broken))
        if self.count > self._allowed + (_PATIENCE if self._most is None else 0):
            raise self._too_many()

    def check(self) -> None:
        """Raises TrafficError where more records were broken than may be, and where most were and nobody allowed it."""
        most = self.count > self._good and self._most is None
        if self.count and (self.count > self._allowed or most or not self._good + self._partly):
            raise self._too_many()

    @property
    def notes(self) -> tuple[Caveat, ...]:
        """One caveat, `lines_skipped`, where any was."""
        if not self.count:
            return ()
        were = "was" if self.count == 1 else "were"
        partly = f", {self._partly:,} of them in part, whose other prompts were read" if self._partly else ""
        text = (
            f"{self.count:,} of {self._read:,} lines {were} broken and skipped{partly}; the first is {self.shown[0]}."
        )
        return (Caveat(code="lines_skipped", text=text),)

    @property
    def shown(self) -> tuple[str, ...]:
        """The first few, with place and kind."""
        return tuple(f"{self._records.spot(number)}: {_said(broken)}" for number, broken in self._first)

    @property
    def _allowed(self) -> int:
        return self._most if self._most is not None else max(FEWEST_ALLOWED, int(self._read * SHARE_ALLOWED))

    @property
    def _read(self) -> int:
        return self._good + self.count

    def _too_many(self) -> TrafficError:
        if self.count == 1:
            return self.error_of(*self._first[0])
        more = [f"... and {self.count - len(self._first):,} more"] if self.count > len(self._first) else []
        allowed = (
            f"{self._most:,}"
            if self._most is not None
            else f"{FEWEST_ALLOWED}, or {SHARE_ALLOWED:.0%} of them, and no more than half"
        )
        return TrafficError(
            "too many broken lines",
            where=self._records.place(self._first[0][0]),
            seen=INDENT.join([f"{self.count:,} of {self._read:,} lines read", *self.shown, *more]),
            expected=f"at most {allowed}; {self._first[0][1].expected}",
            hint=HINT,
        )

    def error_of(self, number: int, broken: Broken) -> TrafficError:
        """The error for one record."""
        return TrafficError(
            broken.message,
            where=self._records.place(number),
            seen=cut(broken.seen),
            expected=broken.expected,
            hint=HINT,
        )


def _said(broken: Broken) -> str:
    return f"{broken.message} (seen {cut(broken.seen)})"
