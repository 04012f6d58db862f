"""The figures of one trial: its blocks' records in, measured figures with intervals and their doubts out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from unmoor.bakeoff.other_work import busy_in_blocks
from unmoor.bakeoff.result import Block
from unmoor.core.evidence import Caveat, EvidenceKind, Figure
from unmoor.core.plural import plural
from unmoor.core.record import Record, meets, scheduled_e2e_s, scheduled_ttft_s, tpot_s
from unmoor.core.resampling import blocked_draws, interval
from unmoor.core.slo import Slo
from unmoor.core.stats import Interval, Statistic, mean_of, quantile, quantile_of, wilson
from unmoor.core.traffic import Request

_BEYOND = 5  # a quantile that fewer observations than this lie beyond is said to rest on few
_LENGTH_OFF = 0.02


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What figures are taken under: the SLO, how many first requests of a block are left out, seed, source and date."""

    slo: Slo
    left_out: int
    seed: int
    source: str
    as_of: str


def counted(block: Block, left_out: int) -> tuple[Record, ...]:
    """The records that count: all but the first `left_out` of the schedule, by index, whatever became of them."""
    return tuple(record for record in block.records if record.index >= left_out)


def figures_of(blocks: Sequence[Block], requests: Sequence[Request], terms: Terms) -> tuple[Figure, ...]:
    """Every figure of one trial over its blocks, with 95 % intervals over requests within blocks; empty for no record.

    A failed request misses the SLO and lies beyond every quantile of latency, so that no failure improves a figure;
    TPOT is a mean over the requests that were answered, since a failure has none. Goodput is attainment x the rate of
    the whole traffic, with the requests that are left out, so that it is never above what was offered. Throughput
    counts the tokens of whole answers from the first arrival until the last request ended.
    """
    per_block = [counted(block, terms.left_out) for block in blocks]
    per_block = [records for records in per_block if records]
    flat = [record for records in per_block for record in records]
    if not flat:
        return ()
    draws = blocked_draws([len(records) for records in per_block], seed=terms.seed)

    def over_all(of: Callable[[Record], float | None], statistic: Statistic) -> Interval:
        return interval([_or_never(of(record)) for record in flat], statistic, draws)

    share = wilson(sum(meets(record, terms.slo) for record in flat), len(flat))
    span = _span_per_request_s(per_block, requests)
    found = [
        _figure("scheduled_ttft_p50_s", over_all(scheduled_ttft_s, quantile_of(0.5)), "s", terms),
        _figure("scheduled_ttft_p95_s", over_all(scheduled_ttft_s, quantile_of(0.95)), "s", terms),
        _answered_mean("tpot_mean_s", tpot_s, per_block, terms),
        _figure("scheduled_e2e_p50_s", over_all(scheduled_e2e_s, quantile_of(0.5)), "s", terms),
        _answered_mean("scheduled_e2e_mean_s", scheduled_e2e_s, per_block, terms),
        _figure("slo_attainment", share, "1", terms, detail=terms.slo.describe()),
        _scaled("goodput_rps", share, offered_rps(requests), "rps", terms),
        _scaled("output_tput_tps", over_all(_tokens, mean_of), None if span is None else 1 / span, "tps", terms),
        _hit_rate(per_block, terms),
    ]
    return tuple(figure for figure in found if figure is not None)


def doubts_of(blocks: Sequence[Block], requests: Sequence[Request], terms: Terms) -> tuple[Caveat, ...]:
    """What must be said beside the figures of one trial."""
    flat = [record for block in blocks for record in counted(block, terms.left_out)]
    doubts = (
        busy_in_blocks([(b.repeat, b.other_work) for b in blocks if b.other_work is not None]),
        _few(flat),
        _failed(flat),
        _resumed(blocks),
        _incomplete(blocks),
        _lengths(flat, requests),
        _short(flat, requests),
        _uncounted(flat),
    )
    told = {doubt.code: doubt for block in blocks for doubt in block.caveats}
    return (*(doubt for doubt in doubts if doubt is not None), *told.values())


def _or_never(seen: float | None) -> float:
    return float("inf") if seen is None else seen


def _tokens(record: Record) -> float:
    return float(record.output_tokens or 0) if record.ok else 0.0


def _figure(metric: str, found: Interval | None, unit: str, terms: Terms, detail: str = "") -> Figure | None:
    if found is None:
        return None
    ends = [end if np.isfinite(end) else None for end in (found.value, found.low, found.high)]
    return Figure(
        metric=metric,
        value=ends[0],
        low=ends[1],
        high=ends[2],
        unit=unit,
        kind=EvidenceKind.MEASURED,
        validated=True,
        source=terms.source,
        as_of=terms.as_of,
        detail=", ".join(filter(None, [f"n = {found.n}", detail])),
    )


def _scaled(metric: str, found: Interval | None, by: float | None, unit: str, terms: Terms) -> Figure | None:
    if found is None or by is None:
        return None
    scaled = Interval(value=found.value * by, low=found.low * by, high=found.high * by, n=found.n)
    return _figure(metric, scaled, unit, terms)


