"""All that is said of a log, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unmoor.traffic.breakers.breaker import Breaker
from unmoor.traffic.log import Traffic
from unmoor.traffic.timeline import Service
from unmoor.traffic.traffic_report import TrafficReport


@dataclass(frozen=True, kw_only=True)
class EngineBlocks:
    """What an engine's prefix cache is made of: tokens in a block, and whether it is on by default."""

    block_tokens: int
    prefix_caching: bool


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a log. Empty or None: what is sensible for this one."""

    kv_tokens: Sequence[int] = ()
    block_tokens: int | None = None
    replicas: Sequence[int] = ()
    engines: Mapping[str, EngineBlocks] = field(default_factory=dict)
    service: Service = field(default_factory=lambda: Service(prefill_tps=8000.0, tpot_s=0.025))


def profile_log(traffic: Traffic, question: Question, breakers: Sequence[Breaker] | None = None) -> TrafficReport:
    """The report on a log; `breakers` are what was found in its text, None where it has none."""
    raise NotImplementedError
