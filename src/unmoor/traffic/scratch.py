"""Where arrays are kept that grow with a log: in memory, or wherever the caller puts what is larger than memory.

Analyses work through such arrays in stretches, so that what they need beside them does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

STRETCH = 1 << 18
"""Rows that are worked on at a time."""

_FEWEST = 1 << 10
_Item = TypeVar("_Item", bound=np.generic)


class Scratch:
    """Gives arrays in memory; a subclass may put large ones elsewhere, to the same results."""

    def zeros(self, size: int, dtype: DTypeLike) -> NDArray[Any]:
        """A writeable array of `size` zeros. Raises RunError where there is no room for it."""
        return np.zeros(size, dtype=dtype)

    def let_go(self) -> None:
        """Says that what was touched so far is not needed soon, so that it need not stay in memory."""

    def full(self, size: int, value: float, dtype: DTypeLike) -> NDArray[Any]:
        """An array of `size` times the value."""
        made = self.zeros(size, dtype)
        for some in self.stretches(size):
            made[some] = value
        return made

    def copy(self, values: NDArray[_Item], *, size: int | None = None) -> NDArray[_Item]:
        """The same values in an array of its own; with a larger `size` zeros follow them."""
        made = self.zeros(len(values) if size is None else size, values.dtype)
        for some in self.stretches(len(values)):
            made[some] = values[some]
        return made

    def taken(self, values: NDArray[_Item], rows: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """`values[rows]`, as `dtype` where that is another."""
        made = self.zeros(len(rows), values.dtype if dtype is None else dtype)
        for some in self.stretches(len(rows)):
            made[some] = values[rows[some]]
        return made

    def kept(self, values: NDArray[_Item], which: NDArray[np.bool_]) -> NDArray[_Item]:
        """`values[which]`, of a boolean a row."""
        made, at = self.zeros(int(np.count_nonzero(which)), values.dtype), 0
        for some in self.stretches(len(values)):
            chosen = values[some][which[some]]
            made[at : at + len(chosen)] = chosen
            at += len(chosen)
        return made

    def stretches(self, size: int) -> Iterator[slice]:
        """All rows in slices; what a slice touched is let go after it."""
        for start in range(0, size, STRETCH):
            yield slice(start, min(start + STRETCH, size))
            self.let_go()


MEMORY = Scratch()


class Growing:
    """A column that grows at its end, many rows at a time."""

    def __init__(self, dtype: DTypeLike, scratch: Scratch = MEMORY) -> None:
        self._scratch = scratch
        self._values: NDArray[Any] = np.zeros(0, dtype=dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def rows(self) -> NDArray[Any]:
        """The rows so far: until the next `extend` they are those of the column itself."""
        return self._values[: self._size]

    def extend(self, rows: NDArray[Any]) -> None:
        """Takes rows, as the column's own type."""
        size = self._size + len(rows)
        if size > len(self._values):
            self._values = self._scratch.copy(self.rows, size=max(size, 2 * self._size, _FEWEST))
        self._values[self._size : size] = rows
        self._size = size
