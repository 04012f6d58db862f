"""A least-recently-used pool simulated block by block, over prompts spelled out: slow, and plainly right."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

import numpy as np

from unmoor.traffic.reuse.stack_distance import CacheRule
from unmoor.traffic.tree import PromptTree, TreeBuilder

Prompt = Sequence[Hashable]


def hit_tokens(prompts: Sequence[Prompt], capacity: int, rule: CacheRule, salts: Sequence[int] | None = None) -> int:
    """The tokens that a pool of `capacity` blocks serves of prompts that come one after another."""
    pool: OrderedDict[Hashable, None] = OrderedDict()
    total = 0
    for prompt, salt in zip(prompts, salts or [0] * len(prompts), strict=True):
        blocks = blocks_of(prompt, rule)
        for place, block in enumerate(blocks):
            served = len(block) - place * rule.block_tokens
            if (salt, block) not in pool or (rule.last_computed and len(block) == len(prompt)):
                break
            total += served
        for block in reversed(blocks):
            pool[salt, block] = None
            pool.move_to_end((salt, block))
        while len(pool) > capacity:
            pool.popitem(last=False)
    return total


def blocks_of(prompt: Prompt, rule: CacheRule) -> list[tuple[Hashable, ...]]:
    """Each block of a prompt as all of the prompt up to its end, which is what makes a block one and the same."""
    size = rule.block_tokens
    ends = list(range(size, len(prompt) + 1, size))
    if rule.partial and len(prompt) % size:
        ends.append(len(prompt))
    return [tuple(prompt[:end]) for end in ends]


def tree_of(prompts: Sequence[Prompt], grain: int = 1) -> tuple[PromptTree, np.ndarray]:
    """The tree of prompts that are told apart in pieces of `grain` tokens, and where each ends."""
    numbers: dict[tuple[Hashable, ...], int] = {}
    builder = TreeBuilder()
    nodes = []
    for prompt in prompts:
        ends = [*range(grain, len(prompt), grain), len(prompt)] if prompt else []
        # As a trace's hash does, a piece's number stands for all up to it, and for where it ends.
        chain = [numbers.setdefault(tuple(prompt[:end]), 1 + len(numbers)) for end in ends]
        nodes.append(builder.add(chain, ends))
    return builder.build(), np.array(nodes, dtype=np.int32)
