"""What `unmoor profile` says of a log, as one value: its JSON is the contract of docs/reference/traffic.md.

Missing is null, never 0: a source that says nothing of content has no overlap, which is not an overlap of nothing.
"""

from __future__ import annotations

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.traffic.breakers.breaker import Place
from unmoor.traffic.log import Grain
from unmoor.traffic.reuse.curve import HitRate
from unmoor.traffic.reuse.timeline import Window


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How a quantity is spread over whatever is counted, in that quantity's unit."""

    mean: float
    p50: float
    p95: float
    max: float


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts' or answers' tokens, over the requests whose length is known; all None where none is."""

    total: int | None
    mean: float | None
    p50: float | None
    p95: float | None
    max: int | None


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """How requests came: `rps` is gaps over duration, (requests - 1) / (last - first); None where that is 0.

    `interarrival_cv` is the coefficient of variation of the gaps, 1 for Poisson; None under three requests.
    """

    rps: float | None
    interarrival_cv: float | None


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the log: who arrived, and how many ran (None where the log says not how long requests took)."""

    start_s: float
    end_s: float
    requests: int
    input_tokens: int
    mean_running: float | None
    peak_running: int | None


class Bin(msgspec.Struct, frozen=True, kw_only=True):
    """A bar of a histogram: `count` values from `low` up to, not including, `high`."""

    low: int
    high: int
    count: int


