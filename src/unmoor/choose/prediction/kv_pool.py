"""The KV pool of one simulated replica: what running requests occupy, and an LRU cache of prompt segments."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from unmoor.core.traffic import Request


class Chains(msgspec.Struct, frozen=True):
    """The segment chains of some requests with every distinct prefix numbered once.

    `of_request[i]` are the nodes of request i's prompt, outermost first; `tokens[node]` is that segment's length. Two
    prompts share a prefix exactly as far as their nodes are equal.
    """

    of_request: tuple[tuple[int, ...], ...]
    tokens: tuple[int, ...]


def chains_of(requests: Sequence[Request]) -> Chains:
    """The numbered chains of `requests`, in their order; empty for a request whose source says nothing of content."""
    numbers: dict[tuple[int, str, int], int] = {}
    tokens: list[int] = []
    chains: list[tuple[int, ...]] = []
    for request in requests:
        node, chain = -1, []
        for segment in request.segments:
            key = (node, segment.name, segment.tokens)
            node = numbers.setdefault(key, len(numbers))
            if node == len(tokens):
                tokens.append(segment.tokens)
            chain.append(node)
        chains.append(tuple(chain))
    return Chains(of_request=tuple(chains), tokens=tuple(tokens))


class KvPool:
    """Tokens of KV memory: private to running requests, shared by them, or idle in the cache.

    Idle segments leave in the order in which they were last used, the end of a prompt before its beginning, so that a
    cached segment's prefix is always cached too. `used` never exceeds `capacity`.
    """

    __slots__ = ("_holders", "_idle", "_tokens", "busy", "capacity", "idle_tokens", "peak")

    def __init__(self, capacity: int, node_tokens: Sequence[int]) -> None:
        self.capacity = capacity
        self.busy = 0
        self.idle_tokens = 0
        self.peak = 0
        self._tokens = node_tokens
        self._holders: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def used(self) -> int:
        """Tokens in the pool, of running requests and of the cache."""
        return self.busy + self.idle_tokens

    def tokens_of(self, node: int) -> int:
        """The length of a node's segment."""
        return self._tokens[node]

    def matched(self, chain: Sequence[int]) -> int:
        """How many of the chain's nodes are in the cache, from its start."""
        for count, node in enumerate(chain):
            if node not in self._holders:
                return count
        return len(chain)

    def take(self, tokens: int) -> bool:
        """Whether `tokens` were taken for a running request; idle segments are evicted as needed, and only then."""
        if self.busy + tokens > self.capacity:
            return False
        while self.used + tokens > self.capacity:
            node, _ = self._idle.popitem(last=False)
            del self._holders[node]
            self.idle_tokens -= self._tokens[node]
        self.busy += tokens
        self.peak = max(self.peak, self.busy)
        return True

    def give(self, tokens: int) -> None:
        """Takes back private tokens."""
        self.busy -= tokens

    def hold(self, nodes: Sequence[int]) -> None:
        """Holds cached nodes for a running request, so that they are not evicted."""
        for node in nodes:
            if self._holders[node] == 0:
                del self._idle[node]
                self.idle_tokens -= self._tokens[node]
                self.busy += self._tokens[node]
            self._holders[node] += 1
        self.peak = max(self.peak, self.busy)

    def release(self, nodes: Sequence[int]) -> None:
        """Lets go of held nodes; those nobody holds stay cached, as the most recently used."""
        for node in reversed(nodes):
            self._holders[node] -= 1
            if self._holders[node] == 0:
                self._idle[node] = None
                self.idle_tokens += self._tokens[node]
                self.busy -= self._tokens[node]

    def publish(self, nodes: Sequence[int]) -> int:
        """Shares freshly computed nodes, held by their request; how many private tokens that turned into shared ones.

        A node that another request has published meanwhile is held, and this request's copy of it is dropped.
        """
        turned = 0
        for node in nodes:
            tokens = self._tokens[node]
            turned += tokens
            if node in self._holders:
                self.busy -= tokens
                self.hold((node,))
            else:
                self._holders[node] = 1
        return turned
