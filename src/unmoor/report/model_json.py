"""A check of a model as one JSON object; docs/reference/check-model.md says what each key means."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from unmoor.leave.adapters.adapter import Adapter
from unmoor.leave.check_model import ModelReport
from unmoor.leave.checkpoint.checkpoint import Checkpoint

_BIG = ("shape_of", "chat_template")


def to_json(report: ModelReport) -> str:
    """The whole report. Tensors' shapes and the template's text are left out."""
    tree = {
        "checkpoint": _checkpoint(report.checkpoint),
        "verdicts": [msgspec.to_builtins(one) for one in report.verdicts],
        "adapters": [_adapter(one) for one in report.adapters],
        "adapter_verdicts": [msgspec.to_builtins(one) for one in report.adapter_verdicts],
        "findings": [msgspec.to_builtins(one) for one in report.findings],
        "lost": list(report.lost),
        "caveats": [msgspec.to_builtins(one) for one in report.caveats],
    }
    return json.dumps(_finite(tree), allow_nan=False)


def _checkpoint(one: Checkpoint) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.to_builtins(one)
    characters = None if one.chat_template is None else len(one.chat_template)
    return {**{key: value for key, value in tree.items() if key not in _BIG}, "chat_template_characters": characters}


def _adapter(one: Adapter) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.to_builtins(one)
    return {key: value for key, value in tree.items() if key not in _BIG}


def _finite(value: Any) -> Any:  # noqa: ANN401 - a tree of plain values
    """`value` without the numbers that JSON does not have; foreign files can hold them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value
