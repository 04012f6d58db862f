"""What replicas serve of a log's prompts that are dealt to them in turn: as they are, and as they would be mended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unmoor.traffic.breakers.mended import Mended, PromptsInTree
from unmoor.traffic.log import Traffic, Whole
from unmoor.traffic.profile.profile_log import salt_by
from unmoor.traffic.reuse.curve import HitCurve, HitRate, hit_curve


@dataclass(frozen=True, slots=True, eq=False)
class Prompts:
    """A log's prompts in a tree, told apart to within `grain_tokens`; `salt` is one number a request, or None."""

    held: PromptsInTree
    salt: Whole | None
    grain_tokens: int

    def __len__(self) -> int:
        return len(self.held.node)

    def dealt(self, block_tokens: int, replicas: int) -> Dealt:
        """Requests dealt in turn to `replicas`, each with a cache in blocks of `block_tokens` and adapters apart."""
        turn = np.arange(len(self)) % replicas
        curves = [
            hit_curve(
                self.held.tree,
                self.held.node,
                block_tokens=block_tokens,
                grain_tokens=self.grain_tokens,
                salt=self.salt,
                members=turn == place,
            )
            for place in range(replicas)
        ]
        return Dealt(curves)


class Dealt:
    """The curves of replicas that requests are dealt to in turn, as one rate over all prompt tokens."""

    def __init__(self, curves: Sequence[HitCurve]) -> None:
        self._curves = curves

    def at(self, kv_tokens: int) -> HitRate:
        """What pools of `kv_tokens` each serve."""
        total = sum(curve.prompt_tokens for curve in self._curves)
        rates = [(curve.prompt_tokens / total, curve.at(kv_tokens)) for curve in self._curves if curve.prompt_tokens]
        exact = all(rate.value is not None for _, rate in rates)
        low = sum(share * rate.low for share, rate in rates)
        high = sum(share * rate.high for share, rate in rates)
        return HitRate(value=low if exact else None, low=low, high=high)


def prompts_of(traffic: Traffic) -> Prompts | None:
    """The whole log's; None where the source says nothing of content."""
    if traffic.tree is None or traffic.grain is None:
        return None
    held = PromptsInTree(tree=traffic.tree, node=traffic.node)
    return Prompts(held=held, salt=salt_by(traffic.adapter), grain_tokens=traffic.grain.tokens)


def unmended(mended: Mended) -> Prompts:
    """Those that were looked at for breakers, as they are."""
    return _of(mended, mended.before)


def all_mended(mended: Mended) -> Prompts:
    """The same with every breaker mended."""
    return _of(mended, mended.after)


def _of(mended: Mended, held: PromptsInTree) -> Prompts:
    return Prompts(held=held, salt=mended.salt, grain_tokens=mended.grain_tokens)
