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
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.tree import NO_PARENT, ROOT, PromptTree

Whole = NDArray[np.int64] | NDArray[np.int32]
Column = NDArray[np.signedinteger[Any]]
"""Whole numbers, as narrow as will hold them: a log of millions of requests has several runs a request."""

NEVER = -1
"""In place of a request: none."""

NARROW = 2**31 - 1
"""Prompts shorter than this have columns of 32 bits, which then hold a block of one token more than the longest."""


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


def runs_of(tree: PromptTree, nodes: NDArray[np.int32], salt: Whole | None = None) -> Runs:
    """The runs of requests that walk `tree` to `nodes`, one after another; under different salts nothing is shared."""
    walk = _Walk(tree, heavy_paths(tree, nodes))
    if salt is None:
        walk.over(range(len(nodes)), nodes.data, repeat(0, len(nodes)))
    else:
        order = np.argsort(salt, kind="stable")
        walk.over(order.data, nodes[order].data, salt[order].data)
    return walk.found(sort=salt is not None)


def heavy_paths(tree: PromptTree, nodes: NDArray[np.int32]) -> HeavyPaths:
    """Paths along each node's most walked child, so that a walk from the root meets at most log2(requests) + 1."""
    parent = tree.parent
    visits = walks(tree, nodes)
    heavy = np.full(len(parent), NO_PARENT, dtype=np.int32)
    rising = np.argsort(visits, kind="stable").astype(np.int32)
    rising = rising[rising != ROOT]
    heavy[parent[rising]] = rising  # of a node's children the last to be written stays: the most walked
    top = np.arange(len(parent), dtype=np.int32)
    follows = heavy[parent] == top
    follows[ROOT] = False
    top[follows] = parent[follows]
    while not np.array_equal(higher := top[top], top):
        top = higher
    return HeavyPaths(top=top, visits=visits)


def walks(tree: PromptTree, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
    """How many of the walks from the root to `nodes` pass through each node or end there."""
    passed = np.bincount(nodes, minlength=len(tree)).astype(np.int32)
    for level in reversed(_levels(tree.parent)[1:]):
        np.add.at(passed, tree.parent[level], passed[level])
    return passed


def _levels(parent: NDArray[np.int32]) -> list[NDArray[np.int32]]:
    """The nodes by their distance from the root, the root alone first."""
    depth = (parent >= 0).astype(np.int32)
    above = np.maximum(parent, ROOT)
    while np.any(step := depth[above]):
        depth += step
        above = above[above]
    order = np.argsort(depth, kind="stable").astype(np.int32)
    return np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)


class _Walk:
    """The requests so far as stacks, one a heavy path; all stacks are linked lists in the same columns."""

    def __init__(self, tree: PromptTree, paths: HeavyPaths) -> None:
        tokens = "i" if int(tree.end.max()) < NARROW else "q"
        self._parent = tree.parent.data
        self._end = tree.end.data
        self._top = paths.top.data
        self._visits = paths.visits.data
        self._newest = array("i", [NEVER]) * len(tree)  # of the path that begins at a node
        self._older = array("i")
        self._by = array("i")
        self._left_at = array(tokens)
        self._found = (array("i"), array(tokens), array(tokens), array("i"))

    def over(self, rows: Iterable[int], nodes: Iterable[int], salts: Iterable[int]) -> None:
        """Walks all requests, one salt after another: the stacks of earlier salts count as empty."""
        parent, top, visits = self._parent, self._top, self._visits
        bottom, of_salt = 0, None
        for row, node, salt in zip(rows, nodes, salts, strict=True):
            if salt != of_salt:
                bottom, of_salt = len(self._by), salt
            stops = [node]  # the last node on each of its paths, the deepest first
            while path := top[stops[-1]]:
                stops.append(parent[path])
            for stop in reversed(stops):
                if visits[path := top[stop]] > 1:
                    self._visit(row, path, stop, bottom)

    def _visit(self, row: int, path: int, stop: int, bottom: int) -> None:
        older, by, left_at = self._older, self._by, self._left_at
        at_row, at_begin, at_end, at_by = self._found
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
        self._newest[path] = len(by)
        older.append(entry)
        by.append(row)
        left_at.append(leaves_at)

    def found(self, *, sort: bool) -> Runs:
        """What was found, in order, runs that continue over the end of a path joined. The walk is over then."""
        del self._top, self._visits, self._newest, self._older, self._by, self._left_at
        columns = [np.frombuffer(column, dtype=column.typecode) for column in self._found]
        del self._found
        if sort:
            order = np.argsort(columns[0], kind="stable")
            for place, column in enumerate(columns):
                columns[place] = column[order]
        row, begin, end, by = columns
        starts = np.ones(len(row), dtype=np.bool_)
        starts[1:] = (row[1:] != row[:-1]) | (by[1:] != by[:-1])
        if starts.all():
            return Runs(row=row, begin=begin, end=end, by=by)
        last = np.append(starts[1:], True)[: len(row)]
        return Runs(row=row[starts], begin=begin[starts], end=end[last], by=by[starts])
