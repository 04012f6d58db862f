"""What requests asked for besides text, counted within limits."""

from __future__ import annotations

from collections import Counter

import msgspec

from unmoor.traffic.entry import Entry
from unmoor.traffic.log import Features

MOST_VALUES = 50
MOST_NAMES = 1000
REST = "..."
"""Under this the rest is counted, beyond 50 values of a parameter, or 1,000 tools, models or parameters."""

WORDS = frozenset(("none", "auto", "required", "minimal", "low", "medium", "high", "disabled"))
"""Words that the interfaces themselves define; any other word could be somebody's."""


class AskedFor:
    """Counts the features of a log. Values that could be text of somebody's are counted by their kind."""

    def __init__(self) -> None:
        self._sampling: dict[str, Counter[str]] = {}
        self._tools: Counter[str] = Counter()
        self._models: Counter[str] = Counter()
        self._with_tools = 0

    def count(self, entry: Entry) -> None:
        """Counts one request; a tool offered twice in it counts once."""
        if entry.model is not None:
            _count(self._models, entry.model, MOST_NAMES)
        if entry.tools:
            self._with_tools += 1
            for tool in set(entry.tools):
                _count(self._tools, tool, MOST_NAMES)
        for parameter, value in entry.sampling.items():
            values = self._sampling.get(parameter)
            if values is None:
                name = parameter if len(self._sampling) < MOST_NAMES else REST
                values = self._sampling.setdefault(name, Counter())
            _count(values, _shown(value), MOST_VALUES)

    @property
    def features(self) -> Features:
        """The counts so far."""
        return Features(
            sampling={name: dict(values) for name, values in self._sampling.items()},
            tools=dict(self._tools),
            models=dict(self._models),
            with_tools=self._with_tools,
        )


def _count(counts: Counter[str], name: str, most: int) -> None:
    counts[name if name in counts or len(counts) < most else REST] += 1


def _shown(value: object) -> str:
    """A number, a truth value or a word of the interfaces as JSON; of anything else its kind."""
    if value is None or isinstance(value, bool | int | float):
        return msgspec.json.encode(value).decode()
    if isinstance(value, str):
        return f'"{value}"' if value in WORDS else "a text"
    return f"a list of {len(value)}" if isinstance(value, list | tuple) else "an object"
