"""Environments that hold an engine's output parsers and nothing else of it. Adding one is one line below."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from unmoor.engines.contract import InstallSpec

_MODULES: Mapping[str, str] = {"sglang-parsers": "unmoor.engines.sglang"}


def parser_environments() -> dict[str, InstallSpec]:
    """How each such environment is made, by its name: the engine's, with "-parsers" behind it."""
    return {name: importlib.import_module(module).OUTPUT_PARSERS for name, module in _MODULES.items()}
