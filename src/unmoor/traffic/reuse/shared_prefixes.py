"""The shared prefixes themselves: how long, how many requests began so, and what each would save."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.foremost import Rows, foremost
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
    requests = walks(tree, traffic.node, traffic.scratch)
    again = _later_walks(tree, traffic, salt)

    def saved(nodes: Rows) -> NDArray[np.int64]:
        return again[nodes] * (tree.end[nodes] - _begin(tree, nodes))

    order = foremost(len(tree), count, lambda nodes: (-saved(nodes), tree.end[nodes]), traffic.scratch)
    nodes = order[saved(order) > 0]
    listed = {node: place for place, node in enumerate(nodes.tolist())}
    columns = (nodes, tree.end[nodes], _begin(tree, nodes), requests[nodes], saved(nodes))
    return tuple(
        SharedPrefix(
            tokens=end,
            begins_at=begin,
            requests=walked,
            tokens_saved=tokens_saved,
            parent=_listed_above(tree, node, listed),
            node=node,
        )
        for node, end, begin, walked, tokens_saved in zip(*(column.tolist() for column in columns), strict=True)
    )


def _begin(tree: PromptTree, nodes: Rows) -> NDArray[np.int64]:
    """Where each node's own tokens begin."""
    return tree.end[np.maximum(tree.parent[nodes], ROOT)]


def _later_walks(tree: PromptTree, traffic: Traffic, salt: Whole | None) -> NDArray[np.int32]:
    """For each node, how many requests found it walked under their salt: all that walk it but the first."""
    scratch = traffic.scratch
    runs = runs_of(tree, traffic.node, salt, scratch)
    found = scratch.zeros(len(traffic), np.int64)
    for some in scratch.stretches(len(runs.row)):
        np.maximum.at(found, runs.row[some], runs.end[some])
    known = scratch.copy(traffic.node)
    for some in scratch.stretches(len(known)):
        nodes, up_to = known[some], found[some]
        while np.any(beyond := tree.end[nodes] > up_to):
            nodes[beyond] = tree.parent[nodes[beyond]]
    return walks(tree, known, scratch)


def _listed_above(tree: PromptTree, node: int, listed: dict[int, int]) -> int | None:
    return next((listed[above] for above in reversed(tree.path(node)[:-1]) if above in listed), None)
