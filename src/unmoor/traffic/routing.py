"""Prefix reuse over replicas: how requests are dealt, and what each replica's own pool then serves."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.log import Traffic
from unmoor.traffic.reuse import HitRate
from unmoor.traffic.timeline import Service

Routing = Literal["round-robin", "least-loaded", "session-sticky", "prefix-aware"]
ROUTINGS: tuple[Routing, ...] = ("round-robin", "least-loaded", "session-sticky", "prefix-aware")


class ReplicaHits(msgspec.Struct, frozen=True, kw_only=True):
    """What `replicas` pools of `kv_tokens` each serve of a log, under one routing.

    `hit_rate` is over all prompt tokens, None where the log says nothing of content. `requests_share` and
    `tokens_share` are each replica's share (0-1) of requests and of prompt tokens; `requests_imbalance` and
    `tokens_imbalance` are the largest share over the mean, 1 where all are equal (None for an empty log).
    """

    replicas: int
    routing: Routing
    kv_tokens: int
    hit_rate: HitRate | None
    requests_share: tuple[float, ...]
    tokens_share: tuple[float, ...]
    requests_imbalance: float | None
    tokens_imbalance: float | None
    caveats: tuple[Caveat, ...] = ()


def deal(
    traffic: Traffic,
    *,
    replicas: int,
    routing: Routing,
    kv_tokens: int,
    block_tokens: int | None,
    service: Service,
    salt: NDArray[np.int64] | None = None,
) -> NDArray[np.int32]:
    """Which replica (0 to replicas - 1) each request goes to."""
    raise NotImplementedError


def replica_hits(
    traffic: Traffic,
    *,
    replicas: int,
    routing: Routing,
    kv_tokens: int,
    block_tokens: int | None,
    service: Service,
    salt: NDArray[np.int64] | None = None,
) -> ReplicaHits:
    """The hit rate over all replicas, each with its own pool of `kv_tokens` in blocks of `block_tokens`."""
    raise NotImplementedError
