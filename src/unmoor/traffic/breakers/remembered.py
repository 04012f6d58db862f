"""Edits of texts that are often equal, remembered as long as there are few."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

MOST = 512  # a text that comes again does so soon: a shared one, or a dialogue's

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Remembered(Generic[_K, _V]):
    """A pure function of one argument, that forgets all it knew once that is much."""

    def __init__(self, compute: Callable[[_K], _V]) -> None:
        self._compute = compute
        self._known: dict[_K, _V] = {}

    def __call__(self, key: _K) -> _V:
        """What the function gives for `key`."""
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST:
                self._known.clear()
            known = self._known[key] = self._compute(key)
        return known
