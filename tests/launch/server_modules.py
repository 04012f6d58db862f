"""The parts of the embedded engine's server that need nothing of that engine's environment."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.resources import files
from types import ModuleType


def server_module(name: str) -> ModuleType:
    """A module of the embedded engine's server that needs nothing of that engine's environment."""
    folder = str(files("unmoor") / "launch" / "servers" / "openvino")
    if folder not in sys.path:
        sys.path.append(folder)
    return import_module(name)
