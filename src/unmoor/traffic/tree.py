"""The prompts of a log as a tree of the prefixes they share: whatever the content was, only its shape is kept.

Every analysis of prefix reuse needs no more than this tree and the order in which requests walked it. It is a radix
tree: a node stands for a run of tokens that every request below it begins with, and each request ends at a node.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.scratch import MEMORY, STRETCH, Scratch

ROOT = 0
NO_PARENT = -1
_NO_SYMBOL = 0
_FEWEST_SLOTS = 1024
_FEWEST_NODES = 1024
_STRETCH_SLOTS = 1 << 18
_MIX = 32
"""High bits are folded onto the low ones that pick a slot, should a caller's symbols differ in those alone."""


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

    def under(self, nodes: NDArray[np.int32]) -> tuple[PromptTree, NDArray[np.int32]]:
        """The part of the tree that leads to `nodes`, and where in it they are; every kept node keeps its `end`."""
        kept = np.zeros(len(self), dtype=np.bool_)
        kept[ROOT] = True
        above = np.unique(nodes)
        while len(above := above[~kept[above]]):
            kept[above] = True
            above = np.unique(self.parent[above])
        places = np.flatnonzero(kept)  # in order, so that a node's new number is its place among them
        parent = self.parent[places]
        parent[1:] = np.searchsorted(places, parent[1:])
        return PromptTree(parent=parent, end=self.end[places]), np.searchsorted(places, nodes).astype(np.int32)

    def path(self, node: int) -> list[int]:
        """The nodes from just under the root to `node`; empty for the root."""
        path = []
        while node != ROOT:
            path.append(node)
            node = int(self.parent[node])
        path.reverse()
        return path


class SymbolStore(Protocol):
    """Where a builder keeps the symbols of distinct prefixes, each once: in memory, or in a file of the caller's.

    It is written at its end only, and read only where a new prompt leaves a known one: at most twice log2(symbols of a
    node) times a prompt.
    """

    def append(self, symbols: NDArray[np.uint64]) -> int:
        """Keeps `symbols` after those already kept, and says the place of the first."""

    def at(self, place: int) -> int:
        """The symbol at `place`."""


class SymbolsInMemory:
    """A SymbolStore of 8 bytes a symbol."""

    def __init__(self) -> None:
        self._symbols = array("Q")

    def append(self, symbols: NDArray[np.uint64]) -> int:
        """Keeps `symbols` after those already kept, and says the place of the first."""
        place = len(self._symbols)
        self._symbols.frombytes(symbols.data.cast("B"))
        return place

    def at(self, place: int) -> int:
        """The symbol at `place`."""
        return self._symbols[place]


