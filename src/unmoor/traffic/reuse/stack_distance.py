"""Where each reused block stands in the stack of a least-recently-used pool: what capacity it takes to hit it.

Mattson, Gecsei, Slutz and Traiger, Evaluation techniques for storage hierarchies (IBM Systems Journal 9, 1970): one
stack, the most recent first, tells the hits of every capacity at once. Here whole runs of blocks are placed in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.reuse.runs import NEVER, Column, Runs, Whole
from unmoor.traffic.scratch import MEMORY, STRETCH, Growing, Scratch


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

    row: Column
    place: Whole
    count: Column
    tokens: Column

    def of_rows(self, kept: NDArray[np.bool_], scratch: Scratch = MEMORY) -> Reuses:
        """Those of some requests: `kept` is one boolean a run."""
        row, place, count, tokens = (
            scratch.kept(column, kept) for column in (self.row, self.place, self.count, self.tokens)
        )
        return Reuses(row=row, place=place, count=count, tokens=tokens)


def reuses_of(runs: Runs, lengths: Whole, same: Column, rule: CacheRule, scratch: Scratch = MEMORY) -> Reuses:
    """The reused blocks of prompts of `lengths` tokens, placed in the stack.

    `same[i]` is the last request before i that ended where i does, or NEVER. A request touches its blocks from the last
    to the first. Block k of request r, last touched by q, then has before it k blocks of q's own (on r's path too), and
    those first touched since q that are not on q's path: the blocks of the requests in between whose own predecessor
    is older than q. Over all requests before r, blocks with a predecessor older than q are these and all blocks of
    the requests up to q; so one sum over earlier runs with smaller predecessor serves.
    """
    touched = _touched_by_rule(runs, lengths, same, rule, scratch)
    place, count = _since(touched, lengths, rule, scratch), scratch.zeros(len(touched.row), touched.first.dtype)
    served = np.zeros(len(count), dtype=np.bool_)
    for some in scratch.stretches(len(count)):
        place[some] += touched.first[some]
        count[some] = _served(touched, some, lengths, rule)
        served[some] = count[some] > 0
    found = Reuses(row=touched.row, place=place, count=count, tokens=touched.tokens)
    return found if served.all() else found.of_rows(served, scratch)


def reused_blocks(runs: Runs, lengths: Whole, same: Column, rule: CacheRule, scratch: Scratch = MEMORY) -> int:
    """How many blocks of all prompts a cache without a limit serves: the sum of the counts of `reuses_of`."""
    touched, blocks = _touched_by_rule(runs, lengths, same, rule, scratch), 0
    for some in scratch.stretches(len(touched.row)):
        blocks += int(np.maximum(_served(touched, some, lengths, rule), 0).sum(dtype=np.int64))
    return blocks


@dataclass(frozen=True, slots=True, eq=False)
class _Touched:
    """Runs of blocks, `first` to `stop` of request `row`, of `tokens` each, last touched by request `by`."""

    row: Column
    first: Column
    stop: Column
    by: Column
    tokens: Column


def _touched_by_rule(runs: Runs, lengths: Whole, same: Column, rule: CacheRule, scratch: Scratch) -> _Touched:
    touched = _touched(runs, rule.block_tokens, scratch)
    return _with_partial(touched, lengths, same, rule.block_tokens, scratch) if rule.partial else touched


def _served(touched: _Touched, some: slice, lengths: Whole, rule: CacheRule) -> Column:
    """How many blocks of each of some runs may be served, or less than one where none may."""
    stop: Column = touched.stop[some]
    if rule.last_computed:
        stop = np.minimum(np.maximum(lengths[touched.row[some]] - 1, 0) // rule.block_tokens, stop)
    return stop - touched.first[some]


def _touched(runs: Runs, size: int, scratch: Scratch) -> _Touched:
    """The runs in full blocks: block k is shared as far as its last token is."""
    first, stop = scratch.copy(runs.begin), scratch.copy(runs.end)
    filled = np.zeros(len(first), dtype=np.bool_)
    for some in scratch.stretches(len(first)):
        first[some] //= size
        stop[some] //= size
        filled[some] = stop[some] > first[some]
    row, by = runs.row, runs.by
    if not filled.all():
        row, first, stop, by = (scratch.kept(column, filled) for column in (row, first, stop, by))
    return _Touched(
        row=row, first=first, stop=stop, by=by, tokens=np.broadcast_to(runs.end.dtype.type(size), row.shape)
    )


def _with_partial(touched: _Touched, lengths: Whole, same: Column, size: int, scratch: Scratch) -> _Touched:
    """The last, partial block of each prompt is one more run, of the last that ended there too."""
    full = (touched.row, touched.first, touched.stop, touched.by, touched.tokens)
    columns = [Growing(column.dtype, scratch) for column in full]
    for some in scratch.stretches(len(lengths)):
        lasts = lengths[some] % size
        last = np.flatnonzero((lasts > 0) & (same[some] != NEVER))
        place = lengths[some][last] // size
        added = (some.start + last, place, place + 1, same[some][last], lasts[last])
        these = slice(*np.searchsorted(touched.row, (some.start, some.stop)).tolist())
        pairs = [np.concatenate((column[these], more)) for column, more in zip(full, added, strict=True)]
        order = np.argsort(pairs[0], kind="stable")  # behind its prompt's other runs
        for column, pair in zip(columns, pairs, strict=True):
            column.extend(pair[order])
    return _Touched(*(column.rows for column in columns))


def _since(touched: _Touched, lengths: Whole, rule: CacheRule, scratch: Scratch) -> NDArray[np.int64]:
    """For each run, the blocks first touched between `by` and `row` that are not on the path of `by`."""
    rows, size = len(touched.row), rule.block_tokens
    blocks, count = scratch.zeros(len(lengths), lengths.dtype), scratch.zeros(rows, touched.first.dtype)
    for some in scratch.stretches(len(lengths)):
        blocks[some] = -(-lengths[some] // size) if rule.partial else lengths[some] // size
    for some in scratch.stretches(rows):
        count[some] = touched.stop[some] - touched.first[some]
    since = smaller_before(touched.by, count, keys=len(blocks), scratch=scratch)
    new = scratch.copy(blocks)  # those of a request's blocks that nobody had touched
    for some in scratch.stretches(rows):
        np.subtract.at(new, touched.row[some], count[some])
    del count
    sums = _sums_before(new, scratch)
    for some in scratch.stretches(rows):
        since[some] += sums[touched.row[some]]
    del new, sums
    sums = _sums_before(blocks, scratch)[1:]
    for some in scratch.stretches(rows):
        since[some] -= sums[touched.by[some]]
    return since


_CHUNK = 1 << 16
_CHUNKS = 64
"""No more of them than that: each costs a sum over all keys."""


def smaller_before(
    key: Column, weight: Column, *, keys: int, chunk: int | None = None, scratch: Scratch = MEMORY
) -> NDArray[np.int64]:
    """For each place i, the sum of the weights at places before i whose key is smaller than that at i.

    Keys are at least 0 and below `keys`. Chunk by chunk, so that memory stays at 8 bytes a key and 8 a place, of
    `scratch`: what came in earlier chunks is summed by key, what came in the same is sorted out within it.
    """
    chunk = chunk or max(_CHUNK, len(key) // _CHUNKS)
    owed = scratch.zeros(len(key), np.int64)
    earlier = scratch.zeros(keys, np.int64)
    for start in range(0, len(key), chunk):
        these, weights = key[start : start + chunk], weight[start : start + chunk]
        owed[start : start + chunk] = _smaller_within(these, weights)
        if start:
            owed[start : start + chunk] += _sums_below(these, earlier, scratch)
        np.add.at(earlier, these, weights)
    return owed


def _sums_below(key: Column, of_key: NDArray[np.int64], scratch: Scratch) -> NDArray[np.int64]:
    """For each key, the sum of what is said of smaller ones."""
    if len(of_key) <= STRETCH:
        return _sums_before(of_key)[key]
    order = np.argsort(key)
    rising = key[order]
    below, carried = np.empty(len(key), dtype=np.int64), 0
    for some in scratch.stretches(len(of_key)):
        sums = _sums_before(of_key[some])
        here = slice(*np.searchsorted(rising, (some.start, some.stop)).tolist())
        below[order[here]] = carried + sums[rising[here] - some.start]
        carried += int(sums[-1])
    return below


def _smaller_within(key: Column, weight: Column) -> NDArray[np.int64]:
    """The same of few places, in O(n log n) whole-array steps.

    A merge of all halves, quarters, ... at once: from the order of keys, places are parted by their highest bit, then
    within each part by the next; at each bit a place with a 1 is owed the weight of those with a 0 that precede it.
    """
    size = len(key)
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


def _sums_before(column: NDArray[np.bool_] | Column, scratch: Scratch = MEMORY) -> NDArray[np.int64]:
    """One longer than the column: at i, the sum of all before i."""
    sums, carried = scratch.zeros(len(column) + 1, np.int64), 0
    for some in scratch.stretches(len(column)):
        these = sums[some.start + 1 : some.stop + 1]
        np.cumsum(column[some], out=these)
        these += carried
        carried = int(these[-1])
    return sums
