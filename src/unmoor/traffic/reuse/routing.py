"""Prefix reuse over replicas: how requests are dealt, and what each replica's own pool then serves.

Dealing is one pass over the log; what each replica serves is then read off its own curve (`reuse.hit_curve`), as of one
request after another: concurrency within a replica is `timeline`'s.

- round-robin: request i goes to replica i mod N.
- least-loaded: to the replica with the fewest requests running, of equals to the one that waited longest for a request.
  A request counts as running from the moment it is dealt (gateways that counted later sent slow prefills all to one
  replica), for the log's `took_s`, else for what the service would take with nothing cached.
- session-sticky: to the replica that a hash of the session gives, BLAKE2b modulo N. What is hashed is its number in the
  order of the sessions' first requests, not its name, which a fingerprint of the log does not have. Rendezvous hashing
  would deal as evenly: it differs only when N changes. Requests without a session are dealt round-robin on their own.
- prefix-aware: the rule of SMG's cache-aware policy, below, by what each replica's pool holds: as with KV events, for
  the router knows what was evicted. A router that guesses from what it sent serves less.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.log import UNKNOWN, Names, Small, Traffic, Whole
from unmoor.traffic.reuse.block_pool import BlockPaths, BlockPool, prompt_tokens, rule_for
from unmoor.traffic.reuse.curve import HitCurve, HitRate, curve_of
from unmoor.traffic.reuse.stack_distance import CacheRule
from unmoor.traffic.reuse.timeline import Service
from unmoor.traffic.tree import PromptTree

Routing = Literal["round-robin", "least-loaded", "session-sticky", "prefix-aware"]
ROUTINGS: tuple[Routing, ...] = ("round-robin", "least-loaded", "session-sticky", "prefix-aware")

# SMG's cache-aware policy with its defaults (lightseekorg/smg, docs/concepts/routing/cache-aware.md, read 2026-12-01):
# loads are out of balance when max - min > BALANCE_ABS and max > BALANCE_REL x min, and then the least loaded replica
# is taken; else the longest cached prefix, where it is more than CACHE_THRESHOLD of the prompt; else the least loaded.
BALANCE_ABS = 64
BALANCE_REL = 1.5
CACHE_THRESHOLD = 0.3


class ReplicaHits(msgspec.Struct, frozen=True, kw_only=True):
    """What `replicas` pools of `kv_tokens` each serve of a log, under one routing.

    `hit_rate` is over all prompt tokens; None where the log says nothing of content, or has no prompt tokens.
    `requests_share` and `tokens_share` are each replica's share (0-1) of requests and of prompt tokens;
    `requests_imbalance` and `tokens_imbalance` are the largest share over the mean: 1 where all are equal, `replicas`
    where one gets everything, None where there is nothing to share. `computed_imbalance` is the same of the prompt
    tokens that are computed, not served from cache (for certain): the work that is left.
    """

    replicas: int
    routing: Routing
    kv_tokens: int
    hit_rate: HitRate | None
    requests_share: tuple[float, ...]
    tokens_share: tuple[float, ...]
    requests_imbalance: float | None
    tokens_imbalance: float | None
    computed_imbalance: float | None
    caveats: tuple[Caveat, ...] = ()


def replica_hits(
    traffic: Traffic,
    *,
    replicas: int,
    routing: Routing,
    kv_tokens: int,
    block_tokens: int | None,
    service: Service,
    salt: Whole | None = None,
) -> ReplicaHits:
    """The hit rate over all replicas, each with its own pool of `kv_tokens` in blocks of `block_tokens`.

    `block_tokens` None means the log's own blocks; where an engine's are finer than the log tells content apart, the
    rate has bounds and no value. `service` is used for loads, where the log does not say how long a request took.
    One replica has the rate of a single pool under every routing.
    """
    dealt = deal(
        traffic,
        replicas=replicas,
        routing=routing,
        kv_tokens=kv_tokens,
        block_tokens=block_tokens,
        service=service,
        salt=salt,
    )
    curves = [
        curve_of(traffic, block_tokens=block_tokens, salt=salt, members=dealt == replica) for replica in range(replicas)
    ]
    requests = np.bincount(dealt, minlength=replicas)
    tokens = np.bincount(dealt, weights=prompt_tokens(traffic), minlength=replicas)
    served = [0 if curve is None else curve.hit_tokens_at(kv_tokens) for curve in curves]
    return ReplicaHits(
        replicas=replicas,
        routing=routing,
        kv_tokens=kv_tokens,
        hit_rate=_over_all([curve for curve in curves if curve is not None], kv_tokens),
        requests_share=_shares(requests),
        tokens_share=_shares(tokens),
        requests_imbalance=_imbalance(requests),
        tokens_imbalance=_imbalance(tokens),
        computed_imbalance=_imbalance(tokens - np.array(served)),
        caveats=_doubts(traffic, routing),
    )


def deal(
    traffic: Traffic,
    *,
    replicas: int,
    routing: Routing,
    kv_tokens: int,
    block_tokens: int | None,
    service: Service,
    salt: Whole | None = None,
) -> NDArray[np.int32]:
    """Which replica (0 to `replicas` - 1) each request goes to; the arguments are those of `replica_hits`."""
    if routing == "session-sticky":
        return _sticky(traffic.session, replicas)
    if routing == "least-loaded":
        return _least_loaded(_Loads(traffic, replicas, service), len(traffic))
    if routing == "prefix-aware" and traffic.tree is not None and traffic.grain is not None:
        view = _CachesInView(traffic.tree, rule_for(traffic.grain, block_tokens), replicas, kv_tokens)
        return _prefix_aware(traffic, view, _Loads(traffic, replicas, service), salt)
    return np.arange(len(traffic), dtype=np.int32) % np.int32(replicas)


def _sticky(session: Names, replicas: int) -> Small:
    dealt = np.arange(len(session.code), dtype=np.int32)
    known = session.code != UNKNOWN
    _, first, of_row = np.unique(session.code[known], return_index=True, return_inverse=True)
    home = np.zeros(len(first), dtype=np.int32)
    home[np.argsort(first)] = [_hash(number) % replicas for number in range(len(first))]
    dealt[known] = home[of_row]
    dealt[~known] = np.arange(int((~known).sum()), dtype=np.int32) % np.int32(replicas)
    return dealt


def _hash(number: int) -> int:
    """Another number, that is the same on every machine and in every run."""
    return int.from_bytes(hashlib.blake2b(str(number).encode(), digest_size=8).digest(), "big")


class _Loads:
    """How many requests run on each replica as the log goes by."""

    def __init__(self, traffic: Traffic, replicas: int, service: Service) -> None:
        prompt, output = prompt_tokens(traffic), np.maximum(traffic.output_tokens, 0)
        lasts_s = np.where(
            np.isnan(traffic.took_s), prompt / service.prefill_tps + output * service.tpot_s, traffic.took_s
        )
        # Without times nobody is known to run beside another.
        self._arrival = np.ascontiguousarray(traffic.arrival_s if traffic.timed else np.zeros(len(traffic))).data
        self._lasts = (lasts_s if traffic.timed else np.zeros(len(traffic))).data
        self._ends: list[tuple[float, int]] = []
        self._last_row = [-1] * replicas
        self.running = [0] * replicas

    def arrive(self, row: int) -> None:
        """Goes to the moment of a request's arrival: what ends by then runs no more."""
        while self._ends and self._ends[0][0] <= self._arrival[row]:
            _, replica = heappop(self._ends)
            self.running[replica] -= 1

    def give(self, row: int, replica: int) -> None:
        """The request that arrived goes to a replica."""
        self.running[replica] += 1
        self._last_row[replica] = row
        heappush(self._ends, (self._arrival[row] + self._lasts[row], replica))

    def rank(self, replica: int) -> tuple[int, int]:
        """How little a replica is to be preferred: by who runs there, then by who came there last."""
        return self.running[replica], self._last_row[replica]

    def least(self) -> int:
        """The replica with the least to do; of equals, the one that waited longest for a request."""
        return min(range(len(self.running)), key=self.rank)

    @property
    def out_of_balance(self) -> bool:
        """Whether the loads differ by more than prefixes are worth."""
        most, fewest = max(self.running), min(self.running)
        return most - fewest > BALANCE_ABS and most > BALANCE_REL * fewest


