"""A log's fingerprint: lengths, times and keyed hashes of names, and of the prompts only how far they are equal.

There is no hash of a prompt in it, keyed or not: the tree that the prompts make is enough for every figure, and tells
nobody what stands in it. docs/explain/fingerprint.md says what it does tell.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from math import isnan
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.core.errors import UsageError
from unmoor.traffic.coarsening import quantised
from unmoor.traffic.log import UNKNOWN, BreakerShare, Features, Names, Traffic
from unmoor.traffic.readers.asked_for import WORDS
from unmoor.traffic.readers.fingerprint_jsonl import VERSION, Header, Node, Row, Sum

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
    unless given. Same log, key and block size: same bytes. A fingerprint's fingerprint has the same figures.

    Raises UsageError for a key that is too short or too long, and for blocks finer than the log tells content apart,
    before the first chunk is asked for.
    """
    hashed = _Hashed(key)
    coarse = quantised(traffic, block_tokens)
    found = coarse.breakers if breakers is None else _shares(breakers)
    return _summed(_lines(coarse, hashed, _header(traffic, coarse, hashed, found)))


class _Hashed:
    """Names as keyed hashes: 64 bits of BLAKE2b, another function for every kind of name."""

    def __init__(self, key: bytes) -> None:
        if not LEAST_KEY_BYTES <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise UsageError(
                "not a key",
                where="key",
                seen=f"{len(key)} bytes",
                expected=f"{LEAST_KEY_BYTES} to {hashlib.blake2b.MAX_KEY_SIZE} bytes",
                hint="secrets.token_bytes(32) makes one",
            )
        self._key = key

    def name(self, kind: str, name: str) -> str:
        text = name.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=_HASH_BYTES, key=self._key, person=kind.encode()).hexdigest()

    def column(self, kind: str, names: Names) -> list[str]:
        return [self.name(kind, name) for name in names.names]

    def schemas(self, names: Names) -> list[str]:
        """The kind of structured output in clear, where it is one that we know; the schema as its hash."""
        kinds = (name.partition(":")[0] for name in names.names)
        hashes = self.column("schema", names)
        return [f"{k if k in _SCHEMA_KINDS else 'other'}:{h}" for k, h in zip(kinds, hashes, strict=True)]

    def counts(self, kind: str, counts: Mapping[str, int]) -> dict[str, int]:
        return {self.name(kind, name): count for name, count in counts.items()}


def _shares(breakers: Iterable[Costly]) -> tuple[BreakerShare, ...]:
    return tuple(BreakerShare(what=b.what, share_lost=b.share_lost, gain=b.gain) for b in breakers)


def _header(traffic: Traffic, coarse: Traffic, hashed: _Hashed, breakers: tuple[BreakerShare, ...] | None) -> Header:
    return Header(
        unmoor_fingerprint=VERSION,
        block_tokens=coarse.grain.tokens if coarse.grain else None,
        requests=len(coarse),
        nodes=len(coarse.tree) - 1 if coarse.tree else 0,
        grain=traffic.grain,
        format=traffic.format,
        features=_features(traffic.features, hashed),
        breakers=breakers,
        skipped_lines=traffic.skipped_lines,
        caveats=tuple(dict.fromkeys(caveat.code for caveat in traffic.caveats)),
        columns=Row.__struct_fields__,
        made_by={"verb": "unmoor profile --fingerprint"},
        whole_blocks=traffic.whole_blocks or coarse.grain != traffic.grain,
    )


def _features(features: Features, hashed: _Hashed) -> Features:
    sampling: dict[str, dict[str, int]] = {}
    for parameter, counts in features.sampling.items():
        known = parameter in PARAMETERS
        name = parameter if known else hashed.name("parameter", parameter)
        kept: Counter[str] = Counter()
        for value, count in counts.items():
            kept[value if known and _tells_nothing(parameter, value) else hashed.name("value", value)] += count
        sampling[name] = dict(kept)
    return Features(
        sampling=sampling,
        tools=hashed.counts("tool", features.tools),
        models=hashed.counts("model", features.models),
        with_tools=features.with_tools,
    )


PARAMETERS = frozenset(
    (
        *("temperature", "top_p", "top_k", "min_p", "typical_p", "n", "best_of", "seed", "stop", "stream"),
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "min_tokens", "ignore_eos"),
        *("presence_penalty", "frequency_penalty", "repetition_penalty", "length_penalty", "use_beam_search"),
        *("logprobs", "top_logprobs", "prompt_logprobs", "logit_bias", "parallel_tool_calls", "tool_choice"),
        *("reasoning_effort", "skip_special_tokens", "include_stop_str_in_output", "echo", "store", "truncation"),
    )
)
"""Sampling parameters whose names stay; any other name could be a message, and is hashed."""

_MANY = "..."  # how Features counts the values beyond the first fifty


def _tells_nothing(parameter: str, value: str) -> bool:
    """Whether a value may stand: a number that is no seed, yes or no, or a word that the interfaces define."""
    if value == _MANY:
        return True
    try:
        decoded = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return False
    if isinstance(decoded, str):
        return decoded in WORDS
    return decoded is None or (isinstance(decoded, bool | int | float) and parameter != "seed")


def _lines(traffic: Traffic, hashed: _Hashed, header: Header) -> Iterator[Header | Node | Row]:
    yield header
    if traffic.tree is not None:
        parent = traffic.tree.parent[1:]
        tokens = traffic.tree.end[1:] - traffic.tree.end[parent]
        yield from map(Node, parent.tolist(), tokens.tolist())
    columns = (
        _microseconds(traffic.arrival_s),
        _known(traffic.input_tokens),
        _known(traffic.output_tokens),
        _microseconds(traffic.took_s),
        _known(traffic.node),
        _named(traffic.session, hashed.column("session", traffic.session)),
        _named(traffic.tenant, hashed.column("tenant", traffic.tenant)),
        _named(traffic.adapter, hashed.column("adapter", traffic.adapter)),
        _named(traffic.schema, hashed.schemas(traffic.schema)),
    )
    yield from map(Row, *columns)


def _microseconds(seconds: NDArray[np.float64]) -> Iterator[int | None]:
    return (None if isnan(at) else round(at * 1e6) for at in map(float, seconds))


def _known(column: NDArray[np.int64] | NDArray[np.int32]) -> Iterator[int | None]:
    return (None if value == UNKNOWN else value for value in map(int, column))


def _named(names: Names, hashes: list[str]) -> Iterator[str | None]:
    return (None if code == UNKNOWN else hashes[code] for code in map(int, names.code))


def _summed(lines: Iterator[Header | Node | Row]) -> Iterator[bytes]:
    """The lines as JSON, some thousands at a time, and their sum after them."""
    encoder, digest = msgspec.json.Encoder(), hashlib.sha256()
    while chunk := b"".join(encoder.encode(line) + b"\n" for line in islice(lines, _CHUNK_LINES)):
        digest.update(chunk)
        yield chunk
    yield encoder.encode(Sum(digest.hexdigest())) + b"\n"
