"""Tools in unstable order: the same definitions, in another order from one request to the next."""

from __future__ import annotations

from functools import lru_cache

from msgspec import structs

from unmoor.traffic.breakers.breaker import Differing, Suspicion
from unmoor.traffic.breakers.json_text import members_sorted
from unmoor.traffic.breakers.moved import agreement
from unmoor.traffic.breakers.reorder import in_one_order, unstable_sets
from unmoor.traffic.breakers.scene import Scene
from unmoor.traffic.breakers.units import tool_name
from unmoor.traffic.entry import Prompt

WHAT = "tools_order"
FIX = "send the tools sorted by name, in the same order with every request"


def suspect(scene: Scene) -> Suspicion | None:
    """Suspicion that the same tools come in several orders. Tools that differ from one request to another are none."""
    sets = unstable_sets([_names(scene.prompts[row]) for row in scene.sample()])
    differing = _first_differing(scene) if sets else None
    if differing is None:
        return None

    def normalise(prompt: Prompt) -> Prompt:
        order = in_one_order(_names(prompt), sets)
        if order is None or order == sorted(order):
            return prompt
        return structs.replace(prompt, tools=tuple(prompt.tools[i] for i in order))

    return Suspicion(WHAT, FIX, differing, (normalise,))


def _names(prompt: Prompt) -> tuple[str, ...]:
    """Each tool by its name and what it says, whatever the order of its keys."""
    return tuple(map(_name, prompt.tools))


@lru_cache(maxsize=4096)
def _name(tool: str) -> str:
    return f"{tool_name(tool)} {members_sorted(tool)}"


def _first_differing(scene: Scene) -> Differing | None:
    seen: dict[frozenset[str], tuple[int, tuple[str, ...]]] = {}
    for row, prompt in enumerate(scene.prompts):
        names = _names(prompt)
        first, order = seen.setdefault(frozenset(names), (row, names))
        at = next((i for i, (a, b) in enumerate(zip(order, names, strict=False)) if a != b), None)
        if at is not None:
            offset = agreement(scene.prompts[first].tools[at], prompt.tools[at])
            return Differing((first, row), "tool", (at, at), offset)
    return None
