"""Dotted paths into a request's body, as `Spelling.path` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Tree = dict[str, Any]


def root(path: str) -> str:
    """The field of the body that a path begins with."""
    return path.partition(".")[0]


def at(tree: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401 - any JSON
    """What stands at a path; None where nothing does."""
    here: Any = tree
    for name in path.split("."):
        if not isinstance(here, dict):
            return None
        here = here.get(name)
    return here


def put(tree: Tree, path: str, content: Any) -> None:  # noqa: ANN401 - any JSON
    """Puts content at a path, in objects that are made where there are none."""
    *way, last = path.split(".")
    for name in way:
        inner = tree.get(name)
        if not isinstance(inner, dict):
            inner = tree[name] = {}
        tree = inner
    tree[last] = content


def remove(tree: Tree, path: str) -> None:
    """Takes away what stands at a path, and the objects that it leaves empty."""
    first, _, rest = path.partition(".")
    if not rest:
        tree.pop(first, None)
    elif isinstance(inner := tree.get(first), dict):
        remove(inner, rest)
        if not inner:
            del tree[first]
