"""Every check, in the order in which findings are told."""

from __future__ import annotations

import importlib
from functools import cache

from unmoor.core.errors import UsageError
from unmoor.core.nearest import did_you_mean
from unmoor.leave.case import Check
from unmoor.leave.finding import Kind

_MODULES: tuple[str, ...] = (
    *("request_fields", "checkpoints", "adapters", "schemas", "parsers"),
    *("answer_length", "sampling_defaults", "seeds", "logprobs", "priority", "tool_choice", "messages", "thinking"),
    *("prompt_tokens", "ends", "usage", "model_name", "errors", "quality", "log_holds"),
    *("launch", "names"),
)


@cache
def checks() -> tuple[Check, ...]:
    """All checks."""
    return tuple(importlib.import_module(f"unmoor.leave.checks.{module}").CHECK for module in _MODULES)


@cache
def kinds() -> dict[str, Kind]:
    """Every kind of finding, by its id."""
    return {kind.id: kind for check in checks() for kind in check.kinds}


def kind(asked: str, *, where: str | None = None) -> Kind:
    """The kind with this id, or this name. Raises UsageError, with the nearest, for any other."""
    known = kinds()
    by_name = {one.name: one for one in known.values()}
    found = known.get(asked.upper()) or by_name.get(asked.casefold())
    if found is None:
        raise UsageError(
            f"no finding has the id '{asked}'",
            where=where,
            seen=asked,
            expected=f"an id from {min(known, default='')} to {max(known, default='')}, or its name",
            hint=did_you_mean(asked, (*known, *by_name)),
        )
    return found
