"""A prompt's texts as messages and tools again, for cutters that go through a model's chat template."""

from __future__ import annotations

import json

from msgspec import structs

from unmoor.traffic.entry import Prompt


def spelled(prompt: Prompt) -> Prompt:
    """The prompt with `messages` and `tool_objects` made from its texts: the decoded originals are not kept."""
    messages = [{"role": part.role, "content": part.text} for part in prompt.parts]
    return structs.replace(prompt, messages=messages, tool_objects=[_decoded(tool) for tool in prompt.tools])


def _decoded(tool: str) -> object:
    try:
        return json.loads(tool)
    except (ValueError, RecursionError):
        return tool
