"""Who walked each stretch of a prompt last: what decides where its blocks stand in a least-recently-used pool.

Along a prompt, the earlier request that walked there last is ever older with depth, so a prompt falls into few runs of
one and the same predecessor: O(log requests) of them amortised over a log (as the paths of a link-cut tree are),
however long the prompts.

Found in one pass over the requests on the heavy paths of the tree: on a path, of two earlier requests the one that was
earlier and left sooner can never be a predecessor again, so a path keeps a stack, the deeper the older. A request pops
those that left before it does, each a run, and is pushed itself; it meets at most log2(requests) paths.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.scratch import MEMORY, STRETCH, Growing, Scratch
from unmoor.traffic.tree import NO_PARENT, ROOT, PromptTree

Whole = NDArray[np.int64] | NDArray[np.int32]
Column = NDArray[np.signedinteger[Any]]
"""Whole numbers, as narrow as will hold them: a log of millions of requests has several runs a request."""

NEVER = -1
"""In place of a request: none."""

NARROW = 2**31 - 1
"""Prompts shorter than this have columns of 32 bits, which then hold a block of one token more than the longest."""

_NODE_BITS = 32
_NODE = (1 << _NODE_BITS) - 1
_FEWEST = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """One row a run, in order of requests and then of depth, and the runs of a request without gaps from its start.

    Tokens `begin` to `end` of request `row` were last walked by the earlier request `by`. What follows the last run of
    a request nobody has walked before.
    """

    row: Column
    begin: Column
    end: Column
    by: Column


@dataclass(frozen=True, slots=True, eq=False)
class HeavyPaths:
    """The tree cut into paths: `top[i]` is where node i's path begins, `visits[i]` how many requests walk node i."""

    top: NDArray[np.int32]
    visits: NDArray[np.int32]


def runs_of(tree: PromptTree, nodes: NDArray[np.int32], salt: Whole | None = None, scratch: Scratch = MEMORY) -> Runs:
    """The runs of requests that walk `tree` to `nodes`, one after another; under different salts nothing is shared."""
    walk = _Walk(tree, heavy_paths(tree, nodes, scratch), scratch)
    if salt is None:
        for some in scratch.stretches(len(nodes)):
            walk.over(range(some.start, some.stop), nodes[some].data, repeat(0, some.stop - some.start))
    else:
        order = scratch.copy(np.argsort(salt, kind="stable"))
        for some in scratch.stretches(len(nodes)):
            rows = order[some]
            walk.over(rows.data, nodes[rows].data, salt[rows].data)
    return walk.found(sort=salt is not None)


def heavy_paths(tree: PromptTree, nodes: NDArray[np.int32], scratch: Scratch = MEMORY) -> HeavyPaths:
    """Paths along each node's most walked child, so that a walk from the root meets at most log2(requests) + 1."""
    parent, size = tree.parent, len(tree)
    visits = walks(tree, nodes, scratch)
    heaviest = scratch.full(size, NO_PARENT, np.int64)  # of its children: how often it is walked, and its number
    for some in _below_root(scratch, size):
        numbers = np.arange(some.start, some.stop)
        np.maximum.at(heaviest, parent[some], (visits[some].astype(np.int64) << _NODE_BITS) + numbers)
    top = scratch.zeros(size, np.int32)
    for some in _below_root(scratch, size):
        numbers, above = np.arange(some.start, some.stop, dtype=np.int32), parent[some]
        top[some] = np.where(heaviest[above] & _NODE == numbers, above, numbers)
    del heaviest
    changed = True
    while changed:
        changed = False
        for some in scratch.stretches(size):
            higher = top[top[some]]
            changed = changed or not np.array_equal(higher, top[some])
            top[some] = higher
    return HeavyPaths(top=top, visits=visits)


def walks(tree: PromptTree, nodes: NDArray[np.int32], scratch: Scratch = MEMORY) -> NDArray[np.int32]:
    """How many of the walks from the root to `nodes` pass through each node or end there."""
    passed = scratch.zeros(len(tree), np.int32)
    for some in scratch.stretches(len(nodes)):
        np.add.at(passed, nodes[some], 1)
    order, firsts = _by_depth(tree.parent, scratch)
    for first, end in reversed(list(pairwise(firsts))[1:]):
        for start in range(first, end, STRETCH):
            level = order[start : min(start + STRETCH, end)]
            np.add.at(passed, tree.parent[level], passed[level])
    return passed


def _below_root(scratch: Scratch, size: int) -> Iterator[slice]:
    """All nodes but the root, in stretches."""
    return (slice(max(some.start, ROOT + 1), some.stop) for some in scratch.stretches(size))


def _by_depth(parent: NDArray[np.int32], scratch: Scratch) -> tuple[NDArray[np.int32], list[int]]:
    """The nodes in order of their distance from the root, and where each distance begins, with the end of all."""
    depth = _depths(parent, scratch)
    deepest = max((int(depth[some].max()) for some in scratch.stretches(len(depth))), default=0)
    counts = np.zeros(deepest + 1, dtype=np.int64)
    for some in scratch.stretches(len(depth)):
        counts += np.bincount(depth[some], minlength=deepest + 1)
    firsts = np.append(0, np.cumsum(counts))
    order, free = scratch.zeros(len(depth), np.int32), firsts[:-1].copy()
    for some in scratch.stretches(len(depth)):
        rising = np.argsort(depth[some], kind="stable")
        levels, counts = np.unique(depth[some], return_counts=True)
        within = np.arange(len(rising)) - np.repeat(np.cumsum(counts) - counts, counts)
        order[np.repeat(free[levels], counts) + within] = some.start + rising
        free[levels] += counts
    return order, firsts.tolist()


