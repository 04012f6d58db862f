"""Unstable JSON key order: the same object written with its keys in another order, in a tool, a schema or a text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import structs

from unmoor.traffic.breakers.breaker import Differing, Normalise, Suspicion
from unmoor.traffic.breakers.json_text import json_spans, members_sorted
from unmoor.traffic.breakers.moved import agreement
from unmoor.traffic.breakers.remembered import Remembered
from unmoor.traffic.breakers.scene import Scene
from unmoor.traffic.breakers.units import tool_name
from unmoor.traffic.entry import Part, Prompt

WHAT = "json_key_order"
FIX = "write JSON with sorted keys (in Python, json.dumps(..., sort_keys=True)), the same way with every request"
LEAST_SEEN = 4  # objects of the same keys, before their order is said to be unstable
LEAST_KEYS = 2


def _sorter() -> Normalise:
    """The fix: sorts the members of every object in a prompt's texts."""
    ordered = Remembered(members_sorted)

    def sort(text: str) -> str:
        return ordered(text) if "{" in text else text

    def normalise(prompt: Prompt) -> Prompt:
        tools = tuple(map(sort, prompt.tools))
        parts = tuple(
            part if (text := sort(part.text)) == part.text else Part(part.role, text) for part in prompt.parts
        )
        return (
            prompt
            if tools == prompt.tools and parts == prompt.parts
            else structs.replace(prompt, tools=tools, parts=parts)
        )

    return normalise


class _Object(NamedTuple):
    row: int
    unit: str
    at: int
    start: int
    text: str
    keys: tuple[str, ...]


def suspect(scene: Scene) -> Suspicion | None:
    """Suspicion that objects of the same keys, in tools of one name or in messages, are written in several orders."""
    groups: dict[tuple[str, tuple[str, ...]], list[_Object]] = defaultdict(list)
    for row in scene.sample():
        for name, found in _objects(row, scene.prompts[row]):
            groups[name, tuple(sorted(found.keys))].append(found)
    for (_, keys), objects in groups.items():
        if len(objects) < LEAST_SEEN or len(keys) < LEAST_KEYS:
            continue
        first = objects[0]
        other = next((found for found in objects if found.keys != first.keys), None)
        if other is not None:
            offset = first.start + agreement(first.text, other.text)
            differing = Differing((first.row, other.row), first.unit, (first.at, other.at), offset)
            return Suspicion(WHAT, FIX, differing, (_sorter(),))
    return None


def _objects(row: int, prompt: Prompt) -> Iterator[tuple[str, _Object]]:
    """The JSON objects of a prompt's tools and messages, each with its tool's name."""
    texts = [("tool", at, tool_name(tool), tool) for at, tool in enumerate(prompt.tools)]
    texts += [("message", at, "", part.text) for at, part in enumerate(prompt.parts)]
    for unit, at, name, text in texts:
        if "{" in text:
            for start, end, _, keys in json_spans(text):
                yield f"{unit} {name}", _Object(row, unit, at, start, text[start:end], keys)
