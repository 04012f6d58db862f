"""The early texts of a prompt, by where they stand: its tools by name, and its messages up to the first user's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from msgspec import structs

from unmoor.traffic.entry import Part, Prompt


class UnitKey(NamedTuple):
    """Where a text stands, so that like is compared with like: `name` is a tool's name or a message's role."""

    unit: str
    place: int
    name: str


class Unit(NamedTuple):
    """One early text of one prompt; `at` is its index among the tools or the messages."""

    key: UnitKey
    at: int
    text: str


Edit = Callable[[UnitKey, str], tuple[str, tuple[str, ...]]]
"""A text edited: what stays in its place, and what was taken out of it, in order."""


def early_units(prompt: Prompt) -> Iterator[Unit]:
    """The tools, then the messages up to the first that is the user's."""
    for at, tool in enumerate(prompt.tools):
        yield Unit(UnitKey("tool", 0, tool_name(tool)), at, tool)
    for at, part in enumerate(prompt.parts[: early_messages(prompt)]):
        yield Unit(UnitKey("message", at, part.role), at, part.text)


def early_messages(prompt: Prompt) -> int:
    """How many messages are early: those up to the first user's, at least the first."""
    for at, part in enumerate(prompt.parts):
        if part.role == "user" or not part.role:
            return at + 1
    return min(1, len(prompt.parts))


@lru_cache(maxsize=4096)
def tool_name(tool: str) -> str:
    """The name in a tool's definition; empty where it has none."""
    try:
        body = json.loads(tool)
    except (ValueError, RecursionError):
        return ""
    if isinstance(body, dict):
        inner = body.get("function")
        name = inner.get("name") if isinstance(inner, dict) else body.get("name")
        return name if isinstance(name, str) else ""
    return ""


def edited(prompt: Prompt, edit: Edit, *, to_prompts_end: bool) -> Prompt:
    """The prompt with its early texts edited, and what was taken out put at the end of its message, or of the prompt.

    What comes out of a tool goes to the prompt's end. The same object where nothing changes.
    """
    tools, parts, moved = list(prompt.tools), list(prompt.parts), list[str]()
    for unit in early_units(prompt):
        text, taken = edit(unit.key, unit.text)
        if not taken:
            continue
        if unit.key.unit == "tool":
            tools[unit.at] = text
            moved += taken
        elif to_prompts_end:
            parts[unit.at] = Part(parts[unit.at].role, text)
            moved += taken
        else:
            parts[unit.at] = Part(parts[unit.at].role, "\n".join((text, *taken)))
    if moved and parts:
        parts[-1] = Part(parts[-1].role, "\n".join((parts[-1].text, *moved)))
    if tuple(tools) == prompt.tools and tuple(parts) == prompt.parts:
        return prompt
    return structs.replace(prompt, tools=tuple(tools), parts=tuple(parts))
