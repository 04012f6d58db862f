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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.tree import NO_PARENT, ROOT, PromptTree

Whole = NDArray[np.int64]
NEVER = -1
"""In place of a request: none."""


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """One row a run, in order of requests and then of depth, and the runs of a request without gaps from its start.

    Tokens `begin` to `end` of request `row` were last walked by the earlier request `by`. What follows the last run of
    a request nobody has walked before.
    """

    row: Whole
    begin: Whole
    end: Whole
    by: Whole


@dataclass(frozen=True, slots=True, eq=False)
class HeavyPaths:
    """The tree cut into paths: `top[i]` is where node i's path begins, `visits[i]` how many requests walk node i."""

    top: NDArray[np.int32]
    visits: Whole


def runs_of(tree: PromptTree, nodes: NDArray[np.int32], salt: Whole | None = None) -> Runs:
    """The runs of requests that walk `tree` to `nodes`, one after another; under different salts nothing is shared."""
    paths = heavy_paths(tree, nodes)
    walk = _Walk(tree, paths)
    for rows in _groups(salt, len(nodes)):
        walk.group(rows.tolist(), nodes[rows].tolist())
    return walk.runs()


def _groups(salt: Whole | None, size: int) -> list[Whole]:
    """The rows of each salt, in order."""
    if salt is None:
        return [np.arange(size)]
    order = np.argsort(salt, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(salt[order])) + 1)


def heavy_paths(tree: PromptTree, nodes: NDArray[np.int32]) -> HeavyPaths:
    """Paths along each node's most walked child, so that a walk from the root meets at most log2(requests) + 1."""
    parent = tree.parent
    visits = walks(tree, nodes)
    heavy = np.full(len(parent), NO_PARENT, dtype=np.int32)
    rising = np.argsort(visits, kind="stable")
    rising = rising[rising != ROOT]
    heavy[parent[rising]] = rising  # of a node's children the last to be written stays: the most walked
    top = np.arange(len(parent), dtype=np.int32)
    follows = heavy[parent] == top
    follows[ROOT] = False
    top[follows] = parent[follows]
    while not np.array_equal(higher := top[top], top):
        top = higher
    return HeavyPaths(top=top, visits=visits)


def walks(tree: PromptTree, nodes: NDArray[np.int32]) -> Whole:
    """How many of the walks from the root to `nodes` pass through each node or end there."""
    passed = np.bincount(nodes, minlength=len(tree)).astype(np.int64)
    for level in reversed(levels(tree.parent)[1:]):
        np.add.at(passed, tree.parent[level], passed[level])
    return passed


def levels(parent: NDArray[np.int32]) -> list[NDArray[np.int64]]:
    """The nodes by their distance from the root, the root alone first."""
    depth = (parent >= 0).astype(np.int64)
    above = np.maximum(parent, ROOT)
    while np.any(step := depth[above]):
        depth += step
        above = above[above]
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)


class _Walk:
    """The requests so far as stacks, one a heavy path; all stacks are linked lists in the same columns."""

    def __init__(self, tree: PromptTree, paths: HeavyPaths) -> None:
        self._parent = tree.parent.data
        self._end = tree.end.data
        self._top = paths.top.data
        self._visits = paths.visits.data
        self._newest = array("i", [NEVER]) * len(tree)  # of the path that begins at a node
        self._older = array("i")
        self._by = array("i")
        self._left_at = array("q")
        self._found = (array("q"), array("q"), array("q"), array("q"))

    def group(self, rows: list[int], nodes: list[int]) -> None:
        """Walks requests that share among themselves only: the stacks of earlier groups count as empty."""
        parent, end, top, visits = self._parent, self._end, self._top, self._visits
        bottom = len(self._by)
        for row, node in zip(rows, nodes, strict=True):
            below = node
            while True:
                path = top[below]
                begin = end[parent[path]] if path != ROOT else 0
                if visits[path] > 1 and end[below] > begin:
                    self._visit(row, path, begin, end[below], bottom)
                if path == ROOT:
                    break
                below = parent[path]

    def _visit(self, row: int, path: int, begin: int, leaves_at: int, bottom: int) -> None:
        older, by, left_at = self._older, self._by, self._left_at
        at_row, at_begin, at_end, at_by = self._found
        entry = self._newest[path]
        while entry >= bottom and begin < leaves_at:
            left = left_at[entry]
            stop = min(left, leaves_at)
            if stop > begin:
                at_row.append(row)
                at_begin.append(begin)
                at_end.append(stop)
                at_by.append(by[entry])
                begin = stop
            if left > leaves_at:
                break
            entry = older[entry]
        self._newest[path] = len(by)
        older.append(entry)
        by.append(row)
        left_at.append(leaves_at)

    def runs(self) -> Runs:
        """What was found, in order, runs that continue over the end of a path joined."""
        row, begin, end, by = (np.array(column, dtype=np.int64) for column in self._found)
        order = np.lexsort((begin, row))
        row, begin, end, by = row[order], begin[order], end[order], by[order]
        joins = np.zeros(len(row), dtype=np.bool_)
        joins[1:] = (row[1:] == row[:-1]) & (by[1:] == by[:-1])
        last = np.append(~joins[1:], True)[: len(row)]
        return Runs(row=row[~joins], begin=begin[~joins], end=end[last], by=by[~joins])
