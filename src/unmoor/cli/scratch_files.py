"""Arrays larger than memory, in temporary files without a name: what a log of any size is read and profiled in.

A file is readable by its owner only and holds numbers, hashes and the names of sessions and the like, but no prompt. It
has no name from the start where the system can do that, and is gone when nobody uses its array any more, or when the
process ends, however it ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import DTypeLike, NDArray

from unmoor.core.errors import RunError
from unmoor.traffic.scratch import Scratch

LARGEST_IN_MEMORY = 4 * 1024 * 1024
"""Bytes of an array up to which it stays in memory; a profile has up to thirty of them at a time."""

_ZEROS = bytes(1 << 20)


class ScratchFiles(Scratch):
    """Arrays of more than `in_memory` bytes are mapped files: the system writes their pages back where memory is short.

    A file's room on the disk is taken when its array is made, so that a full disk is an error there and then.
    """

    def __init__(self, in_memory: int = LARGEST_IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._maps: WeakSet[mmap.mmap] = WeakSet()

    def zeros(self, size: int, dtype: DTypeLike) -> NDArray[Any]:
        """A writeable array of `size` zeros. Raises RunError where a file has no room for it."""
        nbytes = size * np.dtype(dtype).itemsize
        if nbytes <= self._in_memory or not nbytes:
            return np.zeros(size, dtype=dtype)
        mapped = _mapped(nbytes)
        self._maps.add(mapped)
        return np.frombuffer(mapped, dtype=dtype)

    def let_go(self) -> None:
        """Takes the files' pages out of this process; they stay in the system's cache while it has room."""
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)  # of a shared mapping: what was written is kept


def _mapped(nbytes: int) -> mmap.mmap:
    try:
        with tempfile.TemporaryFile(prefix="unmoor-", buffering=0) as file:
            _take_room(file.fileno(), nbytes)
            return mmap.mmap(file.fileno(), nbytes)
    except OSError as failure:
        raise no_room(failure) from None


def _take_room(file: int, nbytes: int) -> None:
    """Without room on the disk a page that is written later would end the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, nbytes)
        return
    left = nbytes
    while left:
        left -= os.write(file, _ZEROS[:left])


def no_room(failure: OSError) -> RunError:
    """The error for a temporary file that cannot be made or written, which says where, and how to have it elsewhere."""
    return RunError(
        "no room for a temporary file",
        where=tempfile.gettempdir(),
        seen=failure.strerror or type(failure).__name__,
        expected="room for what is kept of each request of a large log: up to 200 bytes, and hashes of its text",
        hint="set TMPDIR to a folder with more room, on a disk",
    )
