"""The shape of traffic: lengths, arrivals, and how much of its prompts came before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, pstdev

from unmoor.core.errors import TrafficError
from unmoor.core.evidence import Caveat
from unmoor.core.stats import quantile
from unmoor.core.traffic import TokenCounts, TrafficProfile, Workload
from unmoor.traffic.overlap import prefix_overlap

_GAPS_FOR_BURSTINESS = 2


def profile(workload: Workload) -> TrafficProfile:
    """What the traffic is, with its doubts.

    `offered_rps` is gaps over duration, (requests - 1) / (last - first arrival); None where all came at one moment.
    Raises TrafficError for a workload without a request, of which nothing can be said.
    """
    if not workload.requests:
        raise TrafficError(
            "no request in it",
            where=workload.source,
            seen="nothing",
            expected="at least one request",
            hint="a longer stretch of the log, or another log",
        )
    duration_s = workload.duration_s
    return TrafficProfile(
        requests=len(workload.requests),
        duration_s=duration_s,
        input_tokens=token_counts([request.input_tokens for request in workload.requests]),
        output_tokens=token_counts([request.output_tokens for request in workload.requests]),
        offered_rps=(len(workload.requests) - 1) / duration_s if duration_s > 0 else None,
        burstiness=burstiness([request.arrival_s for request in workload.requests]),
        prefix_overlap=prefix_overlap(workload),
        overlap_block_tokens=workload.overlap_block_tokens,
        source=workload.source,
        format=workload.format,
        fingerprint=workload.fingerprint,
        caveats=(*workload.caveats, *_doubts(workload)),
    )


def token_counts(lengths: Sequence[int]) -> TokenCounts:
    """Total, mean, median and 95th percentile of token lengths; at least one length is needed."""
    p50, p95 = quantile(lengths, 0.5), quantile(lengths, 0.95)
    if p50 is None or p95 is None:
        raise ValueError("no length to count")
    return TokenCounts(total=sum(lengths), mean=fmean(lengths), p50=p50, p95=p95, max=max(lengths))


def burstiness(arrivals_s: Sequence[float]) -> float | None:
    """The coefficient of variation of the gaps between arrivals: 0 for a metronome, about 1 for Poisson.

    The population's standard deviation over the mean. None under three arrivals, and where all came at one moment.
    """
    gaps = [after - before for before, after in pairwise(arrivals_s)]
    if len(gaps) < _GAPS_FOR_BURSTINESS or not (mean := fmean(gaps)):
        return None
    return pstdev(gaps, mean) / mean


def _doubts(workload: Workload) -> tuple[Caveat, ...]:
    block = workload.overlap_block_tokens
    if block is None:
        text = "The source says nothing of content: prefix overlap is unknown, not zero."
        return (Caveat(code="content_unknown", text=text),)
    if block > 1:
        text = f"The source tells content apart in blocks of {block} tokens: prefix overlap may be higher, not lower."
        return (Caveat(code="overlap_in_blocks", text=text),)
    return ()
