"""The prompts that are looked at, and what several kinds want to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from unmoor.traffic.breakers.breaker import Normalise
from unmoor.traffic.breakers.slots import Slot, learn
from unmoor.traffic.breakers.units import UnitKey, early_units
from unmoor.traffic.entry import Prompt

SAMPLE = 400
"""Prompts from which a kind's evidence is gathered; fixes are then applied to all of them."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Prompts in the log's order, with their lines, and their tenants where known."""

    prompts: tuple[Prompt, ...]
    lines: tuple[int, ...]
    tenants: tuple[str | None, ...]

    def after(self, fix: Normalise) -> Scene:
        """The same requests with a fix applied."""
        return replace(self, prompts=tuple(fix(prompt) for prompt in self.prompts))

    def sample(self) -> Sequence[int]:
        """Rows to gather evidence from: up to SAMPLE of them, evenly over the window."""
        step = max(1, -(-len(self.prompts) // SAMPLE))
        return range(0, len(self.prompts), step)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Where early texts made from one template differ."""
        texts: dict[UnitKey, dict[str, str | None]] = {}
        for row in self.sample():
            for unit in early_units(self.prompts[row]):
                texts.setdefault(unit.key, {}).setdefault(unit.text, self.tenants[row])
        found = []
        for key, distinct in texts.items():
            if len(distinct) > 2:  # noqa: PLR2004 - two texts may differ by right; three are a habit
                found += learn(key, list(distinct.items()))
        return tuple(found)
