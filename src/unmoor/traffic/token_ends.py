"""A tree whose ends are in another unit, as one in tokens."""

from __future__ import annotations

import numpy as np

from unmoor.traffic.scratch import MEMORY, Scratch
from unmoor.traffic.tree import PromptTree


def in_tokens(tree: PromptTree, units_per_token: float, scratch: Scratch = MEMORY) -> PromptTree:
    """The tree with its ends in tokens: rounded, and each above its parent's."""
    end = scratch.zeros(len(tree), tree.end.dtype)
    for some in scratch.stretches(len(tree)):
        end[some] = np.rint(tree.end[some] / units_per_token)
    raised = True
    while raised:
        raised = False
        for some in scratch.stretches(len(tree)):
            above = end[np.maximum(tree.parent[some], 0)]
            low = some.start + np.flatnonzero((end[some] <= above) & (tree.parent[some] >= 0))
            end[low] = above[low - some.start] + 1
            raised = raised or len(low) > 0
    return PromptTree(parent=tree.parent, end=end)