def _answered_mean(
    metric: str, of: Callable[[Record], float | None], per_block: Sequence[Sequence[Record]], terms: Terms
) -> Figure | None:
    answered = [[seen for record in records if (seen := of(record)) is not None] for records in per_block]
    flat = [seen for block in answered for seen in block]
    if not flat:
        return None
    draws = blocked_draws([len(block) for block in answered], seed=terms.seed)
    return _figure(metric, interval(flat, mean_of, draws), "s", terms, detail="of those answered")


def _hit_rate(per_block: Sequence[Sequence[Record]], terms: Terms) -> Figure | None:
    """Cached prompt tokens over prompt tokens, where the server reports both for every answer; None where it does not.

    The requests left out count neither as hits nor as misses; what they put into the cache is found by those that
    follow.
    """
    reported = [
        [(record.cached_tokens, record.input_tokens) for record in records if record.ok] for records in per_block
    ]
    flat = [pair for block in reported for pair in block]
    if not flat or any(cached is None or not prompt for cached, prompt in flat):
        return None
    draws = blocked_draws([len(block) for block in reported], seed=terms.seed)
    prompt_mean = float(np.mean([float(prompt or 0) for _, prompt in flat]))
    share = interval([float(cached or 0) / prompt_mean for cached, _ in flat], mean_of, draws)
    return _figure("prefix_hit_rate", share, "1", terms)


def offered_rps(requests: Sequence[Request]) -> float | None:
    """The traffic's rate: gaps / time between the first and the last arrival; None without a gap."""
    span_s = requests[-1].arrival_s - requests[0].arrival_s if requests else 0.0
    return (len(requests) - 1) / span_s if span_s > 0 else None


def _span_per_request_s(per_block: Sequence[Sequence[Record]], requests: Sequence[Request]) -> float | None:
    """Seconds of a block, first arrival to last end, for each of its requests; None where nothing ended.

    Ends are placed on the traffic's own clock (arrival + end - scheduled), so that a block which was cut and finished
    by a later process, perhaps after a restart of the machine, has the length it would have had.
    """
    span_s = 0.0
    for records in per_block:
        starts = [requests[record.index].arrival_s for record in records]
        ends = [
            start + (end - record.scheduled_at_ns) / 1e9
            for start, record in zip(starts, records, strict=True)
            for end in (record.closed_at_ns, record.last_token_at_ns)
            if end is not None
        ]
        span_s += max(ends, default=starts[0]) - starts[0]
    return span_s / sum(len(records) for records in per_block) if span_s > 0 else None


def _few(flat: Sequence[Record]) -> Caveat | None:
    beyond = len(flat) * (1 - 0.95)
    if not flat or beyond >= _BEYOND:
        return None
    return Caveat(
        code="few_requests",
        text=f"a p95 of {plural(len(flat), 'request')} rests on {beyond:.1f} of them: its interval is too narrow",
    )


def _failed(flat: Sequence[Record]) -> Caveat | None:
    failures = [record for record in flat if not record.ok]
    if not failures:
        return None
    kinds = sorted({record.outcome.value for record in failures})
    return Caveat(
        code="failed_requests",
        text=f"{len(failures)} of {plural(len(flat), 'request')} failed ({', '.join(kinds)}): each misses the SLO",
    )


def _resumed(blocks: Sequence[Block]) -> Caveat | None:
    cut = [block.repeat + 1 for block in blocks if block.resumed]
    if not cut:
        return None
    return Caveat(
        code="resumed",
        text=f"repeat {', '.join(map(str, cut))} was cut and finished later: the cache started empty in its middle",
    )


def _incomplete(blocks: Sequence[Block]) -> Caveat | None:
    missing = sum(block.expected - len(block.records) for block in blocks if not block.complete)
    return Caveat(code="incomplete", text=f"still to be measured: {plural(missing, 'request')}") if missing else None


def _lengths(flat: Sequence[Record], requests: Sequence[Request]) -> Caveat | None:
    ratios = [
        record.input_tokens / requests[record.index].input_tokens - 1
        for record in flat
        if record.input_tokens is not None and record.index < len(requests) and requests[record.index].input_tokens
    ]
    off = quantile(ratios, 0.5)
    if off is None or abs(off) <= _LENGTH_OFF:
        return None
    return Caveat(
        code="prompt_length_off",
        text=f"prompts were {off:+.1%} of the planned length at the median, as the server counts them",
    )


def _short(flat: Sequence[Record], requests: Sequence[Request]) -> Caveat | None:
    asked = [
        (record.output_tokens, requests[record.index].output_tokens)
        for record in flat
        if record.ok and record.output_tokens is not None and record.index < len(requests)
    ]
    short = sum(seen < wanted for seen, wanted in asked)
    if not short:
        return None
    return Caveat(code="short_outputs", text=f"{short} of {plural(len(asked), 'answer')} fell short of the traffic's")


def _uncounted(flat: Sequence[Record]) -> Caveat | None:
    silent = sum(record.ok and record.tokens_from is None for record in flat)
    if not silent:
        return None
    return Caveat(
        code="usage_not_reported", text=f"the server counted no tokens for {silent} of {plural(len(flat), 'request')}"
    )
