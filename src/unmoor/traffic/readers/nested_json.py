"""JSON within JSON: an object or a list that a gateway kept as text."""

from __future__ import annotations

from typing import Any

import msgspec


def object_in(value: object) -> dict[str, Any] | None:
    """An object, or the object that a text holds as JSON; None for anything else."""
    if isinstance(value, str) and value.startswith("{"):
        value = parsed(value)
    return value if isinstance(value, dict) else None


def list_in(value: object) -> object:
    """The list that a text holds as JSON; anything else as it is."""
    listed = parsed(value) if isinstance(value, str) and value.startswith("[") else value
    return value if listed is None else listed


def parsed(text: str) -> object:
    """What the text holds as JSON; None where it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
