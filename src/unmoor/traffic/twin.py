"""A synthetic twin of a log: its lengths, arrivals, sessions and shared prefixes, with invented words."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import accumulate

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.core.errors import UsageError
from unmoor.core.traffic import Request, Segment, Workload
from unmoor.traffic.conversion import workload_of
from unmoor.traffic.log import Names, Traffic, Whole
from unmoor.traffic.synthesis import gamma, stream

_FEWEST_FOR_A_RATE = 2


def twin_of(traffic: Traffic, *, seed: int = 0, requests: int | None = None, rate_rps: float | None = None) -> Workload:
    """Requests with the lengths, arrivals, sessions and prefix overlap of `traffic`, at its grain, under new names.

    The structure is copied, not drawn: every capacity's hit rate is the log's own at its grain. `seed` gives the names
    of prompts' segments, and so the words that stand for them. `requests` takes the first ones only. `rate_rps`
    stretches time so that this is the mean rate; where the log has no times, arrivals are drawn at it (Poisson, by
    `seed`). Lengths that cannot be asked of an engine are fitted as `workload_of` does.

    Raises UsageError for more requests than there are, and for a log without times where no rate is given; TrafficError
    where the log does not say how long answers were.
    """
    first = _first(traffic, _count(traffic, requests))
    timed = replace(first, arrival_s=_arrivals(first, rate_rps, seed), input_tokens=_lengths(first))
    workload = workload_of(timed)
    made_from = f"twin/{traffic.fingerprint}/{seed}/{len(first)}/{rate_rps}"
    return msgspec.structs.replace(
        workload,
        requests=tuple(_named_anew(workload.requests, seed)),
        source=f"twin of {traffic.source}",
        format="twin",
        fingerprint=hashlib.sha256(made_from.encode()).hexdigest(),
    )


def _lengths(traffic: Traffic) -> Whole:
    """Prompts' lengths as their content was told apart, so that what they share is shared to the token."""
    return traffic.input_tokens if traffic.tree is None else np.maximum(1, traffic.tree.end[traffic.node])


def _count(traffic: Traffic, requests: int | None) -> int:
    if requests is None:
        return len(traffic)
    if not 1 <= requests <= len(traffic):
        raise UsageError(
            "not that many requests",
            where="--requests",
            seen=f"{requests:,}",
            expected=f"1 to {len(traffic):,}, as many as the fingerprint has",
            hint="a twin copies what there is; a description (`unmoor generate FILE.toml`) makes any number",
        )
    return requests


def _first(traffic: Traffic, count: int) -> Traffic:
    """The first requests, with names that say no more than that they differ."""
    return replace(
        traffic,
        arrival_s=traffic.arrival_s[:count],
        input_tokens=traffic.input_tokens[:count],
        output_tokens=traffic.output_tokens[:count],
        took_s=traffic.took_s[:count],
        node=traffic.node[:count],
        line=traffic.line[:count],
        session=_numbered(traffic.session, count, "session"),
        tenant=_numbered(traffic.tenant, count, "tenant"),
        adapter=_numbered(traffic.adapter, count, "adapter"),
        schema=_numbered(traffic.schema, count, None),
    )


def _numbered(names: Names, count: int, stem: str | None) -> Names:
    """The column with a number for a name, after `stem`, or the part of the name that says a schema's kind."""
    stems = (stem or name.partition(":")[0] for name in names.names)
    return Names(code=names.code[:count], names=tuple(f"{stem}-{number}" for number, stem in enumerate(stems)))


def _arrivals(traffic: Traffic, rate_rps: float | None, seed: int) -> NDArray[np.float64]:
    """When the requests come: as in the log, stretched to the rate, or drawn where the log has no times to stretch."""
    if rate_rps is None:
        if traffic.timed:
            return traffic.arrival_s
        raise UsageError(
            "the log behind the fingerprint has no times",
            where="--twin",
            seen="requests in an order, without arrivals",
            expected="--rate beside it",
            hint="--rate 2 draws arrivals at a mean of 2 requests per second",
        )
    gaps = len(traffic) - 1
    if len(traffic) >= _FEWEST_FOR_A_RATE and traffic.duration_s:
        return np.round(traffic.arrival_s * (gaps / rate_rps / traffic.duration_s), 6)
    draw = stream(seed, "gap")
    drawn = accumulate((gamma(draw, 1.0) / rate_rps for _ in range(gaps)), initial=0.0)
    return np.array([round(at_s, 6) for at_s in drawn])


def _named_anew(requests: Iterable[Request], seed: int) -> Iterable[Request]:
    """The requests with the seed in the names of their segments: other names are other words."""

    @cache
    def renamed(segment: Segment) -> Segment:
        return Segment(name=f"{seed}.{segment.name}", tokens=segment.tokens)

    for request in requests:
        yield msgspec.structs.replace(request, segments=tuple(map(renamed, request.segments)))