class Histograms(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths in bins of equal ratio; empty where no length is known."""

    input_tokens: tuple[Bin, ...]
    output_tokens: tuple[Bin, ...]


class Concurrency(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests ran at a time, by the log's own times."""

    mean: float
    peak: int


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one conversation. `requests_share` (0-1) of all have one.

    `between_turns_s` is from one arrival to the session's next; `think_s` from the end of an answer to the next
    arrival, None where the log says not how long requests took; both are None where no session has two turns.
    """

    count: int
    requests_share: float
    turns: Spread
    between_turns_s: Spread | None
    think_s: Spread | None


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests have a name, and their prompt tokens where the log ties the two."""

    name: str
    requests: int
    input_tokens: int | None = None


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """Names that requests carry: how many different ones, on which share (0-1) of requests, and the most used."""

    distinct: int
    share: float
    top: tuple[Count, ...]


class Structured(msgspec.Struct, frozen=True, kw_only=True):
    """Requests for structured output: their share (0-1), `kinds` as counts of requests, and the schemas.

    `schemas` is how many different ones there are; `top` names the most used by kind and hash.
    """

    share: float
    kinds: dict[str, int]
    schemas: int
    top: tuple[Count, ...]


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The share (0-1) of prompt tokens that a pool of `kv_tokens` serves.

    `hit_rate` is None where it cannot be known; it then lies within `low` to `high`, where those are known.
    """

    kv_tokens: int
    hit_rate: float | None
    low: float | None
    high: float | None


class EngineReuse(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine's blocks make of the traffic: `ideal` with a pool without a limit, then against capacity.

    `prefix_caching` is whether the engine reuses prefixes unless told otherwise.
    """

    block_tokens: int
    prefix_caching: bool
    ideal: HitRate | None
    hit_rate_curve: tuple[CurvePoint, ...]


class ReplicaRate(msgspec.Struct, frozen=True, kw_only=True):
    """The hit rate over `n` replicas under one routing, each with a pool of `kv_tokens`.

    `low` and `high` are as for a CurvePoint. `busiest_share` is the busiest replica's share (0-1) of prompt tokens. All
    are None without content, and so is `kv_tokens` unless a capacity was asked for.
    """

    n: int
    routing: str
    hit_rate: float | None
    low: float | None
    high: float | None
    kv_tokens: int | None
    busiest_share: float | None


class PrefixShared(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of prompt, from token `begins_at` to `tokens`, that `requests` requests have in common with all before.

    `tokens_saved` is what a pool without a limit serves of it, adapters apart. `parent` is the place in the list of the
    prefix that this one extends, None where that is none of those listed.
    """

    tokens: int
    requests: int
    tokens_saved: int
    begins_at: int
    parent: int | None


class BreakerFound(msgspec.Struct, frozen=True, kw_only=True):
    """A habit that ruins sharing. From a fingerprint only `what`, `share_lost` and `gain` are known.

    `gain` is at a KV capacity of `kv_tokens`, without a limit where that is None.
    """

    what: str
    where: Place | None
    share_lost: float
    gain: float
    overlap_after: float | None = None
    fix: str | None = None
    requests: int | None = None
    lines: tuple[int, int] | None = None
    kv_tokens: int | None = None


class OverTime(msgspec.Struct, frozen=True, kw_only=True):
    """What concurrency does to one replica's hit rate at `kv_tokens`: all prompts of the log on it, as they came.

    `one_after_another` is the hit rate without concurrency, `hit_rate` with it. `still_computing` (0-1 of prompt
    tokens) was being computed for another request when it was wanted. `prefill_tps` and `tpot_s` were given or assumed.
    `windows` are the same over time.
    """

    kv_tokens: int
    block_tokens: int
    one_after_another: float | None
    hit_rate: float | None
    still_computing: float | None
    waited: int | None
    too_large: int
    mean_running: float | None
    peak_running: int | None
    peak_pinned_tokens: int
    prefill_tps: float
    tpot_s: float
    took_known: bool
    windows: tuple[Window, ...]


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine would serve on the plan's hardware, in one layout of it.

    `kv_tokens` is the KV capacity of one replica; None where nobody knows (`reason` says why), and the rates with it.
    `hit_rate` is with requests dealt in turn, `hit_rate_one_pool` if one replica saw all of the traffic. Of
    mended prompts `hit_rate_unmended` is what the same requests have as they are.
    """

    engine: str
    block_tokens: int
    layout: str
    replicas: int
    kv_tokens: int | None
    hit_rate: HitRate | None
    hit_rate_one_pool: HitRate | None
    hit_rate_unmended: HitRate | None = None
    reason: str = ""


class Meaning(msgspec.Struct, frozen=True, kw_only=True):
    """What prefix reuse means for a choice between engines.

    `differ_at_least` and `differ_at_most` bound the largest difference between two engines in one layout, in prompt
    tokens to compute: (1 - hit rate) of the one over that of the other, less 1. None without two engines to compare.
    `could_move_choice` holds it against the plan's `margin`; None where the bounds allow both. `mended` is the same of
    the first `requests` prompts as they would be with every breaker mended, None where none was found in text.
    """

    plan: str | None
    margin: float
    expected: tuple[Expected, ...]
    differ_at_least: float | None
    differ_at_most: float | None
    could_move_choice: bool | None
    sentence: str
    requests: int
    mended: Meaning | None = None


class TrafficReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a log is. The keys up to `caveats` are the contract; those after it are more.

    `prefix_overlap` is the share (0-1) of prompt tokens that an earlier request also began with, under a cache without
    a limit; `prefix_overlap_blocks` the same in the source's blocks. `hit_rate_curve` is at the source's own blocks
    unless others were asked for (`curve_block_tokens`). `breakers` is empty too where there is no text to look at
    (`breakers_looked_for` False).
    `overlap_within` is the overlap when each tenant, or each adapter, has a cache to itself.
    """

    requests: int
    skipped_lines: int
    duration_s: float | None
    input_tokens: Lengths
    output_tokens: Lengths
    arrivals: Arrivals
    prefix_overlap: float | None
    prefix_overlap_blocks: float | None
    hit_rate_curve: tuple[CurvePoint, ...]
    engines: dict[str, EngineReuse]
    replicas: tuple[ReplicaRate, ...]
    shared_prefixes: tuple[PrefixShared, ...]
    breakers: tuple[BreakerFound, ...]
    caveats: tuple[Caveat, ...]
    source: str
    format: str
    fingerprint: str
    skipped: tuple[str, ...]
    breakers_looked_for: bool
    grain: Grain | None
    curve_block_tokens: int | None
    curve_ideal: HitRate | None
    working_set_tokens: int | None
    overlap_within: dict[str, float]
    over_time: tuple[Stretch, ...]
    concurrency: Concurrency | None
    lengths: Histograms
    sessions: Sessions | None
    structured: Structured | None
    tools: Named | None
    adapters: Named | None
    tenants: Named | None
    models: Named | None
    sampling: dict[str, dict[str, int]] | None
    timeline: OverTime | None
    meaning: Meaning | None
