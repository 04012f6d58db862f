"""How much of the prompts a cache can serve: without a limit, and at every capacity at once."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.log import Names, Traffic
from unmoor.traffic.tree import PromptTree


class ShareOf(msgspec.Struct, frozen=True, kw_only=True):
    """A share (0-1) of all prompt tokens, and of all prompts' blocks; None where the source says nothing of content."""

    tokens: float | None
    blocks: float | None


class HitRate(msgspec.Struct, frozen=True, kw_only=True):
    """A share (0-1) of prompt tokens served from cache. It lies within `low` to `high`.

    `value` is None where the source tells content apart too coarsely for one figure; where exact, all three are equal.
    """

    value: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CacheRule:
    """What a cache holds and serves.

    Content is cached in blocks of `block_tokens`. With `partial`, a prompt's last block is a block even where it is not
    full, equal only to the same block of a prompt that ends there too: the rule of block traces. Without, as engines
    do, only full blocks are cached. With `last_computed`, as in engines, a prompt's last token is never served.
    """

    block_tokens: int
    partial: bool = False
    last_computed: bool = True


def engine_rule(block_tokens: int) -> CacheRule:
    """Engines' own: full blocks only, and at least a prompt's last token is computed."""
    return CacheRule(block_tokens)


def trace_rule(block_tokens: int) -> CacheRule:
    """A block trace's own: a last, partial block counts as a block, and may be served."""
    return CacheRule(block_tokens, partial=True, last_computed=False)


def salt_of(*columns: Names) -> NDArray[np.int64]:
    """One number a request, equal where all the columns are: prompts under different salts share nothing."""
    raise NotImplementedError


def ideal(traffic: Traffic, *, salt: NDArray[np.int64] | None = None) -> ShareOf:
    """What an earlier request also began with, under a cache without a limit, at the source's own granularity."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class HitCurve:
    """The hit rate of a least-recently-used pool against its capacity: every capacity at once."""

    @property
    def working_set_tokens(self) -> int:
        """The smallest capacity in tokens that serves all that a cache without a limit would."""
        raise NotImplementedError

    def at(self, kv_tokens: int) -> HitRate:
        """The share of prompt tokens that a pool of `kv_tokens` serves."""
        raise NotImplementedError

    def hit_tokens_at(self, kv_tokens: int) -> int:
        """The prompt tokens that a pool of `kv_tokens` serves for certain."""
        raise NotImplementedError


def hit_curve(
    tree: PromptTree,
    nodes: NDArray[np.int32],
    *,
    block_tokens: int | None = None,
    grain_tokens: int = 1,
    salt: NDArray[np.int64] | None = None,
    members: NDArray[np.bool_] | None = None,
) -> HitCurve:
    """The whole curve for requests that walk `tree` to `nodes`, one after another.

    `block_tokens` gives an engine's rule; None the trace's own, in blocks of `grain_tokens` (`Grain.tokens`). `members`
    are the requests that this pool sees, as a boolean a row; `salt` is one number a row. Both None: all, and none.
    """
    raise NotImplementedError


def curve_of(
    traffic: Traffic,
    *,
    block_tokens: int | None = None,
    salt: NDArray[np.int64] | None = None,
    members: NDArray[np.bool_] | None = None,
) -> HitCurve | None:
    """`hit_curve` for a log, at its grain; None where the source says nothing of content."""
    raise NotImplementedError
