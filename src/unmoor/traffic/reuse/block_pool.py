"""A KV pool in blocks, and prompts as runs of blocks: a tree's edges, so that no loop is over single blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from unmoor.traffic.log import Grain, Traffic, Whole
from unmoor.traffic.reuse.curve import engine_rule, trace_rule
from unmoor.traffic.reuse.stack_distance import CacheRule
from unmoor.traffic.tree import ROOT, PromptTree


def rule_for(grain: Grain, block_tokens: int | None) -> CacheRule:
    """The rule of an engine with `block_tokens`; that of the log's own blocks for None."""
    return trace_rule(grain.tokens) if block_tokens is None else engine_rule(block_tokens)


_ALL = slice(None)


def prompt_tokens(traffic: Traffic, rows: slice = _ALL) -> Whole:
    """Each request's prompt in tokens: as the tree counts them, else as the source does."""
    return np.maximum(traffic.input_tokens[rows], 0) if traffic.tree is None else traffic.tree.end[traffic.node[rows]]


def served_tokens(rule: CacheRule, blocks: int, prompt: int) -> int:
    """The tokens that `blocks` cached leading blocks spare a prompt of `prompt` tokens."""
    if rule.last_computed:
        blocks = min(blocks, max(prompt - 1, 0) // rule.block_tokens)
    return min(blocks * rule.block_tokens, prompt)


class BlockPaths:
    """Every prompt of a tree as runs of blocks.

    A run is the blocks that end within one edge of the tree: whoever passes one passes all of them, or ends there. A
    block that lies across a fork belongs to the run after it, so that it is shared with nobody on the other branch. By
    a trace's rule a prompt's partial last block is a run of its own, shared by prompts that end in the same place.
    """

    def __init__(self, tree: PromptTree, rule: CacheRule) -> None:
        full = tree.end // rule.block_tokens
        own = (full - full[np.maximum(tree.parent, ROOT)]).astype(np.int32)
        tail = (tree.end % rule.block_tokens > 0) & rule.partial
        # As memory views: their items are Python's own numbers, at a quarter of a list's memory.
        self._parent = np.ascontiguousarray(tree.parent).data
        self._own = own.data
        self._tail = tail.data
        self._nodes = len(tree)

    def of(self, node: int, salt: int = 0) -> tuple[list[int], list[int]]:
        """The prompt's runs from its start, and how many blocks each has. Under another salt the runs are others."""
        own, parent, shift = self._own, self._parent, salt * 2 * self._nodes
        runs, sizes = [], []
        if self._tail[node]:
            runs.append(node + self._nodes + shift)
            sizes.append(1)
        while node != ROOT:
            if own[node]:
                runs.append(node + shift)
                sizes.append(own[node])
            node = parent[node]
        runs.reverse()
        sizes.reverse()
        return runs, sizes


class BlockPool:
    """Blocks of KV memory: private to running requests, shared by them, or idle in the cache.

    Idle blocks leave in the order in which they were last used, and of one prompt from its end, so that a cached
    block's prefix is always cached too: a run may be there in part, and then it is its first part. What is in use and
    what is idle never exceed `capacity` together.
    """

    __slots__ = ("_holders", "_idle", "_idle_blocks", "capacity", "in_use", "resident")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.in_use = 0
        self.resident: dict[int, int] = {}
        self._idle_blocks = 0
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._holders: dict[int, int] = {}

    @property
    def used(self) -> int:
        """Blocks of running requests and of the cache."""
        return self.in_use + self._idle_blocks

    def hold(self, runs: Sequence[int], sizes: Sequence[int], private: int) -> bool:
        """Whether a request was admitted: it holds its runs, whole from now on, and `private` blocks of its own.

        Idle blocks are evicted as needed. Nothing changes where what others hold leaves too little room.
        """
        resident, idle = self.resident, self._idle
        waking = needed = 0
        for run, size in zip(runs, sizes, strict=True):
            have = resident.get(run, 0)
            needed += size - have
            if have and run in idle:
                waking += have
        if self.in_use + waking + needed + private > self.capacity:
            return False
        for run, size in zip(runs, sizes, strict=True):
            self._holders[run] = self._holders.get(run, 0) + 1
            idle.pop(run, None)
            resident[run] = size
        self._idle_blocks -= waking
        self.in_use += waking + needed + private
        self._evict()
        return True

    def release(self, runs: Sequence[int], private: int) -> None:
        """Lets go of what `hold` took; runs that nobody holds stay cached, as the most recently used."""
        self.in_use -= private
        for run in reversed(runs):
            holders = self._holders[run] - 1
            if holders:
                self._holders[run] = holders
                continue
            del self._holders[run]
            self._idle[run] = None
            self.in_use -= self.resident[run]
            self._idle_blocks += self.resident[run]

    def touch(self, runs: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """A request that takes no time passes through; which runs left the pool whole.

        Of a prompt larger than the pool the first part stays.
        """
        resident, idle = self.resident, self._idle
        for run, size in zip(reversed(runs), reversed(sizes), strict=True):
            self._idle_blocks += size - resident.get(run, 0)
            resident[run] = size
            idle[run] = None
            idle.move_to_end(run)
        return self._evict()

    def _evict(self) -> list[int]:
        """Takes the least recently used idle blocks until the rest fits; which runs left whole."""
        gone = []
        while (excess := self.used - self.capacity) > 0:
            run = next(iter(self._idle))
            have = self.resident[run]
            if have > excess:
                self.resident[run] = have - excess
                self._idle_blocks -= excess
                break
            del self._idle[run], self.resident[run]
            self._idle_blocks -= have
            gone.append(run)
        return gone
