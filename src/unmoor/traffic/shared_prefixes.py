"""The shared prefixes themselves: how long, how many requests began so, and what each would save."""

from __future__ import annotations

import msgspec

from unmoor.traffic.log import Traffic


class SharedPrefix(msgspec.Struct, frozen=True, kw_only=True):
    """One edge of the tree of shared prefixes: the tokens from `begins_at` to `tokens` of every prompt through it.

    `tokens_saved` is what a cache without a limit would serve of this edge: (requests - 1) times its length. Over all
    edges they sum to the ideal. `parent` is the place in the list of the nearest listed prefix that this one extends.
    """

    tokens: int
    begins_at: int
    requests: int
    tokens_saved: int
    parent: int | None
    node: int


def top(traffic: Traffic, count: int) -> tuple[SharedPrefix, ...]:
    """The `count` edges that save most, the most first; empty where the source says nothing of content."""
    raise NotImplementedError
