"""The nouns of traffic: one request as it was, and a workload of them in order of arrival."""

from __future__ import annotations

import msgspec

from unmoor.core.evidence import Caveat


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """A run of prompt tokens whose content is named, not kept.

    Segments form a chain: two prompts share a prefix exactly as far as their segments are equal from the
    start (same `name`, same `tokens`). A name is only meaningful together with all that come before it.
    """

    name: str
    tokens: int


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of the traffic: when it came and how long it was; never its text.

    `arrival_s` counts from the start of the traffic. `segments` sum to `input_tokens`; they are empty when the
    source says nothing of content (then nothing can be said of prefix overlap).
    """

    arrival_s: float
    input_tokens: int
    output_tokens: int
    segments: tuple[Segment, ...] = ()
    session: str | None = None
    adapter: str | None = None
    schema: str | None = None


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Requests in order of arrival, with what is known of their source.

    `overlap_block_tokens` is the granularity at which the source can tell content apart: 1 where it is exact,
    512 for a Mooncake trace, None where the source says nothing of content.
    `fingerprint` is the SHA-256 of the source as read (a file's bytes, a description's canonical JSON).
    """

    requests: tuple[Request, ...]
    source: str
    format: str
    fingerprint: str
    overlap_block_tokens: int | None
    caveats: tuple[Caveat, ...] = ()

    @property
    def duration_s(self) -> float:
        """Time from the first arrival to the last, in seconds; 0.0 for fewer than two requests."""
        if len(self.requests) < 2:  # noqa: PLR2004 - two arrivals make a duration
            return 0.0
        return self.requests[-1].arrival_s - self.requests[0].arrival_s


class TokenCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Token lengths over all requests of a workload."""

    total: int
    mean: float
    p50: float
    p95: float
    max: int


class TrafficProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What the traffic is, as `unmoor profile` and `unmoor decide` report it.

    `prefix_overlap` is the share of prompt tokens (0-1) that an earlier request also began with, under an
    unlimited cache, at the source's own granularity; None where the source says nothing of content.
    `burstiness` is the coefficient of variation of the gaps between arrivals (1 for Poisson); None under three.
    """

    requests: int
    duration_s: float
    input_tokens: TokenCounts
    output_tokens: TokenCounts
    offered_rps: float | None
    burstiness: float | None
    prefix_overlap: float | None
    overlap_block_tokens: int | None
    source: str
    format: str
    fingerprint: str
    caveats: tuple[Caveat, ...] = ()
