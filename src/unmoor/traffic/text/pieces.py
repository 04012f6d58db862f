"""Prompts as text, told apart by bytes: pieces of 64 bytes, each hashed with all that came before it, under a key."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Part, Prompt
from unmoor.traffic.readers.contract import Cut
from unmoor.traffic.splitmix import mix_in_place
from unmoor.traffic.text.openings import Opening, Openings

PIECE_BYTES = 64
"""About 16 tokens: what is shared is short by half a piece on average, a whole one at most; 32 would double the tree's
symbols to halve that."""

_WORDS = PIECE_BYTES // 8
_SLICE_WORDS = 8192
_NOTHING = Cut(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))
_TOOL, _ROLE, _TEXT = b"\xf8", b"\xf9", b"\xfa"  # in no UTF-8, so that no text can pass for another's beginning


class BytesCutter:
    """A `Cutter` by bytes: tools, then messages with their roles, as they follow each other.

    Each piece is hashed by a keyed sum of its words, mixed with its place and its length; a symbol is the sum of all up
    to there, modulo 2^64. Prompts share whole pieces only: one that goes on where another ends within a piece shares
    what comes before that piece. Without `key` nothing can be told from a symbol, which is kept in memory,
    or in a temporary file without a name. The text of a few openings stays in memory as long as the cutter does.
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
        self._openings = Openings()

    def cut(self, prompts: Sequence[Prompt]) -> list[Cut]:
        """Each prompt as chained symbols; `ends` are in bytes. It is the same whatever was cut before."""
        found = [self._openings.of(prompt) for prompt in prompts]
        openings = [opening for opening, _ in found]
        cuts = self._cut([_written(*pair) for pair in zip(prompts, openings, strict=True)], openings)
        for prompt, cut, (_, wanted) in zip(prompts, cuts, found, strict=True):
            if wanted:
                self._openings.keep(prompt, _opening(prompt, cut))
        return cuts

    def cut_bytes(self, contents: Sequence[bytes | memoryview]) -> list[Cut]:
        """Any bytes as chained symbols."""
        return self._cut([[content] for content in contents], [None] * len(contents))

    def _cut(self, written: Sequence[Sequence[bytes | memoryview]], openings: Sequence[Opening | None]) -> list[Cut]:
        """Hashes what is written, and lets it go on from the whole pieces of its opening where there is one."""
        known = [opening.whole if opening else _NOTHING for opening in openings]
        sizes = np.array([sum(map(len, parts)) for parts in written], dtype=np.int64)
        counts = -(-sizes // PIECE_BYTES)
        lasts = np.cumsum(counts)
        starts = lasts - counts
        firsts = np.repeat(starts, counts)
        ends = (np.arange(1, len(firsts) + 1) - firsts) * PIECE_BYTES
        ends[lasts[counts > 0] - 1] = sizes[counts > 0]
        if any(openings):
            ends += np.repeat(np.array([len(cut.ends) * PIECE_BYTES for cut in known], dtype=np.int64), counts)
        pieces = self._pieces(_padded(written, sizes.tolist()))
        symbols = mix_in_place(pieces + ends.view(np.uint64) * self._place + self._length)
        sums = np.cumsum(symbols, dtype=np.uint64)
        chain = sums - (sums - symbols)[firsts]
        if any(openings):
            chain += np.repeat(np.array([cut.chain[-1] if len(cut.chain) else 0 for cut in known], np.uint64), counts)
        rests = [Cut(chain[a:b], ends[a:b]) for a, b in zip(starts.tolist(), lasts.tolist(), strict=True)]
        return _joined(known, rests) if any(openings) else rests

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


def _written(prompt: Prompt, opening: Opening | None) -> list[bytes]:
    """The prompt's bytes, from the first piece that its opening does not fill."""
    return _spelled(prompt.tools, prompt.parts) if opening is None else [opening.tail, *_spelled((), prompt.parts[1:])]


def _spelled(tools: Sequence[str], parts: Sequence[Part]) -> list[bytes]:
    written: list[bytes] = []
    for tool in tools:
        written += (_TOOL, tool.encode("utf-8", "surrogatepass"))
    for part in parts:
        role, text = part.role.encode("utf-8", "surrogatepass"), part.text.encode("utf-8", "surrogatepass")
        written += (_ROLE, role, _TEXT, text)
    return written


def _opening(prompt: Prompt, cut: Cut) -> Opening:
    written = b"".join(_spelled(prompt.tools, prompt.parts[:1]))
    count, left = divmod(len(written), PIECE_BYTES)
    whole = Cut(cut.chain[:count].copy(), cut.ends[:count].copy())
    return Opening(prompt.tools, prompt.parts[0], whole, written[len(written) - left :])


def _joined(beginnings: Sequence[Cut], rests: Sequence[Cut]) -> list[Cut]:
    """Each rest after its beginning; of all at once, since numpy takes as long for a few pieces as for thousands."""
    pairs = [cut for pair in zip(beginnings, rests, strict=True) for cut in pair]
    chain = np.concatenate([cut.chain for cut in pairs])
    ends = np.concatenate([cut.ends for cut in pairs])
    lasts = [0, *accumulate(len(cut.chain) for cut in pairs)][::2]
    return [Cut(chain[a:b], ends[a:b]) for a, b in pairwise(lasts)]


def _padded(written: Sequence[Sequence[bytes | memoryview]], sizes: Sequence[int]) -> bytes:
    """All, one after another, each filled up with zeros to whole pieces."""
    filled: list[bytes | memoryview] = []
    for parts, size in zip(written, sizes, strict=True):
        filled += parts
        filled.append(bytes(-size % PIECE_BYTES))
    return b"".join(filled)
