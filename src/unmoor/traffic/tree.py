"""The prompts of a log as a tree of the prefixes they share: whatever the content was, only its shape is kept.

Every analysis of prefix reuse needs no more than this tree and the order in which requests walked it. It is a radix
tree: a node stands for a run of tokens that every request below it begins with, and each request ends at a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROOT = 0
NO_PARENT = -1


@dataclass(frozen=True, slots=True, eq=False)
class PromptTree:
    """Two columns, one row a node: `parent[i]`, and `end[i]`, the tokens from the root to the end of node i.

    Node 0 is the root (parent -1, end 0). `end` is above the parent's for every other node; a parent need not stand
    before its child. Node i holds the tokens `end[parent[i]]` to `end[i]` of every prompt that passes through it.
    """

    parent: NDArray[np.int32]
    end: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.parent)

    def path(self, node: int) -> list[int]:
        """The nodes from just under the root to `node`; empty for the root."""
        path = []
        while node != ROOT:
            path.append(node)
            node = int(self.parent[node])
        path.reverse()
        return path


class TreeBuilder:
    """Grows a PromptTree from chained symbols: equal symbols at one place mean equal prompts up to there.

    A node's number never changes once given, though the run of tokens it stands for may be split.
    """

    def __init__(self) -> None:
        self._parent = [NO_PARENT]
        self._first = [0]  # where in its own chain a node's symbols begin
        self._chain: list[Sequence[int]] = [()]
        self._ends: list[Sequence[int]] = [()]
        self._last = [0]  # where its symbols end (exclusive)
        self._child: dict[int, int] = {}

    def add(self, chain: Sequence[int], ends: Sequence[int]) -> int:
        """The node at which this prompt ends.

        `chain[i]` identifies the prompt up to its symbol i (a chained hash); `ends[i]` is how many tokens that is, and
        grows with i. An empty prompt ends at the root.
        """
        node, place, size = ROOT, 0, len(chain)
        while place < size:
            child = self._child.get(chain[place])
            if child is None:
                return self._new(node, chain, ends, place, size)
            same = self._agreement(child, chain, place, size)
            if same < self._last[child]:
                child = self._split(child, same)
            node, place = child, same
        return node

    def build(self) -> PromptTree:
        """The tree as it stands."""
        end = [0] + [int(self._ends[i][self._last[i] - 1]) for i in range(1, len(self._parent))]
        return PromptTree(parent=np.array(self._parent, dtype=np.int32), end=np.array(end, dtype=np.int64))

    def _agreement(self, child: int, chain: Sequence[int], place: int, size: int) -> int:
        """Up to which symbol `chain` agrees with the node; chained symbols that agree have agreed all the way."""
        own, low, high = self._chain[child], place + 1, min(size, self._last[child])
        if own[high - 1] == chain[high - 1]:
            return high
        while low < high:
            middle = (low + high + 1) // 2
            if own[middle - 1] == chain[middle - 1]:
                low = middle
            else:
                high = middle - 1
        return low

    def _new(self, parent: int, chain: Sequence[int], ends: Sequence[int], first: int, last: int) -> int:
        node = len(self._parent)
        self._parent.append(parent)
        self._first.append(first)
        self._last.append(last)
        self._chain.append(chain)
        self._ends.append(ends)
        self._child[chain[first]] = node
        return node

    def _split(self, child: int, at: int) -> int:
        chain, ends = self._chain[child], self._ends[child]
        upper = self._new(self._parent[child], chain, ends, self._first[child], at)
        self._parent[child] = upper
        self._first[child] = at
        self._child[chain[at]] = child
        return upper
