"""The engines that are known, by name. Adding one is one file here, one golden folder and one line below."""

from __future__ import annotations

import importlib
from typing import cast

from unmoor.core.errors import UsageError
from unmoor.core.nearest import did_you_mean
from unmoor.engines.contract import Engine

_MODULES = {
    "vllm": "unmoor.engines.vllm",
    "sglang": "unmoor.engines.sglang",
    "tensorrt-llm": "unmoor.engines.tensorrt_llm",
    "openvino": "unmoor.engines.openvino",
}


def engine_names() -> tuple[str, ...]:
    """Every known engine's name."""
    return tuple(_MODULES)


def engine(name: str, *, where: str | None = None) -> Engine:
    """The engine called `name`. Raises UsageError, with the nearest known name, for any other."""
    if name not in _MODULES:
        raise UsageError(
            f"unknown engine '{name}'",
            where=where,
            seen=name,
            expected=f"one of {', '.join(_MODULES)}",
            hint=did_you_mean(name, _MODULES),
        )
    return cast("Engine", importlib.import_module(_MODULES[name]).ENGINE)
