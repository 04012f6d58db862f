"""Suspicion of text that varies at a place of its own, in front of text that does not: dates, ids, users' texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unmoor.traffic.breakers.breaker import Differing, Normalise, Suspicion
from unmoor.traffic.breakers.remembered import Remembered
from unmoor.traffic.breakers.scene import Scene
from unmoor.traffic.breakers.slots import Slot
from unmoor.traffic.breakers.units import UnitKey, early_units, edited
from unmoor.traffic.breakers.values import Kind
from unmoor.traffic.entry import Prompt


@dataclass(frozen=True, slots=True)
class TakeOut:
    """Takes the values of one kind out of a text."""

    slots: Sequence[Slot]
    kind: Kind

    def spans(self, key: UnitKey, text: str) -> list[tuple[int, int]]:
        """Where the values stand, in order and apart from each other."""
        spans = []
        for slot in self.slots:
            match = slot.pattern.search(text) if slot.key == key else None
            if match:
                spans += [match.span(i + 1) for i, kind in enumerate(slot.kinds) if kind == self.kind]
        apart: list[tuple[int, int]] = []
        for span in sorted(spans):
            if span[0] < span[1] and (not apart or span[0] >= apart[-1][1]):
                apart.append(span)
        return apart

    def __call__(self, key: UnitKey, text: str) -> tuple[str, tuple[str, ...]]:
        """What stays of the text, and what is taken out of it."""
        kept, taken, at = [], [], 0
        for first, last in self.spans(key, text):
            kept.append(text[at:first])
            taken.append(text[first:last])
            at = last
        return "".join((*kept, text[at:])), tuple(taken)


def suspect_moved(scene: Scene, *, kind: Kind, what: str, fix: str) -> Suspicion | None:
    """Suspicion that values of `kind` stand in front of shared text. Tried are two better places for them."""
    slots = [slot for slot in scene.slots if kind in slot.kinds]
    if not slots:
        return None
    take = TakeOut(slots, kind)
    edit = Remembered[tuple[UnitKey, str], tuple[str, tuple[str, ...]]](lambda unit: take(*unit))
    differing = _first_differing(scene, take)
    if differing is None:
        return None

    def place(*, to_prompts_end: bool) -> Normalise:
        def normalise(prompt: Prompt) -> Prompt:
            return edited(prompt, lambda key, text: edit((key, text)), to_prompts_end=to_prompts_end)

        return normalise

    fixes = (place(to_prompts_end=True), place(to_prompts_end=False))
    return Suspicion(what, fix, differing, fixes)


def _first_differing(scene: Scene, take: TakeOut) -> Differing | None:
    """The first two prompts that have another value at one place, and where in it they differ."""
    seen: dict[tuple[UnitKey, int], tuple[int, int, int, str]] = {}
    for row, prompt in enumerate(scene.prompts):
        for unit in early_units(prompt):
            for place, (start, end) in enumerate(take.spans(unit.key, unit.text)):
                value = unit.text[start:end]
                first = seen.setdefault((unit.key, place), (row, unit.at, start, value))
                if value != first[3]:
                    offset = first[2] + agreement(first[3], value)
                    return Differing((first[0], row), unit.key.unit, (first[1], unit.at), offset)
    return None


def agreement(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