class TreeBuilder:
    """Grows a PromptTree from chained symbols: equal symbols at one place mean equal prompts up to there.

    A node's number never changes once given, though the run of tokens it stands for may be split. A node costs 40 bytes
    of `scratch` and its share of the hash table, 6 to 12; a symbol is kept once for every distinct prefix, in `store`.
    """

    def __init__(self, store: SymbolStore | None = None, scratch: Scratch = MEMORY) -> None:
        self._store: SymbolStore = SymbolsInMemory() if store is None else store
        self._scratch = scratch
        self._begin()

    def _begin(self) -> None:
        """The root alone. Columns are memory views: their items are Python's own integers, and cheap to reach."""
        zeros = self._scratch.zeros
        self._nodes = 1
        self._parent = zeros(_FEWEST_NODES, np.int32).data
        self._last = zeros(_FEWEST_NODES, np.int32).data  # how many symbols lead from the root to the node's end
        self._end = zeros(_FEWEST_NODES, np.int64).data  # the same in tokens
        self._base = zeros(_FEWEST_NODES, np.int64).data  # symbol i of the chain, if own, is at base + i of the store
        self._head = zeros(_FEWEST_NODES, np.uint64).data  # the first and the last of its own symbols
        self._tail = zeros(_FEWEST_NODES, np.uint64).data
        self._slots = zeros(_FEWEST_SLOTS, np.int32).data  # open addressing by a node's first symbol; 0 is empty
        self._parent[ROOT] = NO_PARENT

    def __len__(self) -> int:
        return self._nodes

    def add(self, chain: Sequence[int] | NDArray[np.uint64], ends: Sequence[int] | NDArray[np.int64]) -> int:
        """The node at which this prompt ends.

        `chain[i]` identifies the prompt up to its symbol i (a chained hash); `ends[i]` is how many tokens that is, and
        grows with i. An empty prompt ends at the root.
        """
        kept = np.ascontiguousarray(chain, dtype=np.uint64)
        symbols = kept.data  # its items are Python's own integers, and cheap to reach
        size = len(symbols)
        node, place = ROOT, 0
        while place < size:
            child = self._slots[self._slot(symbols[place])]
            if child == ROOT:
                return self._grow(node, kept[place:], place, size, int(ends[size - 1]))
            last = self._last[child]
            if last <= size and self._tail[child] == symbols[last - 1]:
                node, place = child, last
            else:
                place = self._agreement(child, symbols, place, min(size, last))
                node = self._split(child, place, symbols[place - 1], int(ends[place - 1]))
        return node

    def build(self) -> PromptTree:
        """The tree as it stands."""
        return PromptTree(parent=self._column(self._parent).copy(), end=self._column(self._end).copy())

    def finished(self) -> PromptTree:
        """The tree as it stands, in the builder's own memory; the rest of that is freed. The builder is empty then."""
        tree = PromptTree(parent=self._column(self._parent), end=self._column(self._end))
        self._begin()
        return tree

    def _column(self, items: memoryview) -> NDArray[Any]:
        return np.asarray(items)[: self._nodes]

    def _agreement(self, child: int, symbols: memoryview, place: int, high: int) -> int:
        """Up to which symbol the chain agrees with the node; chained symbols that agree have agreed all the way."""
        at, base, low = self._store.at, self._base[child], place + 1
        while low < high:
            middle = (low + high + 1) // 2
            if at(base + middle - 1) == symbols[middle - 1]:
                low = middle
            else:
                high = middle - 1
        return low

    def _grow(self, parent: int, own: NDArray[np.uint64], first: int, last: int, end: int) -> int:
        base = self._store.append(own) - first
        return self._new(parent, last, end, base=base, head=int(own[0]), tail=int(own[-1]))

    def _split(self, child: int, at: int, tail: int, end: int) -> int:
        """A new node above `child` for its symbols up to `at`; the child keeps its number and the rest."""
        slot = self._slot(self._head[child])
        base = self._base[child]
        upper = self._new(self._parent[child], at, end, base=base, head=self._head[child], tail=tail, slot=slot)
        self._parent[child] = upper
        self._head[child] = self._store.at(base + at)
        self._enter(child)
        return upper

    def _new(
        self, parent: int, last: int, end: int, *, base: int, head: int, tail: int, slot: int | None = None
    ) -> int:
        node = self._nodes
        if node == len(self._parent):
            self._double()
        if not node % STRETCH:
            self._scratch.let_go()
        self._nodes += 1
        self._parent[node] = parent
        self._last[node] = last
        self._end[node] = end
        self._base[node] = base
        self._head[node] = head
        self._tail[node] = tail
        if slot is None:
            self._enter(node)
        else:
            self._slots[slot] = node
        return node

    def _double(self) -> None:
        """Room for twice as many nodes."""
        for name in ("_parent", "_last", "_end", "_base", "_head", "_tail"):
            column = np.asarray(getattr(self, name))
            setattr(self, name, self._scratch.copy(column, size=2 * len(column)).data)

    def _slot(self, symbol: int) -> int:
        """Where in the table the node that begins with `symbol` is, or would be."""
        slots, head, mask = self._slots, self._head, len(self._slots) - 1
        slot = (symbol ^ symbol >> _MIX) & mask
        while (node := slots[slot]) != ROOT and head[node] != symbol:
            slot = (slot + 1) & mask
        return slot

    def _enter(self, node: int) -> None:
        if 3 * self._nodes > 2 * len(self._slots):
            self._widen()
        self._slots[self._slot(self._head[node])] = node

    def _widen(self) -> None:
        """A table twice as wide, laid out stretch by stretch, so that it takes little memory but its own.

        Between two empty slots nothing is far from home: each node of such a stretch has its new home at the same
        place, or one old width further. Sorted by home, each stands there or after the last.
        """
        width = len(self._slots)
        old, head = np.asarray(self._slots), np.asarray(self._head)
        new, wrapped, start = self._scratch.zeros(2 * width, np.int32), list[int](), 0
        while start < width:
            stop = _first_empty(old, min(start + _STRETCH_SLOTS, width))
            place = start + np.flatnonzero(old[start:stop])
            nodes = old[place]
            symbols = head[nodes]
            home = ((symbols ^ symbols >> np.uint64(_MIX)) & np.uint64(2 * width - 1)).astype(np.int64)
            inside = home & (width - 1) <= place
            wrapped += nodes[~inside].tolist()  # past the old table's end, and begun anew
            for half in (0, width):
                here = np.flatnonzero(inside & (home & width == half))
                here = here[np.argsort(home[here], kind="stable")]
                count = np.arange(len(here))
                new[np.maximum.accumulate(home[here] - count) + count] = nodes[here]
            start = stop
            self._scratch.let_go()
        self._slots = new.data
        for node in wrapped:
            self._slots[self._slot(self._head[node])] = node


def _first_empty(slots: NDArray[np.int32], start: int) -> int:
    """The first empty slot from `start` on, or the end."""
    for at in range(start, len(slots), _FEWEST_SLOTS):
        empty = np.flatnonzero(slots[at : at + _FEWEST_SLOTS] == ROOT)
        if len(empty):
            return at + int(empty[0])
    return len(slots)
