"""Which rows of a column are equal: each row's first equal one, its last one before, and numbers for distinct ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.scratch import MEMORY, STRETCH, Scratch

NONE_BEFORE = -1

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_KEY_BITS = 64


def first_equal(keys: NDArray[np.uint64], scratch: Scratch = MEMORY) -> NDArray[np.int32]:
    """For each row the first row with the same key.

    Keys are parted by a hash of theirs into parts of a stretch or so, each looked at by itself: a pass over all keys a
    part.
    """
    bits = max(0, (len(keys) - 1) // STRETCH).bit_length()
    first = scratch.zeros(len(keys), np.int32)
    for part in range(1 << bits):
        rows = np.concatenate([np.zeros(0, dtype=np.int64), *_of_part(keys, part, bits, scratch)])
        _, firsts, number = np.unique(keys[rows], return_index=True, return_inverse=True)
        first[rows] = rows[firsts][number.reshape(-1)]
        scratch.let_go()
    return first


def _of_part(keys: NDArray[np.uint64], part: int, bits: int, scratch: Scratch) -> list[NDArray[np.int64]]:
    if not bits:
        return [np.arange(len(keys))]
    shift = np.uint64(_KEY_BITS - bits)
    return [
        some.start + np.flatnonzero(keys[some] * _SPREAD >> shift == np.uint64(part))
        for some in scratch.stretches(len(keys))
    ]


def numbered(first: NDArray[np.int32], scratch: Scratch = MEMORY) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Of `first_equal`: the rows that are the first of theirs, in order; and for each row the number of its first."""
    number, count = scratch.zeros(len(first), np.int32), 0
    for some in scratch.stretches(len(first)):
        own = first[some] == np.arange(some.start, some.stop)
        number[some] = count + np.cumsum(own) - 1
        count += int(np.count_nonzero(own))
    firsts, at = scratch.zeros(count, np.int64), 0
    for some in scratch.stretches(len(first)):
        rows = some.start + np.flatnonzero(first[some] == np.arange(some.start, some.stop))
        firsts[at : at + len(rows)] = rows
        at += len(rows)
    return firsts, scratch.taken(number, first)


def last_before(codes: NDArray[np.int32], distinct: int, scratch: Scratch = MEMORY) -> NDArray[np.int32]:
    """For each row the last row before it with the same code, of 0 to `distinct` - 1, or NONE_BEFORE."""
    latest = scratch.full(distinct, NONE_BEFORE, np.int32)
    before = scratch.zeros(len(codes), np.int32)
    for some in scratch.stretches(len(codes)):
        these = codes[some]
        order = np.argsort(these, kind="stable")
        rows, sorted_codes = (some.start + order).astype(np.int32), these[order]
        starts = np.append(True, sorted_codes[1:] != sorted_codes[:-1])[: len(order)]
        found = np.empty(len(order), dtype=np.int32)
        found[1:] = rows[:-1]
        found[starts] = latest[sorted_codes[starts]]
        before[rows] = found
        lasts = np.append(starts[1:], True)[: len(order)]
        latest[sorted_codes[lasts]] = rows[lasts]
    return before
