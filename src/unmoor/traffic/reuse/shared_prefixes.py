"""The shared prefixes themselves: how long, how many requests began so, and what each would save."""

from __future__ import annotations

import msgspec
import numpy as np

from unmoor.traffic.log import Traffic
from unmoor.traffic.reuse.runs import Whole, runs_of, walks
from unmoor.traffic.tree import ROOT, PromptTree


class SharedPrefix(msgspec.Struct, frozen=True, kw_only=True):
    """One edge of the tree of shared prefixes: the tokens from `begins_at` to `tokens` of every prompt through it.

    `tokens_saved` is what a cache without a limit would serve of this edge: its length for every one of its `requests`
    but the first (the first under each salt). `parent` is the place in the list of the longest listed prefix that this
    one extends. `node` is its node in the log's tree.
    """

    tokens: int
    begins_at: int
    requests: int
    tokens_saved: int
    parent: int | None
    node: int


def top(traffic: Traffic, count: int, *, salt: Whole | None = None) -> tuple[SharedPrefix, ...]:
    """The `count` edges that save most, the most first; fewer where fewer save, none where content is unknown.

    Of equal ones the shorter prefix is first, then the one that was seen first. Over all edges, `tokens_saved` sums to
    the tokens of `reuse.ideal` under the same salt exactly.
    """
    if traffic.tree is None or not len(traffic):
        return ()
    tree = traffic.tree
    begins_at = tree.end[np.maximum(tree.parent, ROOT)]
    requests = walks(tree, traffic.node)
    saved = (requests - _first_walks(tree, traffic, salt)) * (tree.end - begins_at)
    order = np.lexsort((np.arange(len(tree)), tree.end, -saved))[:count]
    nodes = order[saved[order] > 0].tolist()
    listed = {node: place for place, node in enumerate(nodes)}
    return tuple(
        SharedPrefix(
            tokens=int(tree.end[node]),
            begins_at=int(begins_at[node]),
            requests=int(requests[node]),
            tokens_saved=int(saved[node]),
            parent=_listed_above(tree, node, listed),
            node=node,
        )
        for node in nodes
    )


def _first_walks(tree: PromptTree, traffic: Traffic, salt: Whole | None) -> Whole:
    """For each node, how many requests were the first under their salt to walk it: those beyond what they found."""
    runs = runs_of(tree, traffic.node, salt)
    found = np.zeros(len(traffic), dtype=np.int64)
    np.maximum.at(found, runs.row, runs.end)
    known = traffic.node.copy()
    while np.any(beyond := tree.end[known] > found):
        known[beyond] = tree.parent[known[beyond]]
    return walks(tree, traffic.node) - walks(tree, known)


def _listed_above(tree: PromptTree, node: int, listed: dict[int, int]) -> int | None:
    return next((listed[above] for above in reversed(tree.path(node)[:-1]) if above in listed), None)
