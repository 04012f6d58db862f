"""Unstable JSON key order: the same object written with its keys in another order, in a tool, a schema or a text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from unmoor.traffic.breakers.breaker import Differing, Suspicion
from unmoor.traffic.breakers.json_text import json_spans, members_sorted
from unmoor.traffic.breakers.moved import agreement
from unmoor.traffic.breakers.scene import Scene
from unmoor.traffic.entry import Part, Prompt

WHAT = "json_key_order"
FIX = "write JSON with sorted keys (in Python, json.dumps(..., sort_keys=True)), the same way with every request"
LEAST_SEEN = 4  # objects of the same keys, before their order is said to be unstable
LEAST_ORDERS = 2
LEAST_KEYS = 2


@dataclass(slots=True)
class _Sorter:
    """Sorts the members in a prompt's texts; equal texts once."""

    known: dict[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str:
        if "{" not in text:
            return text
        known = self.known.get(text)
        if known is None:
            known = self.known[text] = members_sorted(text)
        return known

    def __call__(self, prompt: Prompt) -> Prompt:
        tools = tuple(map(self.text, prompt.tools))
        parts = tuple(
            part if (text := self.text(part.text)) == part.text else Part(part.role, text) for part in prompt.parts
        )
        return prompt if tools == prompt.tools and parts == prompt.parts else replace(prompt, tools=tools, parts=parts)


class _Object(NamedTuple):
    row: int
    unit: str
    at: int
    start: int
    text: str
    keys: tuple[str, ...]


def suspect(scene: Scene) -> Suspicion | None:
    """Suspicion that objects of the same keys are written in several orders of them."""
    groups: dict[tuple[str, ...], list[_Object]] = defaultdict(list)
    for row in scene.sample():
        for found in _objects(row, scene.prompts[row]):
            groups[tuple(sorted(found.keys))].append(found)
    for keys, objects in groups.items():
        if len(objects) < LEAST_SEEN or len(keys) < LEAST_KEYS or len({found.keys for found in objects}) < LEAST_ORDERS:
            continue
        first = objects[0]
        other = next(found for found in objects if found.keys != first.keys)
        offset = first.start + agreement(first.text, other.text)
        return Suspicion(
            WHAT, FIX, Differing((first.row, other.row), first.unit, (first.at, other.at), offset), (_Sorter(),)
        )
    return None


def _objects(row: int, prompt: Prompt) -> Iterator[_Object]:
    """The JSON objects of a prompt's tools and messages."""
    texts = [("tool", at, tool) for at, tool in enumerate(prompt.tools)]
    texts += [("message", at, part.text) for at, part in enumerate(prompt.parts)]
    for unit, at, text in texts:
        if "{" in text:
            for start, end, _, keys in json_spans(text):
                yield _Object(row, unit, at, start, text[start:end], keys)
