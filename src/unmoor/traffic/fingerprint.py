"""A log's fingerprint: lengths, times and keyed hashes of names, and of the prompts only how far they are equal.

There is no hash of a prompt in it, keyed or not: the tree that the prompts make is enough for every figure, and tells
nobody what stands in it. docs/explain/fingerprint.md says what it does tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from unmoor.traffic.log import Traffic

FINEST_BLOCK_TOKENS = 16
"""The block size unless another is said: that of the default engine's cache. A coarser log has its own."""

LEAST_KEY_BYTES = 16

_CHUNK_LINES = 2048
_HASH_BYTES = 8
_SCHEMA_KINDS = frozenset(("json_schema", "json_object", "regex", "grammar", "choice"))


class Costly(Protocol):
    """A habit that ruins sharing, found in a log or carried by a fingerprint."""

    @property
    def what(self) -> str:
        """Its kind."""

    @property
    def share_lost(self) -> float:
        """The share of prompt tokens that it costs."""

    @property
    def gain(self) -> float:
        """What mending it brings."""


def write(
    traffic: Traffic, *, key: bytes, block_tokens: int | None = None, breakers: Iterable[Costly] | None = None
) -> Iterator[bytes]:
    """The fingerprint of a log, in chunks of whole lines; the format `fingerprint` reads it back.

    `key` (16 to 64 bytes) is what names are hashed with (BLAKE2b): a random one that nobody keeps, unless two
    fingerprints are to be compared. It is in no output. `block_tokens` is how finely prompts are told apart in it, 16
    or the log's own grain where that is coarser by default. `breakers` are those found; those that `traffic` carries
    unless given. Same log, key and block size: same bytes.

    Raises UsageError for a key that is too short or too long, and for blocks finer than the log tells content apart,
    before the first chunk is asked for.
    """
    raise NotImplementedError


def block_tokens_of(traffic: Traffic, wanted: int | None) -> int | None:
    """The block size for this log: as wanted, else 16, else the log's own grain where that is coarser.

    None where the source says nothing of content. Raises UsageError for one that the log is too coarse for: less than
    its grain, or no multiple of its blocks.
    """
    raise NotImplementedError


def quantised(traffic: Traffic, block_tokens: int | None = None) -> Traffic:
    """The log as its fingerprint tells it: prompts are equal up to a whole block, or to their end.

    Lengths, times and names are as they were. A prompt's last, partial block is equal only to that of a prompt that is
    equal as a whole. Raises UsageError as `block_tokens_of`.
    """
    raise NotImplementedError
