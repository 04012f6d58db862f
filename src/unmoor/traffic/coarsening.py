"""A log as it looks in whole blocks: prompts that part within a block part at its start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from unmoor.core.errors import UsageError
from unmoor.traffic.log import Grain, Traffic
from unmoor.traffic.tree import NO_PARENT, ROOT, PromptTree

FINEST_BLOCK_TOKENS = 16
"""The block size unless another is said: that of the default engine's cache. A coarser log has its own."""


def block_tokens_of(traffic: Traffic, wanted: int | None) -> int | None:
    """The block size for this log: as wanted, else 16, else the log's own grain where that is coarser.

    None where the source says nothing of content. Raises UsageError for one that the log is too coarse for: less than
    its grain, or no multiple of its blocks.
    """
    if traffic.grain is None:
        return None
    grain = traffic.grain.tokens
    in_blocks = traffic.grain.by == "blocks"
    if wanted is None:
        return -(-FINEST_BLOCK_TOKENS // grain) * grain if in_blocks else max(FINEST_BLOCK_TOKENS, grain)
    if wanted < grain or (in_blocks and wanted % grain):
        raise UsageError(
            "the log does not tell content apart at this block size",
            where="--block-tokens",
            seen=f"{wanted} tokens, of a log told apart {_told_apart(traffic.grain)}",
            expected=f"a multiple of {grain}" if in_blocks else f"{grain} or more",
            hint=f"--block-tokens {max(1, -(-wanted // grain)) * grain}, or without it",
        )
    return wanted


def quantised(traffic: Traffic, block_tokens: int | None = None) -> Traffic:
    """The log as its fingerprint tells it: prompts are equal up to a whole block, or to their end.

    Lengths, times and names are as they were. A prompt's last, partial block is equal only to that of a prompt that is
    equal as a whole. Raises UsageError as `block_tokens_of`.
    """
    size = block_tokens_of(traffic, block_tokens)
    if size is None or traffic.tree is None:
        return traffic
    tree, node = _in_blocks(traffic.tree, traffic.node, size)
    return replace(traffic, tree=tree, node=node, grain=Grain(by="blocks", tokens=size))


def _told_apart(grain: Grain) -> str:
    return f"in blocks of {grain.tokens}" if grain.by == "blocks" else f"by {grain.by}, to within {grain.tokens} tokens"


def _in_blocks(tree: PromptTree, node: NDArray[np.int32], size: int) -> tuple[PromptTree, NDArray[np.int32]]:
    """The tree with every fork moved up to the block's start before it, and where the prompts end in it.

    A node becomes what its whole blocks are, and stands for the nodes below it in which no further block ends. A prompt
    that ends within a block gets a node of its own for the rest, shared by those that end at the same node.
    """
    above = tree.parent.astype(np.int64)
    above[ROOT] = ROOT
    blocks = tree.end // size
    whole = blocks > blocks[above]
    whole[ROOT] = True
    home = _nearest(whole, above)
    partial = np.unique(node[tree.end[node] % size > 0]).astype(np.int64)
    parent = np.concatenate([home[above], home[partial]])
    end = np.concatenate([blocks * size, tree.end[partial]])
    at = home[node]
    if len(partial):
        place = np.minimum(np.searchsorted(partial, node), len(partial) - 1)
        at = np.where(partial[place] == node, len(tree) + place, at)
    return _pruned(parent, end, at)


def _pruned(
    parent: NDArray[np.int64], end: NDArray[np.int64], at: NDArray[np.int64]
) -> tuple[PromptTree, NDArray[np.int32]]:
    """The tree without nodes that no prompt passes and those at which none ends or turns off; parents come first."""
    used = np.zeros(len(parent), dtype=np.bool_)
    reached = np.unique(at)
    while len(reached):
        used[reached] = True
        above = np.unique(parent[reached])
        reached = above[~used[above]]
    below = np.bincount(parent[used], minlength=len(parent))
    below[ROOT] -= 1  # the root is its own parent here
    kept = used & (below != 1)
    kept[at] = True
    kept[ROOT] = True
    above = _nearest(kept, parent)[parent]
    order = np.flatnonzero(kept)
    order = order[np.lexsort((order, end[order]))]  # the root's end, 0, is the only one
    number = np.zeros(len(parent), dtype=np.int32)
    number[order] = np.arange(len(order))
    renumbered = number[above[order]]
    renumbered[ROOT] = NO_PARENT
    return PromptTree(parent=renumbered, end=end[order]), number[at]


def _nearest(stands: NDArray[np.bool_], above: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each node the nearest that stands, from itself upward; the root must."""
    to = np.where(stands, np.arange(len(above)), above)
    while not np.array_equal(further := to[to], to):
        to = further
    return to
