"""The first few rows of a long column in some order, without sorting all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.scratch import MEMORY, Scratch

Rows = NDArray[np.int64]
Keys = Callable[[Rows], tuple[NDArray[Any], ...]]
"""By what some rows are ordered, the first key before the others; the smallest come first."""


def foremost(size: int, count: int, keys: Keys, scratch: Scratch = MEMORY) -> Rows:
    """The `count` of `size` rows that come first, in order; of equal ones the earlier row."""
    first: Rows = np.zeros(0, dtype=np.int64)
    for some in scratch.stretches(size):
        rows = np.concatenate((first, np.arange(some.start, some.stop)))
        first = rows[np.lexsort((rows, *reversed(keys(rows))))[:count]]
    return first
