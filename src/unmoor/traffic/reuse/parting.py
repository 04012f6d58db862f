"""A log whose prompts may share more than it tells: the tree in which they share as much more as they can."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.reuse.runs import largest
from unmoor.traffic.scratch import MEMORY, Growing, Scratch
from unmoor.traffic.tree import NO_PARENT, ROOT, PromptTree


def parting_later(
    tree: PromptTree, nodes: NDArray[np.int32], tokens: int, scratch: Scratch = MEMORY
) -> tuple[PromptTree, NDArray[np.int32]]:
    """The tree in which prompts part `tokens` later, or at the end of one of them; and where each request ends in it.

    Two prompts whose common prefix is c in `tree` have one of min(c + tokens, both lengths) in this one. Each node's
    stretch moves down by `tokens` (the root's then has some), and a prompt ends on the stretch of the first of its
    nodes that reaches its length.
    """
    longest = largest(tree.end, scratch)
    tokens = min(tokens, longest)  # beyond it nothing is longer, and marks stay within 64 bits
    span = longest + tokens + 1  # a mark is an owner and a depth on its stretch, as one number
    owner_marks = _owner_marks(tree, nodes, tokens, span, scratch)
    marks = Growing(np.int64, scratch)
    marks.extend(np.zeros(1, dtype=np.int64))
    for inner in _inner_nodes(tree, scratch):
        marks.extend(inner.astype(np.int64) * span + tree.end[inner] + tokens)
    for some in scratch.stretches(len(owner_marks)):
        marks.extend(owner_marks[some])
    known = _distinct(marks.rows, scratch)
    del marks
    later, ends = _tree_of(known, span, tree.parent, scratch), scratch.zeros(len(nodes), np.int32)
    for some in scratch.stretches(len(nodes)):
        ends[some] = np.searchsorted(known, owner_marks[some])
    return later, ends


def _owner_marks(
    tree: PromptTree, nodes: NDArray[np.int32], tokens: int, span: int, scratch: Scratch
) -> NDArray[np.int64]:
    """Each request's end, on the stretch of the first of its nodes that reaches it."""
    marks = scratch.zeros(len(nodes), np.int64)
    for some in scratch.stretches(len(nodes)):
        owner, ends = nodes[some].copy(), tree.end[nodes[some]]
        while np.any(higher := (owner != ROOT) & (tree.end[tree.parent[owner]] + tokens >= ends)):
            owner[higher] = tree.parent[owner[higher]]
        marks[some] = owner.astype(np.int64) * span + ends
    return marks


def _inner_nodes(tree: PromptTree, scratch: Scratch) -> Iterator[NDArray[np.intp]]:
    """The nodes that have others below them, in order."""
    inner = np.zeros(len(tree), dtype=np.bool_)
    for some in scratch.stretches(len(tree)):
        inner[np.maximum(tree.parent[some], ROOT)] = True
    inner[ROOT] = len(tree) > 1
    return (some.start + np.flatnonzero(inner[some]) for some in scratch.stretches(len(tree)))


def _distinct(values: NDArray[np.int64], scratch: Scratch) -> NDArray[np.int64]:
    """The values in order, each once, in their own memory."""
    values.sort()  # in place, so that it takes no memory beside them
    size, last = 0, -1
    for some in scratch.stretches(len(values)):
        these = values[some]
        these = these[np.diff(these, prepend=last) > 0]
        if len(these):
            values[size : size + len(these)] = these
            size, last = size + len(these), int(these[-1])
    return values[:size]


def _tree_of(marks: NDArray[np.int64], span: int, parent: NDArray[np.int32], scratch: Scratch) -> PromptTree:
    """The tree whose nodes are marks: each below the one before it on its stretch, or the last on the stretch above."""
    last_of, depth = scratch.zeros(len(parent), np.int32), scratch.zeros(len(marks), np.int64)
    for some in scratch.stretches(len(marks)):
        last_of[marks[some] // span] = np.arange(some.start, some.stop)
        depth[some] = marks[some] % span
    above, last_owner = scratch.zeros(len(marks), np.int32), -1
    for some in scratch.stretches(len(marks)):
        owner_of, before = marks[some] // span, np.arange(some.start - 1, some.stop - 1)
        first = np.diff(owner_of, prepend=last_owner) > 0
        before[first] = last_of[parent[owner_of[first]]]
        above[some], last_owner = before, int(owner_of[-1])
    above[ROOT] = NO_PARENT
    return PromptTree(parent=above, end=depth)
