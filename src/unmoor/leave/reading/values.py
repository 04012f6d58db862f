"""How values are kept: numbers and the interfaces' own words as they are, anything else by its kind."""

from __future__ import annotations

from unmoor.engines.surface.surface import Scalar
from unmoor.leave.uses import Place

MOST_VALUES = 1000
"""So many distinct numbers of one field are kept; of further ones only those that widen their range."""
NUMBER, TEXT, LIST, OBJECT = "<number>", "<text>", "<list>", "<object>"

WORDS = frozenset(
    (
        *("none", "auto", "required", "function", "minimal", "low", "medium", "high", "xhigh", "disabled", "enabled"),
        *("text", "json", "json_schema", "json_object", "json_schema_object", "regex", "ebnf", "grammar", "choice"),
        *("structural_tag", "system", "developer", "user", "assistant", "tool", "default", "flex", "priority"),
        *("stop", "length", "tool_calls", "content_filter", "abort", "error", "function_call", "cancelled"),
        *("image_url", "input_image", "image", "input_audio", "audio_url", "video_url", "file", "input_file"),
        *("input_text", "output_text", "refusal", "thinking", "reasoning", "custom", "mcp", "web_search"),
    )
)
"""Words that the interfaces define; any other could be somebody's."""

_ANY_NUMBER = frozenset(("seed", "user", "created"))
"""Fields of which no check asks which number it is."""


class Values:
    """Remembers, field by field, which numbers it has kept."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Place, str], _Numbers] = {}

    def kept(self, place: Place, path: str, value: object) -> Scalar:
        """The value, or its kind in angle brackets."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            if path in _ANY_NUMBER:
                return NUMBER
            numbers = self._numbers.get((place, path))
            if numbers is None:
                numbers = self._numbers[place, path] = _Numbers()
            return numbers.told(value)
        if isinstance(value, str):
            return value if value in WORDS else TEXT
        return LIST if isinstance(value, list | tuple) else OBJECT


def word(value: object) -> Scalar:
    """A word of the interfaces as it is; anything else is a text."""
    return value if isinstance(value, str) and value in WORDS else TEXT


class _Numbers:
    """Which numbers of a field are kept as they are."""

    __slots__ = ("_high", "_kept", "_low")

    def __init__(self) -> None:
        self._kept: set[float] = set()
        self._low = float("inf")
        self._high = float("-inf")

    def told(self, value: float) -> Scalar:
        """The number itself while there are few, or where it lies outside all that were kept; else that it is one."""
        if value in self._kept:
            return value
        if len(self._kept) < MOST_VALUES or not self._low <= value <= self._high:
            self._kept.add(value)
            self._low, self._high = min(self._low, value), max(self._high, value)
            return value
        return NUMBER
