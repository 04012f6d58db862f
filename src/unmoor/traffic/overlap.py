"""Prefix overlap: how much of the prompts an earlier request also began with, and how much of it a pool can hold."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from unmoor.core.traffic import Request, Segment, Workload

Piece = tuple[str, int, int, int]
"""A part of a segment: its name, its whole length, and from which of its tokens to which."""


class PoolHits(msgspec.Struct, frozen=True, kw_only=True):
    """What a least-recently-used pool served of a workload's prompts, as shares (0-1) of all tokens and all blocks.

    A prompt's last block may be partial: it counts as one block, and as the tokens it has.
    """

    capacity_blocks: int
    token_share: float
    block_share: float


def prefix_overlap(workload: Workload) -> float | None:
    """The share of prompt tokens (0-1) that an earlier request also began with, under an unlimited cache.

    Segments are compared whole, from the start, and count when name and tokens are equal: no part of a segment counts.
    "Earlier" is the order of arrival; of two requests at one moment, the first in the log. The adapter is not looked
    at: this is a property of prompts. None where the source says nothing of content.

    Not the same as an engine's hit rate, which is bounded by its cache and counted in its blocks.
    """
    if workload.overlap_block_tokens is None:
        return None
    root: dict[Segment, Any] = {}
    total = sum(request.input_tokens for request in workload.requests)
    seen = sum(_seen_then_added(root, request.segments) for request in workload.requests)
    return seen / total if total else None


def _seen_then_added(root: dict[Segment, Any], segments: Sequence[Segment]) -> int:
    """The tokens of the leading segments that the trie holds; the path is in the trie afterwards."""
    node, tokens = root, 0
    for place, segment in enumerate(segments):
        below = node.get(segment)
        if below is None:
            for new in segments[place:]:
                node[new] = node = {}
            break
        tokens += segment.tokens
        node = below
    return tokens


def cached_tokens_lru(workload: Workload, *, capacity_tokens: int, block_tokens: int) -> PoolHits | None:
    """What a pool of `capacity_tokens`, in blocks of `block_tokens`, would have served from cache.

    One pool, requests one after another in order of arrival, the least recently used block evicted first. A request
    touches its blocks from the last to the first, so that a parent is always more recent than its child and no block
    is left in the pool without those before it. Blocks under different adapters are different. None where the source
    says nothing of content. An upper bound for an engine: running requests hold blocks that cannot be evicted.
    """
    if workload.overlap_block_tokens is None or not workload.requests:
        return None
    pool = _Pool(capacity_tokens // block_tokens)
    chains = _Chains(block_tokens)
    tokens = blocks = hit_tokens = hit_blocks = 0
    for request in workload.requests:
        chain = chains.of(request)
        hits = pool.leading_hits(chain)
        pool.touch(chain)
        hit_blocks += hits
        hit_tokens += min(hits * block_tokens, request.input_tokens)
        blocks += len(chain)
        tokens += request.input_tokens
    return PoolHits(
        capacity_blocks=pool.capacity_blocks, token_share=hit_tokens / tokens, block_share=hit_blocks / blocks
    )


class _Pool:
    """Blocks in order of use, the least recent first."""

    def __init__(self, capacity_blocks: int) -> None:
        self.capacity_blocks = capacity_blocks
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def leading_hits(self, chain: Sequence[int]) -> int:
        return next((place for place, block in enumerate(chain) if block not in self._blocks), len(chain))

    def touch(self, chain: Sequence[int]) -> None:
        for block in reversed(chain):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self.capacity_blocks:
            self._blocks.popitem(last=False)


class _Chains:
    """Numbers for blocks: equal for equal content after equal blocks, and for nothing else."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._numbers: dict[tuple[object, ...], int] = {}

    def of(self, request: Request) -> list[int]:
        parent = self._number(("adapter", request.adapter))
        chain = []
        for pieces in blocks_of(request.segments, self._block_tokens):
            parent = self._number((parent, *pieces))
            chain.append(parent)
        return chain

    def _number(self, key: tuple[object, ...]) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def blocks_of(segments: Sequence[Segment], block_tokens: int) -> Iterator[tuple[Piece, ...]]:
    """A prompt cut into blocks of `block_tokens`, the last one perhaps shorter, each as the pieces it is made of."""
    block: list[Piece] = []
    room = block_tokens
    for segment in segments:
        start = 0
        while start < segment.tokens:
            stop = min(segment.tokens, start + room)
            block.append((segment.name, segment.tokens, start, stop))
            room -= stop - start
            start = stop
            if room == 0:
                yield tuple(block)
                block, room = [], block_tokens
    if block:
        yield tuple(block)
