"""How many prompts of a log begin alike: with the same tools and the same first message, a system prompt most often.

To compare a long text with one that is kept is many times faster than to hash it. Longer beginnings, a chat's earlier
turns, are not kept: to hold so much text costs as much time as it saves.
"""

from __future__ import annotations

from sys import getsizeof

import msgspec

from unmoor.traffic.entry import Part, Prompt
from unmoor.traffic.readers.contract import Cut

_SHORTEST_TEXT = 1024
_MOST_BYTES = 4 * 1024 * 1024
_OVERHEAD_BYTES = 1000
_MOST_SEEN = 10_000
_KEY_CHARACTERS = 16

Key = tuple[int, int, str]


class Opening(msgspec.Struct, frozen=True, eq=False):
    """Tools and a first message as prompts begin with them.

    `whole` are the pieces that they fill, `tail` the bytes after these.
    """

    tools: tuple[str, ...]
    first: Part
    whole: Cut
    tail: bytes


class Openings:
    """The openings that were met twice, and are not a short text alone: the last of them, 4 MiB together.

    Of what was met once only the length is kept, and the last characters, by which it is looked for.
    """

    def __init__(self) -> None:
        self._kept: dict[Key, Opening] = {}
        self._bytes = 0
        self._seen: set[Key] = set()

    def of(self, prompt: Prompt) -> tuple[Opening | None, bool]:
        """The kept opening that the prompt begins with; where there is none, whether its own should be kept."""
        key = _key_of(prompt)
        if key is None:
            return None, False
        found = self._kept.get(key)
        if found is not None and found.first == prompt.parts[0] and found.tools == prompt.tools:
            return found, False
        if key in self._seen:
            return None, True
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen.add(key)
        return None, False

    def keep(self, prompt: Prompt, opening: Opening) -> None:
        """Keeps the prompt's opening; the oldest are let go where there are too many."""
        key = _key_of(prompt)
        size = _size_of(opening)
        if key is None or size > _MOST_BYTES:
            return
        self._seen.discard(key)
        if key in self._kept:
            self._bytes -= _size_of(self._kept.pop(key))
        while self._bytes + size > _MOST_BYTES:
            self._bytes -= _size_of(self._kept.pop(next(iter(self._kept))))
        self._kept[key] = opening
        self._bytes += size


def _size_of(opening: Opening) -> int:
    text = sum(map(getsizeof, (*opening.tools, opening.first.text)))
    return text + opening.whole.chain.nbytes + opening.whole.ends.nbytes + _OVERHEAD_BYTES


def _key_of(prompt: Prompt) -> Key | None:
    tools, parts = prompt.tools, prompt.parts
    if not parts:
        return None
    text = parts[0].text
    return (len(tools), len(text), text[-_KEY_CHARACTERS:]) if tools or len(text) >= _SHORTEST_TEXT else None
