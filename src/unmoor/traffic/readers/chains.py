"""Blocks and segments as chained symbols, many prompts at once."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unmoor.core.traffic import Segment
from unmoor.traffic.entry import Blocks
from unmoor.traffic.readers.contract import Cut
from unmoor.traffic.splitmix import GOLDEN, mixed

_SYMBOL_BYTES = 8
_INT64 = 2**63
_Whole = TypeVar("_Whole", np.uint64, np.int64)


class Chains:
    """Prompts as the names and the tokens of their pieces, collected to be chained in one go.

    A piece is named by 64 bits; its place and its tokens are mixed in, and the sum of all from the start, modulo 2^64,
    is the chained symbol: equal symbols mean equal prefixes but for chance (2^-64 for each pair). A log's prompts are
    all in blocks or all in segments.
    """

    def __init__(self) -> None:
        self._names = array("q")
        self._counts = array("q")  # pieces of each prompt
        self._tokens = array("q")  # of each piece, of prompts in segments
        self._size = array("q")  # of prompts in blocks, the tokens of all pieces but the last, and of the last
        self._last = array("q")

    def __len__(self) -> int:
        return len(self._names)

    def add_blocks(self, blocks: Blocks, input_tokens: int, *, unlike_any: int) -> None:
        """One prompt in blocks. Where ids do not reach its end, the rest is a piece of its own, named `unlike_any`."""
        names = list(blocks.ids)
        if input_tokens > blocks.block_tokens * len(names):
            names.append(_hashed(f"{unlike_any}".encode(), b"row"))
        try:
            self._names.fromlist(names)
        except OverflowError:  # beyond 64 bits; none was added
            self._names.extend(map(_folded, names))
        self._counts.append(len(names))
        self._size.append(blocks.block_tokens)
        self._last.append(input_tokens - blocks.block_tokens * (len(names) - 1))

    def add_segments(self, chain: Sequence[Segment]) -> None:
        """One prompt in segments."""
        self._names.extend(_hashed(segment.name.encode("utf-8", "surrogatepass"), b"segment") for segment in chain)
        self._tokens.extend(segment.tokens for segment in chain)
        self._counts.append(len(chain))

    def cuts(self) -> list[Cut]:
        """Every prompt collected, as chained symbols whose ends are in tokens; then none is."""
        names, counts = np.array(self._names).view(np.uint64), np.array(self._counts)
        lasts = np.cumsum(counts)
        firsts = np.repeat(lasts - counts, counts)
        tokens = np.array(self._tokens) if self._tokens else self._block_tokens(counts, lasts)
        self.__init__()  # type: ignore[misc] # empty again
        places = np.arange(len(names)) - firsts
        symbols = mixed(names ^ mixed(places.view(np.uint64) * GOLDEN + tokens.view(np.uint64)))
        chain, ends = _summed(symbols, firsts), _summed(tokens, firsts)
        starts = (lasts - counts).tolist()
        return [Cut(chain[a:b], ends[a:b]) for a, b in zip(starts, lasts.tolist(), strict=True)]

    def _block_tokens(self, counts: NDArray[np.int64], lasts: NDArray[np.int64]) -> NDArray[np.int64]:
        tokens = np.repeat(np.array(self._size, dtype=np.int64), counts)
        filled = counts > 0
        tokens[lasts[filled] - 1] = np.array(self._last, dtype=np.int64)[filled]
        return tokens


def like_no_other(row: int) -> int:
    """The chained symbol (uint64) of a prompt of which nothing is known."""
    return _hashed(f"{row}".encode(), b"unknown") % 2**64


def _summed(values: NDArray[_Whole], firsts: NDArray[np.int64]) -> NDArray[_Whole]:
    """Running sums, each prompt's from its own start."""
    sums = np.cumsum(values, dtype=values.dtype)
    before: NDArray[_Whole] = sums - values
    return sums - before[firsts]


def _hashed(name: bytes, kind: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(name, digest_size=_SYMBOL_BYTES, person=kind).digest(), "little", signed=True)


def _folded(name: int) -> int:
    return name if -_INT64 <= name < _INT64 else _hashed(f"{name}".encode(), b"id")
