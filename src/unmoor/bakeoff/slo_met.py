"""Whether one trial is shown to meet the plan's SLO. Pure.

The SLO asks that a quantile of each bounded quantity meet its bound, so the share of requests that meets the bound is
held against the quantile, with its Wilson interval. Both answers take what suffices: all bounds at once to meet it, one
bound alone to miss it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unmoor.bakeoff.figures import Terms, counted
from unmoor.bakeoff.result import Block, SloFinding
from unmoor.core.record import Record, meets
from unmoor.core.slo import Slo
from unmoor.core.stats import Interval, wilson

_BOUNDS = ("ttft_s", "tpot_s", "e2e_s")


def slo_finding(blocks: Sequence[Block], terms: Terms) -> SloFinding | None:
    """What a trial's records show of the SLO; None for no record, and for an SLO without a bound.

    `meets` when the interval of the share within every bound begins at the quantile or above it; `misses` when that of
    one bound's share ends under it; else `not shown to meet`.
    """
    records = [record for block in blocks for record in counted(block, terms.left_out)]
    whole = _share(records, terms.slo)
    single = [alone for name in _BOUNDS if (alone := _alone(terms.slo, name)) is not None]
    if whole is None or not single:
        return None
    if whole.low >= terms.slo.quantile:
        return SloFinding.MEETS
    ends = [share.high for alone in single if (share := _share(records, alone)) is not None]
    return SloFinding.MISSES if min(ends) < terms.slo.quantile else SloFinding.NOT_SHOWN


def slo_sentence(blocks: Sequence[Block], terms: Terms) -> str:
    """The finding with its figures, to follow a name: "misses the SLO: ..."; empty where there is none."""
    found = slo_finding(blocks, terms)
    records = [record for block in blocks for record in counted(block, terms.left_out)]
    share = _share(records, terms.slo)
    if found is None or share is None:
        return ""
    verb = f"is {found.value}" if found is SloFinding.NOT_SHOWN else found.value
    return (
        f"{verb} the SLO: {_percent(share.value)} % of {share.n} requests within it "
        f"({_percent(share.low)} – {_percent(share.high)}), {_percent(terms.slo.quantile)} % asked"
    )


def _share(records: Sequence[Record], slo: Slo) -> Interval | None:
    return wilson(sum(meets(record, slo) for record in records), len(records))


def _alone(slo: Slo, name: str) -> Slo | None:
    bound = getattr(slo, name)
    return None if bound is None else msgspec.convert({name: bound, "quantile": slo.quantile}, Slo)


def _percent(share: float) -> str:
    return f"{share * 100:.3g}"
