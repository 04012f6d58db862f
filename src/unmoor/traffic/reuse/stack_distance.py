"""Where each reused block stands in the stack of a least-recently-used pool: what capacity it takes to hit it.

Mattson, Gecsei, Slutz and Traiger, Evaluation techniques for storage hierarchies (IBM Systems Journal 9, 1970): one
stack, the most recent first, tells the hits of every capacity at once. Here whole runs of blocks are placed in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.reuse.runs import NEVER, Column, Runs, Whole


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

    def of_rows(self, kept: NDArray[np.bool_]) -> Reuses:
        """Those of some requests: `kept` is one boolean a run."""
        return Reuses(row=self.row[kept], place=self.place[kept], count=self.count[kept], tokens=self.tokens[kept])


def reuses_of(runs: Runs, lengths: Whole, same: Column, rule: CacheRule) -> Reuses:
    """The reused blocks of prompts of `lengths` tokens, placed in the stack.

    `same[i]` is the last request before i that ended where i does, or NEVER. A request touches its blocks from the last
    to the first. Block k of request r, last touched by q, then has before it k blocks of q's own (on r's path too), and
    those first touched since q that are not on q's path: the blocks of the requests in between whose own predecessor
    is older than q. Over all requests before r, blocks with a predecessor older than q are these and all blocks of
    the requests up to q; so one sum over earlier runs with smaller predecessor serves.
    """
    size = rule.block_tokens
    touched = _touched_by_rule(runs, lengths, same, rule)
    blocks = -(-lengths // size) if rule.partial else lengths // size
    place = _since(touched, blocks)
    place += touched.first
    count = _served(touched, lengths, rule)
    found = Reuses(row=touched.row, place=place, count=count, tokens=touched.tokens)
    del touched, place
    served = count > 0
    return found if served.all() else found.of_rows(served)


def reused_blocks(runs: Runs, lengths: Whole, same: Column, rule: CacheRule) -> int:
    """How many blocks of all prompts a cache without a limit serves: the sum of the counts of `reuses_of`."""
    return int(np.maximum(_served(_touched_by_rule(runs, lengths, same, rule), lengths, rule), 0).sum(dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class _Touched:
    """Runs of blocks, `first` to `stop` of request `row`, of `tokens` each, last touched by request `by`."""

    row: Column
    first: Column
    stop: Column
    by: Column
    tokens: Column


def _touched_by_rule(runs: Runs, lengths: Whole, same: Column, rule: CacheRule) -> _Touched:
    touched = _touched(runs, rule.block_tokens)
    return _with_partial(touched, lengths, same, rule.block_tokens) if rule.partial else touched


def _served(touched: _Touched, lengths: Whole, rule: CacheRule) -> Column:
    """How many blocks of each run may be served, or less than one where none may."""
    if not rule.last_computed:
        return touched.stop - touched.first
    stop: Column = (np.maximum(lengths - 1, 0) // rule.block_tokens)[touched.row]
    np.minimum(stop, touched.stop, out=stop)
    stop -= touched.first
    return stop


def _touched(runs: Runs, size: int) -> _Touched:
    """The runs in full blocks: block k is shared as far as its last token is."""
    first, stop = runs.begin // size, runs.end // size
    row, by, filled = runs.row, runs.by, stop > first
    if not filled.all():
        row, first, stop, by = row[filled], first[filled], stop[filled], by[filled]
    return _Touched(
        row=row, first=first, stop=stop, by=by, tokens=np.broadcast_to(runs.end.dtype.type(size), row.shape)
    )


def _with_partial(touched: _Touched, lengths: Whole, same: Column, size: int) -> _Touched:
    """The last, partial block of each prompt is one more run, of the last that ended there too."""
    last = np.flatnonzero((lengths % size > 0) & (same != NEVER))
    place = lengths[last] // size
    added = (last, place, place + 1, same[last], lengths[last] % size)
    kept = (touched.row, touched.first, touched.stop, touched.by, touched.tokens)
    columns = [np.concatenate(pair, dtype=pair[0].dtype, casting="same_kind") for pair in zip(kept, added, strict=True)]
    order = np.argsort(columns[0], kind="stable")  # behind its prompt's other runs
    return _Touched(*(column[order] for column in columns))


def _since(touched: _Touched, blocks: Whole) -> NDArray[np.int64]:
    """For each run, the blocks first touched between `by` and `row` that are not on the path of `by`."""
    count = touched.stop - touched.first
    since = smaller_before(touched.by, count, keys=len(blocks))
    new = blocks.copy()  # those of a request's blocks that nobody had touched
    np.subtract.at(new, touched.row, count)
    del count
    sums = _sums_before(new)
    for some in _stretches(len(since)):
        since[some] += sums[touched.row[some]]
    sums = _sums_before(blocks)[1:]
    for some in _stretches(len(since)):
        since[some] -= sums[touched.by[some]]
    return since


def _stretches(size: int) -> Iterator[slice]:
    """Rows in slices, so that what is worked out for a row takes no memory a row."""
    return (slice(start, start + _CHUNK) for start in range(0, size, _CHUNK))


_CHUNK = 1 << 16
_CHUNKS = 64
"""No more of them than that: each costs a sum over all keys."""


def smaller_before(key: Column, weight: Column, *, keys: int, chunk: int | None = None) -> NDArray[np.int64]:
    """For each place i, the sum of the weights at places before i whose key is smaller than that at i.

    Keys are at least 0 and below `keys`. Chunk by chunk, so that memory stays at 8 bytes a key and 8 a place: what came
    in earlier chunks is summed by key, what came in the same is sorted out within it.
    """
    chunk = chunk or max(_CHUNK, len(key) // _CHUNKS)
    owed = np.empty(len(key), dtype=np.int64)
    earlier = np.zeros(keys, dtype=np.int64)
    for start in range(0, len(key), chunk):
        these, weights = key[start : start + chunk], weight[start : start + chunk]
        owed[start : start + chunk] = _smaller_within(these, weights)
        if start:
            owed[start : start + chunk] += _sums_before(earlier)[these]
        np.add.at(earlier, these, weights)
    return owed


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


def _sums_before(column: NDArray[np.bool_] | Column) -> NDArray[np.int64]:
    """One longer than the column: at i, the sum of all before i."""
    sums = np.zeros(len(column) + 1, dtype=np.int64)
    np.cumsum(column, out=sums[1:])
    return sums