def _least_loaded(loads: _Loads, size: int) -> Small:
    dealt = np.empty(size, dtype=np.int32)
    for row in range(size):
        loads.arrive(row)
        dealt[row] = replica = loads.least()
        loads.give(row, replica)
    return dealt


class _CachesInView:
    """What each replica's pool holds, and for each run of blocks on which replicas it is, as a bit a replica.

    The longest prefix is found along one path, whatever the number of replicas.
    """

    def __init__(self, tree: PromptTree, rule: CacheRule, replicas: int, kv_tokens: int) -> None:
        self.rule = rule
        self._paths = BlockPaths(tree, rule)
        self._pools = [BlockPool(kv_tokens // rule.block_tokens) for _ in range(replicas)]
        self._holders: dict[int, int] = {}

    def path(self, node: int, salt: int) -> tuple[list[int], list[int]]:
        """The runs of a prompt, and their blocks."""
        return self._paths.of(node, salt)

    def cached(self, runs: Sequence[int], sizes: Sequence[int]) -> dict[int, int]:
        """The replicas with the most runs of the prompt, with how many of its leading blocks each has."""
        holders, before, above, last = -1, 0, 0, None
        for run, size in zip(runs, sizes, strict=True):
            here = self._holders.get(run, 0) & holders
            if not here:
                break
            holders, before, above, last = here, before + above, size, run
        if last is None:
            return {}
        return {
            replica: before + pool.resident[last] for replica, pool in enumerate(self._pools) if holders >> replica & 1
        }

    def give(self, replica: int, runs: Sequence[int], sizes: Sequence[int]) -> None:
        """The prompt is computed on a replica, and pushes out what was used longest ago."""
        gone = self._pools[replica].touch(runs, sizes)
        bit = 1 << replica
        for run in runs:
            self._holders[run] = self._holders.get(run, 0) | bit
        for run in gone:
            left = self._holders[run] & ~bit
            if left:
                self._holders[run] = left
            else:
                del self._holders[run]


def _prefix_aware(traffic: Traffic, view: _CachesInView, loads: _Loads, salt: Whole | None) -> Small:
    dealt = np.empty(len(traffic), dtype=np.int32)
    prompt, nodes = np.ascontiguousarray(prompt_tokens(traffic)).data, np.ascontiguousarray(traffic.node).data
    salts = None if salt is None else np.ascontiguousarray(salt).data
    for row in range(len(traffic)):
        loads.arrive(row)
        runs, sizes = view.path(nodes[row], salts[row] if salts is not None else 0)
        replica = _preferred(view, loads, view.cached(runs, sizes), prompt[row])
        loads.give(row, replica)
        view.give(replica, runs, sizes)
        dealt[row] = replica
    return dealt


def _preferred(view: _CachesInView, loads: _Loads, cached: dict[int, int], prompt: int) -> int:
    """The replica with the longest cached prefix, of equals the least loaded; or the least loaded of all."""
    longest = max(cached.values(), default=0)
    if longest * view.rule.block_tokens <= CACHE_THRESHOLD * prompt or loads.out_of_balance:
        return loads.least()
    return min((replica for replica, blocks in cached.items() if blocks == longest), key=loads.rank)


def _over_all(curves: Sequence[HitCurve], kv_tokens: int) -> HitRate | None:
    total = sum(curve.prompt_tokens for curve in curves)
    if not total:
        return None
    filled = [curve for curve in curves if curve.prompt_tokens]
    low = sum(curve.hit_tokens_at(kv_tokens) for curve in filled) / total
    high = sum(round(curve.at(kv_tokens).high * curve.prompt_tokens) for curve in filled) / total
    exact = all(curve.at(kv_tokens).value is not None for curve in filled)
    return HitRate(value=low if exact else None, low=low, high=high)


def _shares(counts: NDArray[np.int64] | NDArray[np.float64]) -> tuple[float, ...]:
    total = counts.sum()
    return tuple((counts / total).tolist()) if total else (0.0,) * len(counts)


def _imbalance(counts: NDArray[np.int64] | NDArray[np.float64]) -> float | None:
    return float(counts.max() / counts.mean()) if counts.sum() else None


def _doubts(traffic: Traffic, routing: Routing) -> tuple[Caveat, ...]:
    doubts = []
    without = int((traffic.session.code == UNKNOWN).sum())
    if routing == "session-sticky" and without:
        text = f"{without} of {len(traffic)} requests have no session and were dealt round-robin"
        doubts.append(Caveat(code="routing_without_session", text=text))
    if routing in {"least-loaded", "prefix-aware"} and not traffic.timed:
        text = "the log has no times: no load is known, and without a cached prefix requests were dealt in turn"
        doubts.append(Caveat(code="routing_without_load", text=text))
    elif routing in {"least-loaded", "prefix-aware"} and np.isnan(traffic.took_s).any():
        text = "loads rest on how fast a replica is taken to be where the log does not say how long a request took"
        doubts.append(Caveat(code="routing_load_assumed", text=text))
    if routing == "prefix-aware" and traffic.tree is None:
        doubts.append(Caveat(code="routing_without_content", text="no content is known: requests were dealt in turn"))
    return tuple(doubts)
