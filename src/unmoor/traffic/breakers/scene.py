"""The prompts that are looked at, and what several kinds want to know of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.breakers.breaker import Normalise
from unmoor.traffic.breakers.slots import Slot, learn
from unmoor.traffic.breakers.units import UnitKey, early_units
from unmoor.traffic.breakers.values import Told
from unmoor.traffic.entry import Prompt

SAMPLE = 400
"""Prompts from which a kind's evidence is gathered, at most; fixes are then applied to all of them."""
SAMPLE_CHARACTERS = 4 * 2**20
TEXTS = 120
"""Different texts at one place that are compared with each other, at most."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Prompts in the log's order, with their lines, and their tenants where known.

    `salt` is one number a prompt, equal where the adapters are: others share no cache. None where no adapter is named.
    """

    prompts: tuple[Prompt, ...]
    lines: tuple[int, ...]
    tenants: tuple[str | None, ...]
    salt: NDArray[np.int64] | None = None

    def after(self, fix: Normalise) -> Scene:
        """The same requests with a fix applied."""
        return replace(self, prompts=tuple(fix(prompt) for prompt in self.prompts))

    def sample(self) -> Sequence[int]:
        """Rows to gather evidence from, evenly over the window: as many as SAMPLE and SAMPLE_CHARACTERS allow."""
        step = max(1, -(-len(self.prompts) // SAMPLE), -(-self._characters // SAMPLE_CHARACTERS))
        return range(0, len(self.prompts), step)

    @cached_property
    def _characters(self) -> int:
        return sum(
            sum(map(len, prompt.tools)) + sum(len(part.text) for part in prompt.parts) for prompt in self.prompts
        )

    @cached_property
    def early_texts(self) -> dict[UnitKey, list[Told]]:
        """The different early texts of the sample by where they stand, up to TEXTS of each, evenly over it."""
        often: dict[UnitKey, Counter[str]] = {}
        tenants: dict[str, str | None] = {}
        for row in self.sample():
            for unit in early_units(self.prompts[row]):
                often.setdefault(unit.key, Counter())[unit.text] += 1
                tenants.setdefault(unit.text, self.tenants[row])
        return {
            key: [Told(text, tenants[text], count) for text, count in list(texts.items())[:: -(-len(texts) // TEXTS)]]
            for key, texts in often.items()
        }

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Where early texts made from one template differ."""
        found = list[Slot]()
        for key, texts in self.early_texts.items():
            if len(texts) > 2:  # noqa: PLR2004 - two texts may differ by right; three are a habit
                found += learn(key, texts)
        return tuple(found)
