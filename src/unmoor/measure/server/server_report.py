"""What the server said of itself while a load ran, from its metrics before, during and after. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.core.plural import plural
from unmoor.core.record import Record
from unmoor.core.stats import quantile
from unmoor.engines.contract import Metric
from unmoor.measure.server.metrics_page import Scrape

OTHERS_SHARE = 0.05
"""So much more than the answers of this load may a server have generated; beyond it somebody else used it."""
_OTHERS_TOKENS = 64
WARM_POINTS = 0.02
"""So far may the hit rate be above what the prompts share, in share of prompt tokens: words are equal by chance too."""
_FAR_BELOW = 0.8
_LITTLE_SHARED = 0.05


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A gauge over the scrapes of the load."""

    p50: float
    max: float


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The server's own account. Counters are differences over the load; None where it does not tell, or restarted.

    `engine` is whose names its metrics have. `running` and `waiting` are requests, `kv_use_max` a share of its KV
    blocks, `prefix_hit_rate` the share of the prompt tokens it looked up that it had. `missed` scrapes got no page.
    """

    engine: str
    scrapes: int
    missed: int
    running: Spread | None
    waiting: Spread | None
    kv_use_max: float | None
    preemptions: int | None
    prefix_hit_rate: float | None
    prompt_tokens: int | None
    generated_tokens: int | None
    restarted: bool


def server_report(engine: str, scrapes: Sequence[Scrape], missed: int) -> ServerReport:
    """The report of at least one scrape, in order; the first was taken before the load and the last after it."""
    first, last = scrapes[0].values, scrapes[-1].values
    restarted = any(_fell(earlier, later) for earlier, later in pairwise(scrapes))

    def grown(metric: Metric) -> int | None:
        if restarted or metric not in first or metric not in last:
            return None
        return round(last[metric] - first[metric])

    hits, queries = grown("prefix_hits"), grown("prefix_queries")
    return ServerReport(
        engine=engine,
        scrapes=len(scrapes),
        missed=missed,
        running=_spread(scrapes, "running"),
        waiting=_spread(scrapes, "waiting"),
        kv_use_max=max((one.values["kv_use"] for one in scrapes if "kv_use" in one.values), default=None),
        preemptions=grown("preemptions"),
        prefix_hit_rate=hits / queries if hits is not None and queries and hits <= queries else None,
        prompt_tokens=grown("prompt_tokens"),
        generated_tokens=grown("generated_tokens"),
        restarted=restarted,
    )


def server_caveats(report: ServerReport, records: Sequence[Record]) -> tuple[Caveat, ...]:
    """What the server's account makes doubtful of the load's figures; `records` are all of the load's."""
    found = []
    if report.restarted:
        text = "The server's counters went back during the load: it was restarted, and had nothing in its cache."
        found.append(Caveat(code="server_restarted", text=text))
    counts = [record.output_tokens for record in records]
    generated, told = report.generated_tokens, sum(count or 0 for count in counts)
    whole = all(record.ok for record in records) and None not in counts
    if whole and generated is not None and generated - told > max(_OTHERS_TOKENS, OTHERS_SHARE * told):
        text = (
            f"The server generated {generated:,} tokens, and the answers of this load had {told:,}: somebody else "
            "used it at the same time."
        )
        found.append(Caveat(code="other_traffic", text=text))
    if generated is not None and generated < (1 - OTHERS_SHARE) * told - _OTHERS_TOKENS:
        text = (
            f"The server's metrics count {generated:,} generated tokens, and the answers of this load had {told:,}: "
            "they are another server's, or of a part of this one."
        )
        found.append(Caveat(code="metrics_disagree", text=text))
    if report.preemptions:
        text = f"The server threw {plural(report.preemptions, 'request')} out of its batch for want of KV memory."
        found.append(Caveat(code="preempted", text=text))
    return tuple(found)


def hit_rate_doubts(planned: float | None, measured: float | None) -> tuple[tuple[Caveat, ...], tuple[Caveat, ...]]:
    """Why the run is void, and what is to be said else, by its prefix hit rate. `planned` is what the prompts share."""
    if planned is None or measured is None:
        return (), ()
    both = f"{measured:.1%} of the prompt tokens came from the server's cache, and the prompts of this load share"
    if measured > planned + WARM_POINTS:
        text = f"{both} {planned:.1%} at most: the cache knew them from before. --reset-cache empties it."
        return (Caveat(code="cache_warm", text=text),), ()
    if planned >= _LITTLE_SHARED and measured < _FAR_BELOW * planned:
        text = f"{both} {planned:.1%}: its cache is too small for them, is off, or counts in larger blocks."
        return (), (Caveat(code="hit_rate_below_plan", text=text),)
    return (), ()


def _fell(earlier: Scrape, later: Scrape) -> bool:
    counters: tuple[Metric, ...] = ("generated_tokens", "prompt_tokens", "prefix_queries", "preemptions")
    return any(later.values.get(name, float("inf")) < earlier.values.get(name, 0.0) for name in counters)


def _spread(scrapes: Sequence[Scrape], metric: Metric) -> Spread | None:
    seen = [one.values[metric] for one in scrapes if metric in one.values]
    middle = quantile(seen, 0.5)
    return None if middle is None else Spread(p50=middle, max=max(seen))
