"""Where a prompt tree keeps its symbols when a log is larger than memory: in memory, then in a file without a name.

The file holds keyed hashes and no text. It is readable by its owner only, has no name from the start where the system
can do that, and is gone when the process ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
from array import array
from types import TracebackType
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from unmoor.cli.scratch_files import no_room

IN_MEMORY = 16 * 1024 * 1024
"""Symbols kept in memory, of 8 bytes each, before the first go to the file; after that, a quarter of it at a time."""

_SYMBOL_BYTES = 8


class SymbolFile:
    """A SymbolStore whose memory does not grow with the log."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._most = in_memory
        self._tail = array("Q")
        self._spilled = 0  # symbols in the file
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, symbols: NDArray[np.uint64]) -> int:
        """Keeps `symbols` after those already kept, and says the place of the first. Raises RunError."""
        place = self._spilled + len(self._tail)
        self._tail.frombytes(symbols.data.cast("B"))
        if len(self._tail) > (self._most if self._file is None else self._most // 4):
            self._spill()
        return place

    def at(self, place: int) -> int:
        """The symbol at `place`."""
        if place >= self._spilled:
            return self._tail[place - self._spilled]
        if self._file is None:
            raise IndexError(place)
        return int.from_bytes(os.pread(self._file.fileno(), _SYMBOL_BYTES, place * _SYMBOL_BYTES), sys.byteorder)

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="unmoor-", buffering=0)  # noqa: SIM115 - closed by __exit__
            left = memoryview(self._tail).cast("B")
            while left:
                left = left[self._file.write(left) :]
        except OSError as failure:
            raise no_room(failure) from None
        self._spilled += len(self._tail)
        self._tail = array("Q")
