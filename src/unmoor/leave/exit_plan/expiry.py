"""When the page goes stale: every dated statement on it, with the last day on which it may be relied on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from unmoor.choose.facts import PriceBook
from unmoor.core.plan import Plan
from unmoor.leave.exit_plan.exit_plan import Expiry, Side


def goes_stale(plan: Plan, sides: Sequence[Side], prices: PriceBook, *, today: date) -> tuple[Expiry, ...]:
    """Every date, the earliest first. A price of the plan's own has none: its contract knows."""
    found = [*_of_facts(sides), *_of_prices(plan, sides, prices, today)]
    return tuple(sorted(found, key=lambda one: (one.good_until, one.what)))


def _of_facts(sides: Sequence[Side]) -> Iterator[Expiry]:
    for title in dict.fromkeys(side.title for side in sides):
        side = next(one for one in sides if one.title == title)
        for fact in side.facts:
            yield Expiry(
                what=f"{title}: {fact.subject.replace('_', ' ')}",
                good_until=fact.good_until,
                stale=fact.stale,
                recheck=fact.recheck,
            )


def _of_prices(plan: Plan, sides: Sequence[Side], prices: PriceBook, today: date) -> Iterator[Expiry]:
    if plan.prices.currency != prices.currency:
        return
    listed = prices.device_price(plan.hardware.device) if plan.prices.device_hour is None else None
    if listed is not None:
        yield _of_price(f"the price of {plan.hardware.device}", listed.as_of, listed.source, prices, today)
    if plan.gates.support_required:
        for engine, title in dict.fromkeys((side.engine, side.title) for side in sides):
            support = prices.support_price(engine)
            if support is not None:
                yield _of_price(f"{title}: the price of support", support.as_of, support.source, prices, today)


def _of_price(what: str, as_of: date, source: str, prices: PriceBook, today: date) -> Expiry:
    return Expiry(
        what=what,
        good_until=as_of + timedelta(days=prices.stale_after_days),
        stale=prices.is_stale(as_of, today),
        recheck=f"ask again; it was seen as of {as_of.isoformat()}: {source}",
    )
