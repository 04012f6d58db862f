"""The columns of a log while it is read: as narrow as their values, without length before the first that is known."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.log import UNKNOWN

NAMES_AT_HAND = 1 << 16
"""Names that a column keeps as they are; beyond them it packs that many at a time."""

_Number = TypeVar("_Number", int, float)
_HASH_BYTES = 8
_DTYPES: dict[str, type[np.generic]] = {"d": np.float64, "q": np.int64, "i": np.int32, "Q": np.uint64}


class Column(Generic[_Number]):
    """Numbers of one array type; a row without one holds `unknown`. Of "i" it becomes "q" where a number needs that."""

    def __init__(self, typecode: str, unknown: _Number) -> None:
        self._typecode = typecode
        self._unknown: _Number = unknown
        self._values: array[Any] = array(typecode)
        self._before = 0  # rows before the first known value

    def append(self, value: _Number | None) -> None:
        """One more row."""
        if value is None and not self._values:
            self._before += 1
            return
        if not self._values:
            self._values = array(self._typecode, [self._unknown]) * self._before
        try:
            self._values.append(self._unknown if value is None else value)
        except OverflowError:
            self._typecode = "q"
            self._values = array(self._typecode, self._values)
            self._values.append(value)

    def taken(self) -> NDArray[Any]:
        """The column, in its own memory, which is the caller's from now on; read-only where nothing is known."""
        values, self._values = self._values, array(self._typecode)
        if values:
            return as_column(values)
        return np.broadcast_to(np.array(self._unknown, _DTYPES[self._typecode]), (self._before,))


def as_column(values: array[Any]) -> NDArray[Any]:
    """The array's own memory, which must not grow any more, as a column."""
    return np.frombuffer(values, dtype=_DTYPES[values.typecode]) if values else np.empty(0, _DTYPES[values.typecode])


class NameColumn:
    """A column of names, each kept once.

    The latest are kept as they are, earlier ones packed. One that comes back later than that is packed again, and is
    known to be the same by a hash of 64 bits: names that differ are taken for one by chance only (2^-64 for each pair).
    """

    def __init__(self, at_hand: int = NAMES_AT_HAND) -> None:
        self._codes: Column[int] = Column("i", UNKNOWN)
        self._at_hand = at_hand
        self._code_of: dict[str, int] = {}
        self._packed = PackedNames()

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
        named = codes != UNKNOWN
        codes[named] = number[codes[named]]
        return codes, self._packed.only(first)

    def _pack(self) -> None:
        self._packed.extend(self._code_of)
        self._code_of = {}


class PackedNames(Sequence[str]):
    """Names as the bytes of their UTF-8, one after another: their bytes and 16 more a name."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._ends = array("q", [0])
        self._hashes = array("Q")

    def extend(self, names: Iterable[str]) -> None:
        """Takes names, whether or not they are there already."""
        for name in names:
            written = name.encode("utf-8", "surrogatepass")
            self._text += written
            self._ends.append(len(self._text))
            self._hashes.frombytes(hashlib.blake2b(written, digest_size=_HASH_BYTES).digest())

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where each name is first, in that order, and for every place its name's number in that order."""
        _, first, number = np.unique(as_column(self._hashes), return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return first[order], rank[number.reshape(-1)]

    def only(self, places: NDArray[np.int64]) -> PackedNames:
        """The names at `places`, which rise; the others are let go."""
        kept = PackedNames()
        for start, stop in zip(
            as_column(self._ends)[places].tolist(), as_column(self._ends)[places + 1].tolist(), strict=True
        ):
            kept._text += self._text[start:stop]
            kept._ends.append(len(kept._text))
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
        return self._text[self._ends[place] : self._ends[place + 1]].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))
