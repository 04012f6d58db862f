"""BurstGPT traces: CSV of ChatGPT and GPT-4 requests over months; nothing is said of content.

Source: HPMLL/BurstGPT, whose README defines the columns; those of the first release lack the session and the elapsed
time. A request whose answer has 0 tokens failed: it is kept, with no time taken, and a note counts them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Entry
from unmoor.traffic.log import Grain
from unmoor.traffic.readers.clock import Clock
from unmoor.traffic.readers.contract import Broken, FirstLine, RecordFormat
from unmoor.traffic.readers.csv_rows import Header
from unmoor.traffic.readers.kinds import Kinds
from unmoor.traffic.readers.lines import cut, shown, whole

_NAMES = (
    "Timestamp",
    "Session ID",
    "Elapsed time",
    "Model",
    "Request tokens",
    "Response tokens",
    "Total tokens",
    "Log Type",
)
_NEEDED = ("Timestamp", "Model", "Request tokens", "Response tokens")
_EXPECTED = ",".join(_NAMES)
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]*)?")


def _header() -> Header:
    return Header({name: (name,) for name in _NAMES}, needed=_NEEDED, expected=_EXPECTED)


class _Reader:
    grain: Grain | None = None

    def __init__(self) -> None:
        self._header = _header()
        self._clock = Clock(unit="s", name="Timestamp")
        self._kinds = Kinds(("Conversation log", "API log"))
        self._failed = 0

    @property
    def notes(self) -> Sequence[Caveat]:
        if not self._failed:
            return (*self._header.notes, *self._kinds.notes)
        were = "request" if self._failed == 1 else "requests"
        text = f"{self._failed:,} {were} failed (an answer of 0 tokens); their prompts are counted like the others'."
        return (*self._header.notes, *self._kinds.notes, Caveat(code="failed_requests", text=text))

    def read(self, record: bytes) -> tuple[Entry, ...]:
        row = self._header.row(record)
        if row is None:
            return ()
        answer = whole("Response tokens", row["Response tokens"])
        entry = Entry(
            at_s=self._clock.seconds(row["Timestamp"]),
            input_tokens=whole("Request tokens", row["Request tokens"], least=1),
            output_tokens=answer,
            session=row.get("Session ID") or None,
            model=row["Model"] or None,
            took_s=seconds_taken("Elapsed time", row.get("Elapsed time", "")) if answer else None,
        )
        self._failed += not answer
        self._kinds.count(row.get("Log Type"))
        return (entry,)


def seconds_taken(name: str, text: str) -> float | None:
    """A duration in a CSV's field, in seconds; None for an empty one. Raises Broken."""
    if text.casefold() in ("", "nan", "none", "null"):
        return None
    if not _SECONDS.fullmatch(text):
        raise Broken(f"wrong value for '{name}'", seen=cut(shown(text)), expected="seconds, or nothing")
    return float(text)


def _looks_like(first: FirstLine) -> bool:
    return _header().matches(first.columns)


FORMAT = RecordFormat(name="burstgpt", expected=_EXPECTED, looks_like=_looks_like, start=_Reader)
