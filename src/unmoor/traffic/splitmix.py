"""splitmix64's finisher, by Steele, Lea and Flood (OOPSLA 2014): each bit of a value changes half of the outcome's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The values mixed, so that 0 does not stay 0; they themselves are left as they are."""
    return mix_in_place(values + GOLDEN)


def mix_in_place(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The values mixed, in their own memory; 0 stays 0."""
    values ^= values >> _SHIFTS[0]
    values *= _MIX_1
    values ^= values >> _SHIFTS[1]
    values *= _MIX_2
    values ^= values >> _SHIFTS[2]
    return values
