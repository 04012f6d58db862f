"""A tree whose ends are in another unit, as one in tokens."""

from __future__ import annotations

import numpy as np

from unmoor.traffic.tree import PromptTree

_ROWS = 1 << 16


def in_tokens(tree: PromptTree, units_per_token: float) -> PromptTree:
    """The tree with its ends in tokens: rounded, and each above its parent's."""
    end = np.empty_like(tree.end)
    for start in range(0, len(end), _ROWS):  # memory stays near that of the ends themselves
        end[start : start + _ROWS] = np.rint(tree.end[start : start + _ROWS] / units_per_token)
    parent = np.maximum(tree.parent, 0)
    while len(low := np.flatnonzero(end[1:] <= end[parent[1:]]) + 1):
        end[low] = end[parent[low]] + 1
    return PromptTree(parent=tree.parent, end=end)
