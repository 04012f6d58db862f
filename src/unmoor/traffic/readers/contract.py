"""What every format's file provides: how its first record looks, and how records become requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Entry, Prompt
from unmoor.traffic.log import Carried, Grain


@dataclass(frozen=True)
class LogFile:
    """One file of a log, open for reading: its name, for errors, and its bytes as they lie."""

    name: str
    stream: BinaryIO


@dataclass(frozen=True)
class FirstLine:
    """The first line that is not blank, as formats are told apart by it.

    `keys` are the keys and their values when it is a JSON object, `columns` its fields, as a CSV's, when it is not;
    `text` is how it begins (4,000 characters at most).
    """

    keys: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    text: str = ""


class Broken(Exception):  # noqa: N818 - a broken record is counted and skipped; it is an event, not an error
    """One record of a log that cannot be read. It quotes no text of the log: `seen` is a number, a type or a size."""

    def __init__(self, message: str, *, seen: str, expected: str) -> None:
        super().__init__(message)
        self.message = message
        self.seen = seen
        self.expected = expected


class Unreadable(Broken):
    """A record without which none of the others can be read, such as a header: the reading ends here."""


class RecordReader(Protocol):
    """One format's way with one log: it may remember a header, columns or a clock's unit from record to record."""

    @property
    def grain(self) -> Grain | None:
        """How finely content is told apart; None where the format says nothing of it. Read after the last record."""

    @property
    def notes(self) -> Sequence[Caveat]:
        """What was assumed, once the last record is read: the clock's unit, say."""

    def read(self, record: bytes) -> Iterable[Entry]:
        """The requests in one record, which is a line or one object of a JSON array.

        None for a header, several for a dialogue. Raises Broken.
        """


@runtime_checkable
class Carrier(RecordReader, Protocol):
    """A RecordReader whose log also says what the requests' lines cannot: a fingerprint's header does."""

    def carried(self) -> Carried:
        """Its features take the place of those counted from entries, its skipped lines add to those skipped here.

        Called once, after the last record. Raises Broken where the log is not whole.
        """


@dataclass(frozen=True)
class RecordFormat:
    """One format: how its first record looks, and a reader for one log of it."""

    name: str
    expected: str
    looks_like: Callable[[FirstLine], bool]
    start: Callable[[], RecordReader]


@dataclass(frozen=True)
class Cut:
    """A prompt as chained symbols: `chain[i]` (uint64) identifies the prompt up to its symbol i.

    `ends[i]` (int64) is how much of the prompt that is, in the cutter's unit: tokens, or bytes.
    """

    chain: NDArray[np.uint64]
    ends: NDArray[np.int64]


class Cutter(Protocol):
    """What turns text into chained symbols: by bytes, or by a tokenizer. Prompts come in batches, to be vectorised."""

    @property
    def by(self) -> Literal["tokens", "bytes"]:
        """The unit of `Cut.ends`."""

    @property
    def step(self) -> int:
        """The unit's granularity: 1 for tokens, the size of a piece for bytes."""

    @property
    def notes(self) -> Sequence[Caveat]:
        """What was assumed."""

    def cut(self, prompts: Sequence[Prompt]) -> list[Cut]:
        """Each prompt as chained symbols."""


Watch = Callable[[int, Entry], None]
"""Sees every request, with its line, in the order of the log."""
