"""What is asked of a log, and at which capacities it is answered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unmoor.traffic.reuse.curve import HitCurve
from unmoor.traffic.reuse.timeline import Service

ASSUMED_SERVICE = Service(prefill_tps=8000.0, tpot_s=0.025)
"""How fast a replica is taken to be where neither the log nor the caller says: the order of a 70B-class model at FP8
on 4 H100."""
REPLICAS = (2, 4, 8)
_LEAST_CAPACITY = 100_000
_STEPS = (1, 2, 5)


@dataclass(frozen=True, kw_only=True)
class EngineBlocks:
    """What an engine's prefix cache is made of: tokens in a block, and whether it is on by default."""

    block_tokens: int
    prefix_caching: bool


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """So many replicas, each with a pool of `kv_tokens`."""

    replicas: int
    kv_tokens: int


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a log. Empty or None: what is sensible for this one.

    `fleets` are those that a plan's hardware can be; they give way to `kv_tokens` and `replicas`. `prefill_tps` and
    `tpot_s` (both above 0) are what a replica does, for concurrency and loads.
    """

    kv_tokens: Sequence[int] = ()
    fleets: Sequence[Fleet] = ()
    block_tokens: int | None = None
    replicas: Sequence[int] = ()
    engines: Mapping[str, EngineBlocks] = field(default_factory=dict)
    prefill_tps: float | None = None
    tpot_s: float | None = None

    @property
    def service(self) -> Service:
        """How fast a replica is taken to be: as given, else as assumed."""
        return Service(
            prefill_tps=ASSUMED_SERVICE.prefill_tps if self.prefill_tps is None else self.prefill_tps,
            tpot_s=ASSUMED_SERVICE.tpot_s if self.tpot_s is None else self.tpot_s,
        )


def grid(curve: HitCurve | None, longest: int = 0, room: int = 0) -> tuple[int, ...]:
    """Round capacities, 1, 2 and 5 times powers of ten, that show a curve whole: up to the first that serves all.

    That one has `room` too, which is what the largest request needs.

    From 0.1 million tokens, or a hundredth of the working set where that is less, but not from under the longest
    prompt, which would not fit, as long as a tenth of the working set is shown. Where nothing is shared, up to room for
    all prompts. Empty without content.
    """
    if curve is None or not curve.prompt_tokens:
        return ()
    most = curve.working_set_tokens or curve.prompt_tokens
    least = max(1, min(_LEAST_CAPACITY, most // 100), min(longest, most // 10))
    first = math.floor(math.log10(least))
    most = max(most, room)
    rounds = [step * 10**power for power in range(first, len(str(most)) + 1) for step in _STEPS]
    below = [size for size in rounds if least <= size < most]
    return (*below, next(size for size in rounds if size >= most))


def focus_of(question: Question, capacities: Sequence[int], curve: HitCurve | None, room: int = 0) -> int | None:
    """The capacity at which replicas, concurrency and fixes are looked at: the middle one of those asked for.

    Else the largest of the fleets', else the first of the grid with `room` for every request at which half of all
    sharing is served, where routing and memory matter; None without.
    """
    asked = sorted(question.kv_tokens)
    if asked:
        return asked[(len(asked) - 1) // 2]
    if question.fleets:
        return max(fleet.kv_tokens for fleet in question.fleets)
    if curve is None or not capacities:
        return None
    half = curve.ideal.low / 2
    return next((size for size in capacities if size >= room and curve.at(size).low >= half), capacities[-1])
