"""A log whose prompts may share more than it tells: the tree in which they share as much more as they can."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.tree import NO_PARENT, ROOT, PromptTree


def parting_later(tree: PromptTree, nodes: NDArray[np.int32], tokens: int) -> tuple[PromptTree, NDArray[np.int32]]:
    """The tree in which prompts part `tokens` later, or at the end of one of them; and where each request ends in it.

    Two prompts whose common prefix is c in `tree` have one of min(c + tokens, both lengths) in this one. Each node's
    stretch moves down by `tokens` (the root's then has some), and a prompt ends on the stretch of the first of its
    nodes that reaches its length.
    """
    parent, end = tree.parent, tree.end
    tokens = min(tokens, int(end.max()))  # beyond it nothing is longer, and marks stay within 64 bits
    owner, ends = nodes.copy(), end[nodes]
    while np.any(higher := (owner != ROOT) & (end[parent[owner]] + tokens >= ends)):
        owner[higher] = parent[owner[higher]]
    inner = np.unique(parent[1:])
    span = int(end.max()) + tokens + 1  # a mark is an owner and a depth on its stretch, as one number
    inner_marks = inner.astype(np.int64) * span + end[inner] + tokens
    owner_marks = owner.astype(np.int64) * span + ends
    marks = np.unique(np.concatenate((np.zeros(1, dtype=np.int64), inner_marks, owner_marks)))
    owner_of, depth = marks // span, marks % span
    first = np.append(True, owner_of[1:] != owner_of[:-1])
    above = np.arange(-1, len(marks) - 1, dtype=np.int32)
    last_of = np.zeros(len(parent), dtype=np.int32)
    last_of[owner_of] = above + 1
    above[first] = last_of[parent[owner_of[first]]]
    above[ROOT] = NO_PARENT
    return PromptTree(parent=above, end=depth), np.searchsorted(marks, owner_marks).astype(np.int32)
