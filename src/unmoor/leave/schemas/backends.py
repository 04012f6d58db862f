"""Which grammar library a side gives a constraint to, as its surface says."""

from __future__ import annotations

from collections.abc import Collection

from unmoor.engines.surface.surface import Surface

PROBED = ("xgrammar", "llguidance")
"""Libraries that can be asked here, by their packages' names."""

_PACKAGES = {"guidance": "llguidance"}


def backends(side: Surface) -> tuple[str, ...]:
    """What enforces constraints on this side, in the order in which it is chosen.

    Where nothing does unless it is configured, the first library that could be: one of which its surface tells.
    """
    if is_without_backend(side):
        could_be = {key.partition("/")[0] for key in side.schema if "/" in key}
        return tuple(library for library in PROBED if library in could_be)[:1]
    told = side.traits.get("structured_backends")
    words = str(told.value).replace(",", " ").split() if told is not None and told.value else []
    return tuple(_PACKAGES.get(word, word) for word in words)


def pinned(side: Surface, library: str) -> str:
    """The version of the library that this side comes with; empty where its surface names none exactly.

    The trait `structured_versions` lists LIBRARY==VERSION.
    """
    told = side.traits.get("structured_versions")
    named = dict(pair.split("==", 1) for pair in str(told.value).split() if "==" in pair) if told is not None else {}
    return named.get(library, "")


def is_without_backend(side: Surface) -> bool:
    """Whether the surface says that nothing enforces constraints unless it is configured."""
    told = side.traits.get("structured_backends")
    return told is not None and told.value in {"none", "", None}


def backends_for(side: Surface, features: Collection[str]) -> tuple[str, ...]:
    """The backends that get a schema with these features, in order: the first that compiles it serves it.

    The trait `structured_fallback` lists FEATURE>BACKEND: a schema with the feature goes to that backend at once.
    """
    fallback = side.traits.get("structured_fallback")
    pairs = [pair.partition(">") for pair in str(fallback.value).split()] if fallback is not None else []
    sent = [_PACKAGES.get(backend, backend) for feature, _, backend in pairs if feature in features]
    if not sent:
        return backends(side)
    order = backends(side)
    return (max(sent, key=lambda name: order.index(name) if name in order else -1),)
