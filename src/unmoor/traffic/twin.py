"""A synthetic twin of a log: its lengths, arrivals, sessions and shared prefixes, with invented words."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from unmoor.core.errors import TrafficError, UsageError
from unmoor.core.evidence import Caveat
from unmoor.core.traffic import Request, Segment, Workload
from unmoor.traffic.log import UNKNOWN, Names, Traffic
from unmoor.traffic.synthesis import gamma, stream

_FEWEST_FOR_A_RATE = 2


def twin_of(traffic: Traffic, *, seed: int = 0, requests: int | None = None, rate_rps: float | None = None) -> Workload:
    """Requests with the lengths, arrivals, sessions and prefix overlap of `traffic`, at its grain, under new names.

    The structure is copied, not drawn: every capacity's hit rate is the log's own at its grain. `seed` gives the names
    of prompts' segments, and so the words that stand for them. `requests` takes the first ones only. `rate_rps`
    stretches time so that this is the mean rate; where the log has no times, arrivals are drawn at it (Poisson, by
    `seed`). An answer of no tokens becomes one of one, which is the least that an engine can be asked for.

    Raises UsageError for more requests than there are, and for a log without times where no rate is given; TrafficError
    where the log does not say how long answers were.
    """
    count = _count(traffic, requests)
    if np.any(traffic.output_tokens[:count] == UNKNOWN):
        raise TrafficError(
            "no lengths of answers",
            where=traffic.source,
            seen="requests of which the log says nothing of the answer",
            expected="a fingerprint of a log with answers' lengths",
            hint="a twin is sent to engines, which must be told how much to answer",
        )
    segments, names = _segments(traffic, seed), [_renamed(traffic, kind) for kind in ("session", "adapter", "schema")]
    twins = tuple(
        Request(
            arrival_s=arrival_s,
            input_tokens=(tokens := int(traffic.input_tokens[row])),
            output_tokens=max(1, int(traffic.output_tokens[row])),
            segments=segments(int(traffic.node[row]), tokens),
            session=names[0](row),
            adapter=names[1](row),
            schema=names[2](row),
        )
        for row, arrival_s in enumerate(_arrivals(traffic, count, rate_rps, seed))
    )
    made_from = f"twin/{traffic.fingerprint}/{seed}/{count}/{rate_rps}"
    return Workload(
        requests=twins,
        source=f"twin of {traffic.source}",
        format="twin",
        fingerprint=hashlib.sha256(made_from.encode()).hexdigest(),
        overlap_block_tokens=traffic.grain.tokens if traffic.grain else None,
        caveats=_caveats(traffic, count),
    )


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


def _arrivals(traffic: Traffic, count: int, rate_rps: float | None, seed: int) -> Sequence[float]:
    """When the requests come: as in the log, stretched to the rate, or drawn where the log has no times to stretch."""
    if traffic.timed and rate_rps is None:
        arrivals: list[float] = traffic.arrival_s[:count].tolist()
        return arrivals
    if rate_rps is None:
        raise UsageError(
            "the log behind the fingerprint has no times",
            where="--twin",
            seen="requests in an order, without arrivals",
            expected="--rate beside it",
            hint="--rate 2 draws arrivals at a mean of 2 requests per second",
        )
    last_s = float(traffic.arrival_s[count - 1]) if traffic.timed else 0.0
    if last_s > 0 and count >= _FEWEST_FOR_A_RATE:
        stretch = (count - 1) / rate_rps / last_s
        return [round(at_s * stretch, 6) for at_s in traffic.arrival_s[:count].tolist()]
    gap = stream(seed, "gap")
    return [round(at_s, 6) for at_s in accumulate((gamma(gap, 1.0) / rate_rps for _ in range(count - 1)), initial=0.0)]


def _segments(traffic: Traffic, seed: int) -> Callable[[int, int], tuple[Segment, ...]]:
    """What gives the segments of the prompt that ends at a node: one a node of its path, named by seed and node."""
    if traffic.tree is None:
        return lambda node, tokens: ()  # noqa: ARG005 - nothing is known of content
    tree = traffic.tree
    start, end = tree.end[tree.parent], tree.end

    def segments(node: int, tokens: int) -> tuple[Segment, ...]:
        """They add up to the source's count; where the tree, by bytes, has another, the last one makes up for it."""
        path = [above for above in tree.path(node) if start[above] < tokens]
        if not path:
            return (Segment(f"{seed}.{node}.own", tokens),)
        whole = [Segment(f"{seed}.{above}", int(end[above] - start[above])) for above in path[:-1]]
        return (*whole, Segment(f"{seed}.{path[-1]}", int(tokens - start[path[-1]])))

    return segments


def _renamed(traffic: Traffic, kind: str) -> Callable[[int], str | None]:
    """What gives a row's name in a column: a number, after the column's kind or the schema's."""
    names: Names = getattr(traffic, kind)
    stems = [name.partition(":")[0] if kind == "schema" else kind for name in names.names]
    new = [f"{stem}-{number}" for number, stem in enumerate(stems)]

    def name(row: int) -> str | None:
        code = int(names.code[row])
        return None if code == UNKNOWN else new[code]

    return name


def _caveats(traffic: Traffic, count: int) -> tuple[Caveat, ...]:
    empty = int(np.count_nonzero(traffic.output_tokens[:count] == 0))
    if not empty:
        return ()
    text = f"{empty:,} answers of no tokens stand as answers of one, the least that an engine can be asked for."
    return (Caveat(code="empty_answers", text=text),)
