"""Prices every suspicion by mending it and looking again, the dearest first."""

from __future__ import annotations

from unmoor.traffic.breakers.breaker import Breaker
from unmoor.traffic.breakers.scene import Scene
from unmoor.traffic.readers.contract import Cutter


def find(scene: Scene, cutter: Cutter, *, capacity: int | None = None, show_text: bool = False) -> tuple[Breaker, ...]:
    """The findings of a scene; `capacity` of the cache at which `gain` is given is in the cutter's unit."""
    raise NotImplementedError
