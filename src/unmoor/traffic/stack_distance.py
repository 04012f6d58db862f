"""Where each reused block stands in the stack of a least-recently-used pool: what capacity it takes to hit it.

Mattson, Gecsei, Slutz and Traiger, Evaluation techniques for storage hierarchies (IBM Systems Journal 9, 1970): one
stack, the most recent first, tells the hits of every capacity at once. Here whole runs of blocks are placed in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.runs import NEVER, Runs, Whole


@dataclass(frozen=True, slots=True)
class CacheRule:
    """What a cache holds and serves.

    Content is cached in blocks of `block_tokens`. With `partial`, a prompt's last block is a block even where it is not
    full, equal only to the last block of a prompt that ends at the same place: the rule of block traces. Without, as in
    engines, only full blocks are cached. With `last_computed`, as in engines, a prompt's last token is never served.
    """

    block_tokens: int
    partial: bool = False
    last_computed: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Reuses:
    """Runs of blocks that an earlier request touched, one row a run.

    Blocks of `tokens` each, `count` of them: the first is hit by a pool of more than `place` blocks, the next by one of
    more than `place` + 1, and so on. `row` is the request that reuses them.
    """

    row: Whole
    place: Whole
    count: Whole
    tokens: Whole


def reuses_of(runs: Runs, lengths: Whole, same: Whole, rule: CacheRule) -> Reuses:
    """The reused blocks of prompts of `lengths` tokens, placed in the stack.

    `same[i]` is the last request before i that ended where i does, or NEVER. A request touches its blocks from the last
    to the first. Block k of request r, last touched by q, then has before it k blocks of q's own (on r's path too), and
    those first touched since q that are not on q's path: the blocks of the requests in between whose own predecessor
    is older than q. Over all requests before r, blocks with a predecessor older than q are these and all blocks of
    the requests up to q; so one sum over earlier runs with smaller predecessor serves.
    """
    size = rule.block_tokens
    blocks = lengths // size
    row, by, first, stop = runs.row, runs.by, runs.begin // size, runs.end // size
    tokens = np.full(len(row), size, dtype=np.int64)
    if rule.partial:
        last = np.flatnonzero((lengths % size > 0) & (same != NEVER))
        row, by = np.append(row, last), np.append(by, same[last])
        first, stop = np.append(first, blocks[last]), np.append(stop, blocks[last] + 1)
        tokens = np.append(tokens, lengths[last] % size)
        blocks = blocks + (lengths % size > 0)
    filled = np.flatnonzero(stop > first)
    order = filled[np.lexsort((first[filled], row[filled]))]
    row, by, first, stop, tokens = row[order], by[order], first[order], stop[order], tokens[order]
    place = first + _since(row, by, stop - first, blocks)
    if rule.last_computed:
        stop = np.minimum(stop, np.maximum(lengths - 1, 0)[row] // size)
        served = stop > first
        row, place, first, stop, tokens = row[served], place[served], first[served], stop[served], tokens[served]
    return Reuses(row=row, place=place, count=stop - first, tokens=tokens)


def _since(row: Whole, by: Whole, count: Whole, blocks: Whole) -> Whole:
    """For each run, the blocks first touched between `by` and `row` that are not on the path of `by`."""
    old = np.bincount(row, weights=count, minlength=len(blocks)).astype(np.int64)
    new = _sums_before(blocks - old)  # blocks that nobody touched before, of all requests before each
    up_to = _sums_before(blocks)
    since: Whole = new[row] + smaller_before(by, count) - up_to[by + 1]
    return since


def smaller_before(key: Whole, weight: Whole) -> Whole:
    """For each place i, the sum of the weights at places before i whose key is smaller than that at i.

    A merge of all halves, quarters, ... at once: from the order of keys, places are parted by their highest bit, then
    within each part by the next, and at each bit a place with a 1 is owed the weight of those with a 0 that precede it.
    O(n log n) in whole-array steps.
    """
    size = len(key)
    if not size:
        return np.zeros(0, dtype=np.int64)
    index = np.arange(size)
    place = index[::-1][np.argsort(key[::-1], kind="stable")]  # of equal keys the later first: they owe it nothing
    owed = np.zeros(size, dtype=np.int64)
    for bit in range((size - 1).bit_length() - 1, -1, -1):
        upper = (place >> bit & 1).astype(np.bool_)
        part = place >> (bit + 1) << (bit + 1)  # where this place's part begins: all parts before it are whole
        zeros = _sums_before(~upper)
        lower_weight = _sums_before(np.where(upper, 0, weight[place]))
        owed[place[upper]] += (lower_weight[:-1] - lower_weight[part])[upper]
        in_zeros = zeros[:-1] - zeros[part]
        target = part + np.where(upper, (1 << bit) + index - part - in_zeros, in_zeros)
        parted = np.empty_like(place)
        parted[target] = place
        place = parted
    return owed


def _sums_before(column: NDArray[np.bool_] | Whole) -> Whole:
    """One longer than the column: at i, the sum of all before i."""
    sums = np.zeros(len(column) + 1, dtype=np.int64)
    np.cumsum(column, out=sums[1:])
    return sums
