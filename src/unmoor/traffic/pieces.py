"""Prompts as text, told apart by bytes: pieces of 64 bytes, each hashed with all that came before it, under a key."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Prompt
from unmoor.traffic.readers.contract import Cut

PIECE_BYTES = 64
_WORDS = PIECE_BYTES // 8
_PLACES = np.arange(_WORDS, dtype=np.uint64)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


class BytesCutter:
    """A `Cutter` by bytes: tools, then messages with their roles, as they follow each other.

    Each piece is hashed by a keyed sum of its words, mixed with its place and its length; a symbol is the sum of all up
    to there, modulo 2^64. Without `key` nothing can be told from a symbol, which is kept in memory,
    or in a temporary file without a name.
    """

    by: Literal["bytes"] = "bytes"
    step = PIECE_BYTES
    notes: Sequence[Caveat] = ()

    def __init__(self, key: bytes) -> None:
        stream = hashlib.shake_256(b"unmoor pieces" + key).digest(8 * (_WORDS + 2))
        words = np.frombuffer(stream, dtype=np.uint64)
        self._factors = words[:_WORDS] | np.uint64(1)
        self._place, self._length = words[_WORDS] | np.uint64(1), words[_WORDS + 1]

    def cut(self, prompts: Sequence[Prompt]) -> list[Cut]:
        """Each prompt as chained symbols; `ends` are in bytes."""
        return [self.cut_bytes(_bytes_of(prompt)) for prompt in prompts]

    def cut_bytes(self, content: bytes) -> Cut:
        """Any bytes as chained symbols."""
        count = -(-len(content) // PIECE_BYTES)
        words = np.frombuffer(content.ljust(count * PIECE_BYTES, b"\0"), dtype=np.uint64).reshape(count, _WORDS)
        ends = np.minimum(np.arange(1, count + 1, dtype=np.int64) * PIECE_BYTES, len(content))
        # Each word is mixed before it is summed: a plain sum of products would show a word's multiples.
        pieces = _mixed((words + _PLACES) * self._factors).sum(axis=1, dtype=np.uint64)
        symbols = _mixed(pieces + ends.view(np.uint64) * self._place + self._length)
        return Cut(chain=np.cumsum(symbols, dtype=np.uint64), ends=ends)


def _bytes_of(prompt: Prompt) -> bytes:
    spoken = (f"\x01{part.role}\x02{part.text}" for part in prompt.parts)
    return "".join((*(f"\x03{tool}" for tool in prompt.tools), *spoken)).encode("utf-8", "surrogatepass")


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finisher, by Steele, Lea and Flood: each bit of a value changes half of the outcome's.

    In place: the values are the caller's no longer.
    """
    values ^= values >> _SHIFTS[0]
    values *= _MIX_1
    values ^= values >> _SHIFTS[1]
    values *= _MIX_2
    values ^= values >> _SHIFTS[2]
    return values