def _depths(parent: NDArray[np.int32], scratch: Scratch) -> NDArray[np.int32]:
    """Each node's distance from the root, doubling at each pass how far up is looked."""
    depth, above = scratch.zeros(len(parent), np.int32), scratch.zeros(len(parent), np.int32)
    for some in scratch.stretches(len(parent)):
        depth[some] = parent[some] >= 0
        above[some] = np.maximum(parent[some], ROOT)
    higher = True
    while higher:
        higher = False
        further, deeper = scratch.zeros(len(parent), np.int32), scratch.zeros(len(parent), np.int32)
        for some in scratch.stretches(len(parent)):
            step = depth[above[some]]
            higher = higher or bool(step.any())
            deeper[some] = depth[some] + step
            further[some] = above[above[some]]
        depth, above = deeper, further
    return depth


class _Walk:
    """The requests so far as stacks, one a heavy path; all stacks are linked lists in the same columns."""

    def __init__(self, tree: PromptTree, paths: HeavyPaths, scratch: Scratch) -> None:
        self._scratch = scratch
        tokens = "i" if largest(tree.end, scratch) < NARROW else "q"
        self._parent = tree.parent.data
        self._end = tree.end.data
        self._top = paths.top.data
        self._visits = paths.visits.data
        self._newest = scratch.full(len(tree), NEVER, np.int32).data  # of the path that begins at a node
        self._entries = 0
        self._older = scratch.zeros(_FEWEST, np.int32).data
        self._by = scratch.zeros(_FEWEST, np.int32).data
        self._left_at = scratch.zeros(_FEWEST, np.dtype(tokens)).data
        self._latest = (array("i"), array(tokens), array(tokens), array("i"))
        self._found = tuple(Growing(np.dtype(column.typecode), scratch) for column in self._latest)
        self._salt: int | None = None
        self._bottom = 0

    def over(self, rows: Iterable[int], nodes: Iterable[int], salts: Iterable[int]) -> None:
        """Walks some requests, one salt after another: the stacks of earlier salts count as empty."""
        parent, top, visits = self._parent, self._top, self._visits
        for row, node, salt in zip(rows, nodes, salts, strict=True):
            if salt != self._salt:
                self._bottom, self._salt = self._entries, salt
            stops = [node]  # the last node on each of its paths, the deepest first
            while path := top[stops[-1]]:
                stops.append(parent[path])
            for stop in reversed(stops):
                if visits[path := top[stop]] > 1:
                    self._visit(row, path, stop, self._bottom)
        self._pack()

    def _pack(self) -> None:
        for column, latest in zip(self._found, self._latest, strict=True):
            column.extend(np.array(latest, dtype=latest.typecode))
            del latest[:]

    def _widen(self) -> None:
        """Room for twice as many entries."""
        for name in ("_older", "_by", "_left_at"):
            column = np.asarray(getattr(self, name))
            setattr(self, name, self._scratch.copy(column, size=2 * len(column)).data)

    def _visit(self, row: int, path: int, stop: int, bottom: int) -> None:
        new = self._entries
        if new == len(self._by):
            self._widen()
        self._entries = new + 1
        older, by, left_at = self._older, self._by, self._left_at
        at_row, at_begin, at_end, at_by = self._latest
        begin, leaves_at = self._end[self._parent[path]] if path else 0, self._end[stop]
        entry = self._newest[path]
        while entry >= bottom and begin < leaves_at:
            left = left_at[entry]
            end = min(left, leaves_at)
            if end > begin:
                at_row.append(row)
                at_begin.append(begin)
                at_end.append(end)
                at_by.append(by[entry])
                begin = end
            if left > leaves_at:
                break
            entry = older[entry]
        self._newest[path] = new
        older[new] = entry
        by[new] = row
        left_at[new] = leaves_at

    def found(self, *, sort: bool) -> Runs:
        """What was found, in order, runs that continue over the end of a path joined. The walk is over then."""
        scratch = self._scratch
        del self._top, self._visits, self._newest, self._older, self._by, self._left_at
        columns = [column.rows for column in self._found]
        del self._found
        if sort:
            order = scratch.copy(np.argsort(columns[0], kind="stable"))
            for place, column in enumerate(columns):
                columns[place] = scratch.taken(column, order)
            del order
        row, begin, end, by = columns
        starts = np.ones(len(row), dtype=np.bool_)
        for some in scratch.stretches(len(row)):
            rest = slice(max(some.start, 1), some.stop)
            before = slice(rest.start - 1, rest.stop - 1)
            starts[rest] = (row[rest] != row[before]) | (by[rest] != by[before])
        if starts.all():
            return Runs(row=row, begin=begin, end=end, by=by)
        last = np.append(starts[1:], True)[: len(row)]
        return Runs(
            row=scratch.kept(row, starts),
            begin=scratch.kept(begin, starts),
            end=scratch.kept(end, last),
            by=scratch.kept(by, starts),
        )


def largest(values: Column, scratch: Scratch = MEMORY) -> int:
    """The largest of the values, 0 without any."""
    return max((int(values[some].max()) for some in scratch.stretches(len(values))), default=0)
