"""A CSV of lengths: what anyone can export of their requests. Its header names the columns, in any order and case.

Numbers may be written as a spreadsheet shows them, with thousands separators and decimal commas.
"""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Entry
from unmoor.traffic.log import Grain
from unmoor.traffic.readers.burstgpt import seconds_taken
from unmoor.traffic.readers.clock import Clock
from unmoor.traffic.readers.contract import FirstLine, RecordFormat
from unmoor.traffic.readers.csv_rows import Header
from unmoor.traffic.readers.lines import whole
from unmoor.traffic.readers.numerals import Numerals

NAMES = {
    "input_tokens": ("input_tokens", "prompt_tokens", "input_length", "prompt_length", "prompt_len", "input_len"),
    "output_tokens": (
        "output_tokens",
        "completion_tokens",
        "generated_tokens",
        "generation_tokens",
        "response_tokens",
        "output_length",
        "output_len",
    ),
    "arrival": ("arrival_s", "arrival", "arrival_time", "timestamp", "time", "start_time", "created_at"),
    "took_s": (
        *("took_s", "e2e_s", "elapsed_s", "latency_s", "duration_s"),
        *("e2e_request_latency_seconds", "e2e_latency", "request_latency_seconds"),
    ),
    "end": ("end_s", "end_time", "ended_at", "finished_at", "completed_at"),
    "session": ("session", "session_id", "conversation_id", "chat_id"),
    "tenant": ("tenant", "tenant_id", "team", "team_id", "customer"),
    "adapter": ("adapter", "lora", "lora_name"),
    "model": ("model", "model_name"),
}
"""Each column and the names it goes by; spaces, underscores, hyphens and case make no difference."""

_NUMBERS = ("took_s", "arrival", "end", "input_tokens", "output_tokens")
_EXPECTED = "input_tokens,output_tokens and, if known, arrival_s,took_s,session,tenant,adapter,model"


def _header() -> Header:
    return Header(NAMES, needed=("input_tokens", "output_tokens"), expected=_EXPECTED)


class _Reader:
    grain: Grain | None = None

    def __init__(self) -> None:
        self._header = _header()
        self._clock = Clock(name="arrival")
        self._numerals = Numerals()

    @property
    def notes(self) -> Sequence[Caveat]:
        return (*self._header.notes, *((self._clock.note,) if self._clock.note else ()))

    def read(self, record: bytes) -> tuple[Entry, ...]:
        row = self._header.row(record)
        if row is None:  # a header: a file of its own, perhaps from elsewhere
            self._numerals = Numerals(self._header.delimiter)
            return ()
        if self._numerals.mark is None:
            self._numerals.learn(row.get(name, "") for name in _NUMBERS)
        at_s = self._time("arrival", row)
        return (
            Entry(
                at_s=at_s,
                input_tokens=self._whole("input_tokens", row["input_tokens"], least=1),
                output_tokens=self._whole("output_tokens", row["output_tokens"]) if row["output_tokens"] else None,
                session=row.get("session") or None,
                tenant=row.get("tenant") or None,
                adapter=row.get("adapter") or None,
                model=row.get("model") or None,
                took_s=self._took(row, at_s),
            ),
        )

    def _time(self, name: str, row: dict[str, str]) -> float | None:
        text = row.get(name, "")
        return self._clock.seconds(self._numerals.plain(name, text)) if text else None

    def _took(self, row: dict[str, str], at_s: float | None) -> float | None:
        """What the row says, else from its arrival to its end; None for an end before it, which clocks can write."""
        said = row.get("took_s", "")
        if said or "end" not in row:
            return seconds_taken("took_s", self._numerals.plain("took_s", said))
        end_s = self._time("end", row)
        return None if end_s is None or at_s is None or end_s < at_s else end_s - at_s

    def _whole(self, name: str, text: str, *, least: int = 0) -> int:
        if not text.isdecimal():
            text = self._numerals.plain(name, text, whole=True)
        return whole(name, text, least=least)


def _looks_like(first: FirstLine) -> bool:
    return _header().matches(first.columns)


FORMAT = RecordFormat(name="lengths", expected=_EXPECTED, looks_like=_looks_like, start=_Reader)
