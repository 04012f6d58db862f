"""The figures of a load: its latencies as quantiles with bounds, over the part that counts, and over slices of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np

from unmoor.core.quantile_interval import QuantileInterval, quantile_interval
from unmoor.core.record import (
    Record,
    e2e_s,
    itl_s,
    meets,
    scheduled_e2e_s,
    scheduled_ttfa_s,
    scheduled_ttft_s,
    tpot_s,
    ttfa_s,
    ttft_s,
)
from unmoor.core.slo import Slo
from unmoor.core.stats import quantile

SLICES = 10
_FEWEST_A_SLICE = 2


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """The mean and quantiles of one latency, in seconds, over `n` values; each None where there is no value."""

    n: int
    mean: float | None
    p50: QuantileInterval | None
    p90: QuantileInterval | None
    p95: QuantileInterval | None
    p99: QuantileInterval | None


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """The latencies. `ttft_s` and `e2e_s` run from when a request was due, the `service` ones from when it was sent.

    `ttfa_s` is the time to the first content that is not reasoning. `itl_s` is over every gap between two chunks; its
    quantiles have no bounds, since gaps of one answer are alike.
    """

    ttft_s: Quantiles
    ttft_service_s: Quantiles
    ttfa_s: Quantiles
    ttfa_service_s: Quantiles
    tpot_s: Quantiles
    itl_s: Quantiles
    e2e_s: Quantiles
    e2e_service_s: Quantiles


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The steady part that figures are of: from and to, in seconds after the first request was due.

    A request is in it when it was due in it. `warm_up` and `cool_down` were sent as well, and are in no figure.
    """

    from_s: float
    to_s: float
    requests: int
    warm_up: int
    cool_down: int


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the window: what was due in it, by its own clock, and what became of it. Times to first token from due.

    `slo_attainment` is None without an SLO, or where nothing was due.
    """

    from_s: float
    to_s: float
    requests: int
    failed: int
    offered_rps: float
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    slo_attainment: float | None


def metrics_of(counted: Sequence[Record]) -> Metrics:
    """The latencies of these requests; those that failed have none."""
    gaps_s = [gap_s for record in counted for gap_s in itl_s(record)]
    return Metrics(
        ttft_s=_quantiles([scheduled_ttft_s(record) for record in counted]),
        ttft_service_s=_quantiles([ttft_s(record) for record in counted]),
        ttfa_s=_quantiles([scheduled_ttfa_s(record) for record in counted]),
        ttfa_service_s=_quantiles([ttfa_s(record) for record in counted]),
        tpot_s=_quantiles([tpot_s(record) for record in counted]),
        itl_s=_without_bounds(_quantiles(gaps_s)),
        e2e_s=_quantiles([scheduled_e2e_s(record) for record in counted]),
        e2e_service_s=_quantiles([e2e_s(record) for record in counted]),
    )


def _quantiles(values: Sequence[float | None]) -> Quantiles:
    known = [value for value in values if value is not None]
    p50, p90, p95, p99 = (quantile_interval(known, q) for q in (0.5, 0.9, 0.95, 0.99))
    mean = float(np.mean(known)) if known else None
    return Quantiles(n=len(known), mean=mean, p50=p50, p90=p90, p95=p95, p99=p99)


def _without_bounds(found: Quantiles) -> Quantiles:
    def bare(one: QuantileInterval | None) -> QuantileInterval | None:
        return one and msgspec.structs.replace(one, low=None, high=None, high_is_max=False)

    return Quantiles(
        n=found.n, mean=found.mean, p50=bare(found.p50), p90=bare(found.p90), p95=bare(found.p95), p99=bare(found.p99)
    )


def slices_of(window: Window, counted: Sequence[Record], slo: Slo | None, *, count: int = SLICES) -> tuple[Slice, ...]:
    """The window in `count` equal parts of time; none where it holds too few requests to say anything of a part."""
    if len(counted) < count * _FEWEST_A_SLICE or window.to_s <= window.from_s:
        return ()
    start_ns = min(record.scheduled_at_ns for record in counted)
    width_s = (window.to_s - window.from_s) / count
    parts: list[list[Record]] = [[] for _ in range(count)]
    for record in counted:
        parts[min(count - 1, int((record.scheduled_at_ns - start_ns) / 1e9 / width_s))].append(record)
    edges_s = [window.from_s + place * width_s for place in range(count + 1)]
    return tuple(_slice(from_s, to_s, part, slo) for (from_s, to_s), part in zip(pairwise(edges_s), parts, strict=True))


def _slice(from_s: float, to_s: float, part: Sequence[Record], slo: Slo | None) -> Slice:
    known_s = [ttft_s for record in part if (ttft_s := scheduled_ttft_s(record)) is not None]
    return Slice(
        from_s=from_s,
        to_s=to_s,
        requests=len(part),
        failed=sum(not record.ok for record in part),
        offered_rps=len(part) / (to_s - from_s),
        ttft_p50_s=quantile(known_s, 0.5),
        ttft_p95_s=quantile(known_s, 0.95),
        slo_attainment=None if slo is None or not part else sum(meets(record, slo) for record in part) / len(part),
    )
