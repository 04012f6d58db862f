"""The traffic's arrivals as a simulation needs them: on a clock fine enough, and as many as it takes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from unmoor.core.traffic import Request, Segment

_TOO_COARSE = 0.5
"""Below this share of distinct arrival times the source's clock, not the traffic, makes the bursts."""


def ticks_coarsely(requests: Sequence[Request]) -> bool:
    """Whether fewer than half of the arrivals have a time of their own, as in a trace whose clock ticks in seconds."""
    return len({request.arrival_s for request in requests}) < _TOO_COARSE * len(requests)


def spread_ticks(requests: Sequence[Request]) -> tuple[Request, ...]:
    """The requests with those of one tick spread evenly until the next; the last tick lasts as long as the mean one.

    Kept as they are, all requests of a tick would come at once at any rate, however slowly the traffic is replayed.
    """
    ticks = [list(together) for _, together in itertools.groupby(requests, key=lambda request: request.arrival_s)]
    starts = [together[0].arrival_s for together in ticks]
    mean = (starts[-1] - starts[0]) / (len(starts) - 1) if len(starts) > 1 else 0.0
    ends = [*starts[1:], starts[-1] + mean]
    return tuple(
        msgspec.structs.replace(request, arrival_s=start + (end - start) * place / len(together))
        for together, start, end in zip(ticks, starts, ends, strict=True)
        for place, request in enumerate(together)
    )


def first_or_again(requests: Sequence[Request], count: int) -> tuple[Request, ...]:
    """`count` requests: the first ones, and after the last the traffic again, one mean gap later.

    What is standing stays shared between passes: a prefix whose uses span more than half of the traffic, such as a
    system prompt. All else is renamed in each pass, since the same conversation does not come twice; kept as it is it
    would make every later pass a cache hit. Raises ValueError for traffic without a duration.
    """
    if count <= len(requests):
        return tuple(requests[:count])
    span = requests[-1].arrival_s - requests[0].arrival_s
    if span <= 0:
        raise ValueError("traffic without a duration cannot be repeated")
    period = span * len(requests) / (len(requests) - 1)
    standing = _standing_depths(requests, span / 2)
    whole, rest = divmod(count, len(requests))
    out = list(requests)
    for again in range(1, whole + 1):
        for request, depth in zip(requests[: rest if again == whole else None], standing, strict=False):
            renamed = tuple(Segment(f"{s.name}/{again}", s.tokens) for s in request.segments[depth:])
            out.append(
                msgspec.structs.replace(
                    request, arrival_s=request.arrival_s + again * period, segments=request.segments[:depth] + renamed
                )
            )
    return tuple(out)


def _standing_depths(requests: Sequence[Request], least_span_s: float) -> list[int]:
    """How many leading segments of each request are standing."""
    numbers: dict[tuple[int, Segment], int] = {}
    seen: list[tuple[float, float]] = []
    chains: list[list[int]] = []
    for request in requests:
        node, chain = -1, []
        for segment in request.segments:
            node = numbers.setdefault((node, segment), len(numbers))
            if node == len(seen):
                seen.append((request.arrival_s, request.arrival_s))
            seen[node] = (seen[node][0], request.arrival_s)
            chain.append(node)
        chains.append(chain)
    standing = [last - first > least_span_s for first, last in seen]
    # A prefix is used at least as long as what follows it, so the standing ones are all at the start.
    return [sum(standing[node] for node in chain) for chain in chains]
