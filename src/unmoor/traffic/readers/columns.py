"""The columns of a log while it is read: as narrow as their values, without length before the first that is known."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.equal_rows import first_equal, numbered
from unmoor.traffic.log import UNKNOWN
from unmoor.traffic.scratch import MEMORY, Growing, Scratch

ROWS_AT_HAND = 1 << 14
NAMES_AT_HAND = 1 << 16
"""Names that a column keeps as they are; beyond them it packs that many at a time."""

_Number = TypeVar("_Number", int, float)
_HASH_BYTES = 8
_DTYPES: dict[str, type[np.generic]] = {"d": np.float64, "q": np.int64, "i": np.int32, "Q": np.uint64}


class Column(Generic[_Number]):
    """Numbers of one array type; a row without one holds `unknown`. Of "i" it becomes "q" where a number needs that.

    The latest rows are at hand, earlier ones in `scratch`.
    """

    def __init__(self, typecode: str, unknown: _Number, scratch: Scratch = MEMORY) -> None:
        self._typecode = typecode
        self._unknown: _Number = unknown
        self._scratch = scratch
        self._packed = Growing(_DTYPES[typecode], scratch)
        self._latest: array[Any] = array(typecode)
        self._known = False
        self._before = 0  # rows before the first known value

    def append(self, value: _Number | None) -> None:
        """One more row."""
        if value is None and not self._known:
            self._before += 1
            return
        if not self._known:
            self._known = True
            self._packed.extend(self._nothing())
        try:
            self._latest.append(self._unknown if value is None else value)
        except OverflowError:
            self._widen()
            self._latest.append(value)
        if len(self._latest) >= ROWS_AT_HAND:
            self._pack()

    def __len__(self) -> int:
        return len(self._packed) + len(self._latest) if self._known else self._before

    def append_at(self, row: int, value: _Number | None) -> None:
        """The next row that has a number is `row`; those before it that are not there yet have none."""
        while len(self) < row:
            self.append(None)
        self.append(value)

    def taken(self) -> NDArray[Any]:
        """The column, which is the caller's from now on; read-only where nothing is known."""
        if not self._known:
            return self._nothing()
        self._pack()
        rows = self._packed.rows
        self.__init__(self._typecode, self._unknown, self._scratch)  # type: ignore[misc] # empty again
        return rows

    def _nothing(self) -> NDArray[Any]:
        return np.broadcast_to(np.array(self._unknown, _DTYPES[self._typecode]), (self._before,))

    def _pack(self) -> None:
        self._packed.extend(as_column(self._latest))
        self._latest = array(self._typecode)

    def _widen(self) -> None:
        self._pack()
        wide = Growing(np.int64, self._scratch)
        for some in self._scratch.stretches(len(self._packed)):
            wide.extend(self._packed.rows[some])
        self._typecode, self._packed, self._latest = "q", wide, array("q")


def as_column(values: array[Any]) -> NDArray[Any]:
    """The array's own memory, which must not grow any more, as a column."""
    return np.frombuffer(values, dtype=_DTYPES[values.typecode]) if values else np.empty(0, _DTYPES[values.typecode])


class NameColumn:
    """A column of names, each kept once.

    The latest are kept as they are, earlier ones packed. One that comes back later than that is packed again, and is
    known to be the same by a hash of 64 bits: names that differ are taken for one by chance only (2^-64 for each pair).
    """

    def __init__(self, at_hand: int = NAMES_AT_HAND, scratch: Scratch = MEMORY) -> None:
        self._scratch = scratch
        self._codes: Column[int] = Column("i", UNKNOWN, scratch)
        self._at_hand = at_hand
        self._code_of: dict[str, int] = {}
        self._packed = PackedNames(scratch)

    def append(self, name: str | None) -> None:
        """One more row."""
        if name is None:
            self._codes.append(None)
            return
        code = self._code_of.get(name)
        if code is None:
            if len(self._code_of) == self._at_hand:
                self._pack()
            code = self._code_of[name] = len(self._packed) + len(self._code_of)
        self._codes.append(code)

    def taken(self) -> tuple[NDArray[np.int32], Sequence[str]]:
        """The code of each row, numbered by first appearance, and the names; the column is empty then."""
        codes: NDArray[np.int32] = self._codes.taken()
        if not len(self._packed):
            return codes, tuple(self._code_of)
        self._pack()
        first, number = self._packed.distinct()
        for some in self._scratch.stretches(len(codes)):
            codes[some] = np.where(codes[some] == UNKNOWN, UNKNOWN, number[codes[some]])
        return codes, self._packed.only(first)

    def _pack(self) -> None:
        self._packed.extend(self._code_of)
        self._code_of = {}


class PackedNames(Sequence[str]):
    """Names as the bytes of their UTF-8, one after another: their bytes and 16 more a name, all in `scratch`."""

    def __init__(self, scratch: Scratch = MEMORY) -> None:
        self._scratch = scratch
        self._text = Growing(np.uint8, scratch)
        self._ends = Growing(np.int64, scratch)
        self._hashes = Growing(np.uint64, scratch)
        self._ends.extend(np.zeros(1, dtype=np.int64))

    def extend(self, names: Iterable[str]) -> None:
        """Takes names, whether or not they are there already."""
        written = [name.encode("utf-8", "surrogatepass") for name in names]
        hashes = b"".join(hashlib.blake2b(name, digest_size=_HASH_BYTES).digest() for name in written)
        self._hashes.extend(np.frombuffer(hashes, dtype=np.uint64))
        self._extend_text(b"".join(written), np.array([len(name) for name in written], dtype=np.int64))

    def _extend_text(self, text: bytes, sizes: NDArray[np.int64]) -> None:
        self._ends.extend(len(self._text) + np.cumsum(sizes))
        self._text.extend(np.frombuffer(text, dtype=np.uint8))

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where each name is first, in that order, and for every place its name's number in that order."""
        first = first_equal(self._hashes.rows, self._scratch)
        return numbered(first, self._scratch)

    def only(self, places: NDArray[np.int64]) -> PackedNames:
        """The names at `places`, which rise and are each there once; the others are let go."""
        if len(places) == len(self):
            return self
        kept, ends, text = PackedNames(self._scratch), self._ends.rows, self._text.rows
        for some in self._scratch.stretches(len(places)):
            starts, stops = ends[places[some]], ends[places[some] + 1]
            pieces = [text[start:stop].tobytes() for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
            kept._extend_text(b"".join(pieces), stops - starts)
        return kept

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        place = range(len(self))[index]
        start, stop = self._ends.rows[place : place + 2].tolist()
        return self._text.rows[start:stop].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))
