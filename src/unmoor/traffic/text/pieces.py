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
from unmoor.traffic.splitmix import mix_in_place

PIECE_BYTES = 64
"""About 16 tokens: what is shared is short by half a piece on average, a whole one at most; 32 would double the tree's
symbols to halve that."""

_WORDS = PIECE_BYTES // 8
_SLICE_WORDS = 8192
_TOOL, _ROLE, _TEXT = b"\xf8", b"\xf9", b"\xfa"  # in no UTF-8, so that no text can pass for another's beginning


class BytesCutter:
    """A `Cutter` by bytes: tools, then messages with their roles, as they follow each other.

    Each piece is hashed by a keyed sum of its words, mixed with its place and its length; a symbol is the sum of all up
    to there, modulo 2^64. Prompts share whole pieces only: one that goes on where another ends within a piece shares
    what comes before that piece. Without `key` nothing can be told from a symbol, which is kept in memory,
    or in a temporary file without a name.
    """

    by: Literal["bytes"] = "bytes"
    step = PIECE_BYTES
    notes: Sequence[Caveat] = ()

    def __init__(self, key: bytes) -> None:
        stream = hashlib.shake_256(b"unmoor pieces" + key).digest(8 * (2 * _WORDS + 2))
        words = np.frombuffer(stream, dtype=np.uint64)
        # Of a whole slice: numpy is slow where it repeats rows of eight.
        self._masks = np.tile(words[:_WORDS], _SLICE_WORDS // _WORDS)
        self._factors = np.tile(words[_WORDS : 2 * _WORDS] | np.uint64(1), _SLICE_WORDS // _WORDS)
        self._place, self._length = words[-2] | np.uint64(1), words[-1]

    def cut(self, prompts: Sequence[Prompt]) -> list[Cut]:
        """Each prompt as chained symbols; `ends` are in bytes."""
        return self._cut([_written(prompt) for prompt in prompts])

    def cut_bytes(self, contents: Sequence[bytes | memoryview]) -> list[Cut]:
        """Any bytes as chained symbols."""
        return self._cut([[content] for content in contents])

    def _cut(self, written: Sequence[Sequence[bytes | memoryview]]) -> list[Cut]:
        sizes = np.fromiter((sum(map(len, parts)) for parts in written), dtype=np.int64, count=len(written))
        counts = -(-sizes // PIECE_BYTES)
        lasts = np.cumsum(counts)
        starts = lasts - counts
        firsts = np.repeat(starts, counts)
        ends = (np.arange(1, len(firsts) + 1) - firsts) * PIECE_BYTES
        ends[lasts[counts > 0] - 1] = sizes[counts > 0]
        symbols = mix_in_place(
            self._pieces(_padded(written, sizes.tolist())) + ends.view(np.uint64) * self._place + self._length
        )
        sums = np.cumsum(symbols, dtype=np.uint64)
        chain = sums - (sums - symbols)[firsts]
        return [Cut(chain[a:b], ends[a:b]) for a, b in zip(starts.tolist(), lasts.tolist(), strict=True)]

    def _pieces(self, content: bytes) -> NDArray[np.uint64]:
        """The sum of each piece's words, which are mixed first: a plain sum of products would show their multiples.

        In slices that stay in the core's own cache.
        """
        words = np.frombuffer(content, dtype=np.uint64)
        pieces = np.empty(len(words) // _WORDS, dtype=np.uint64)
        for start in range(0, len(words), _SLICE_WORDS):
            some = words[start : start + _SLICE_WORDS]
            mixed = some ^ self._masks[: len(some)]
            mixed *= self._factors[: len(some)]
            sums = mix_in_place(mixed)
            while len(sums) * _WORDS > len(some):
                sums = sums[::2] + sums[1::2]
            pieces[start // _WORDS : (start + len(some)) // _WORDS] = sums
        return pieces


def _written(prompt: Prompt) -> list[bytes]:
    written: list[bytes] = []
    for tool in prompt.tools:
        written += (_TOOL, tool.encode("utf-8", "surrogatepass"))
    for part in prompt.parts:
        role, text = part.role.encode("utf-8", "surrogatepass"), part.text.encode("utf-8", "surrogatepass")
        written += (_ROLE, role, _TEXT, text)
    return written


def _padded(written: Sequence[Sequence[bytes | memoryview]], sizes: Sequence[int]) -> bytes:
    """All, one after another, each filled up with zeros to whole pieces."""
    filled: list[bytes | memoryview] = []
    for parts, size in zip(written, sizes, strict=True):
        filled += parts
        filled.append(bytes(-size % PIECE_BYTES))
    return b"".join(filled)
