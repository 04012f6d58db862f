"""Cost: what a candidate costs per hour, per million output tokens, and per million good requests where measured."""

from __future__ import annotations

from datetime import date

import msgspec

from unmoor.choose.facts import PriceBook
from unmoor.core.decision import Cost
from unmoor.core.evidence import Caveat, EvidenceKind, Figure
from unmoor.core.plan import Plan

RATE_AT_SLO = "max_rate_at_slo_rps"
GOODPUT = "goodput_rps"
TPUT = "output_tput_tps"
_AT_OWN_RATE = (EvidenceKind.MEASURED, EvidenceKind.PREDICTED)  # what others publish was not seen under this traffic
_COST_METRICS = {
    GOODPUT: "cost_per_million_good_requests",
    RATE_AT_SLO: "cost_per_million_output_tokens",
    TPUT: "cost_per_million_output_tokens_at_own_rate",
}
_SECONDS = 3600
_MILLION = 1e6


class HourlyPrice(msgspec.Struct, frozen=True, kw_only=True):
    """All devices of the plan for one hour; `per_hour` is None where a price is missing, and `source` says which."""

    per_hour: float | None
    source: str
    as_of: str | None
    caveats: tuple[Caveat, ...] = ()


def hourly_price(plan: Plan, engine: str, prices: PriceBook, today: date) -> HourlyPrice:
    """The plan's own price, else the middle of the price book's range, times the devices, with support if required.

    None, never 0, for a device whose price nobody gave. Support is added only where the plan requires it and a price
    for it was seen; a caveat says when it was not.
    """
    base = _device_hour(plan, prices, today)
    if base.per_hour is None or not plan.gates.support_required:
        return base
    support = prices.support_price(engine)
    if support is None or plan.prices.currency != prices.currency:
        text = "The price of support is not known in the plan's currency and is not in the cost."
        return msgspec.structs.replace(base, caveats=(*base.caveats, Caveat(code="support_not_priced", text=text)))
    return msgspec.structs.replace(
        base,
        per_hour=base.per_hour + support.device_hour * plan.hardware.count,
        source=f"{base.source}; support {support.device_hour:.2f} per device-hour: {support.source}",
        caveats=(*base.caveats, *_if_stale(support.as_of, "price of support", prices, today)),
    )


def _device_hour(plan: Plan, prices: PriceBook, today: date) -> HourlyPrice:
    own, count = plan.prices.device_hour, plan.hardware.count
    if own is not None:
        agreed = plan.prices.as_of
        as_of = agreed.isoformat() if agreed else None
        return HourlyPrice(per_hour=own * count, source=plan.prices.source, as_of=as_of)
    listed = prices.device_price(plan.hardware.device)
    if listed is None or plan.prices.currency != prices.currency:
        source = f"no price of {plan.hardware.device} in {plan.prices.currency} is known; set prices.device_hour"
        return HourlyPrice(per_hour=None, source=source, as_of=None)
    return HourlyPrice(
        per_hour=(listed.low + listed.high) / 2 * count,
        source=f"middle of {listed.low:.2f} to {listed.high:.2f} per device-hour, claimed: {listed.source}",
        as_of=listed.as_of.isoformat(),
        caveats=_if_stale(listed.as_of, "device price", prices, today),
    )


def _if_stale(as_of: date, what: str, prices: PriceBook, today: date) -> tuple[Caveat, ...]:
    if not prices.is_stale(as_of, today):
        return ()
    text = (
        f"The {what} was seen on {as_of.isoformat()}, {(today - as_of).days} days ago: ask again before you rely on it."
    )
    return (Caveat(code="stale_price", text=text),)


def cost_of(plan: Plan, price: HourlyPrice, evidence: tuple[Figure, ...], mean_output_tokens: float) -> Cost:
    """The cost at the traffic's own rate, and at the candidate's best rate that meets the SLO.

    Per million output tokens at the traffic's own rate: price per hour / (output throughput at that rate x 3600 s) x 1
    million, from measured throughput where there is some, predicted else. At the highest rate: price per hour / (rate x
    mean output tokens x 3600 s) x 1 million. Each with the kind and the range of what it rests on. Per million good
    requests: price per hour / (goodput x 3600 s) x 1 million, only from a measured goodput. None where the price, the
    throughput or the rate is missing.
    """
    rate = best_figure(evidence, RATE_AT_SLO)
    goodput = next((f for f in evidence if f.metric == GOODPUT and f.kind is EvidenceKind.MEASURED), None)
    tput = best_figure(tuple(f for f in evidence if f.kind in _AT_OWN_RATE), TPUT)
    per_hour = price.per_hour
    own, tokens, good = None, None, None
    unit = f"{plan.prices.currency}/1e6 output tokens"
    if per_hour is not None and tput is not None:
        own = _per_million(per_hour, tput, 1.0, unit)
    if per_hour is not None and rate is not None and mean_output_tokens > 0:
        tokens = _per_million(per_hour, rate, mean_output_tokens, unit)
    if per_hour is not None and goodput is not None:
        good = _per_million(per_hour, goodput, 1.0, f"{plan.prices.currency}/1e6 good requests")
    return Cost(
        per_hour=None if per_hour is None else round(per_hour, 2),
        per_million_output_tokens=tokens,
        per_million_output_tokens_at_own_rate=own,
        per_million_good_requests=good,
        good_requests_reason=None if good else _why_no_good_requests(per_hour, goodput),
        currency=plan.prices.currency,
        source=price.source,
        as_of=price.as_of,
    )


def _why_no_good_requests(per_hour: float | None, goodput: Figure | None) -> str:
    if goodput is None:
        return "goodput has not been measured on this hardware; a prediction of it would be a guess at its tail"
    return "no price" if per_hour is None else "no request met the SLO"


def _per_million(per_hour: float, rate: Figure, units_per_request: float, unit: str) -> Figure | None:
    """The rate's figure turned into money; low cost comes of a high rate. None where every bound of the rate is 0."""

    def money(rate_rps: float | None) -> float | None:
        return per_hour / (rate_rps * units_per_request * _SECONDS) * _MILLION if rate_rps else None

    value = money(rate.value) if rate.validated else None
    low, high = money(rate.high), money(rate.low)
    if value is None and low is None and high is None:
        return None
    return Figure(
        metric=_COST_METRICS[rate.metric],
        value=value,
        low=low,
        high=high,
        unit=unit,
        kind=rate.kind,
        validated=rate.validated,
        source=rate.source,
        as_of=rate.as_of,
        detail=_at_rate(rate) if rate.metric == RATE_AT_SLO else rate.detail,
    )


def _at_rate(rate: Figure) -> str:
    """The rate that a cost holds for, before the layout: "at 19.5 to 29.9 requests/s, 4 × TP2, all replicas"."""
    ends = dict.fromkeys(f"{end:.3g}" for end in (rate.low, rate.high) if end is not None)
    seen = " to ".join(ends) if rate.value is None else f"{rate.value:.3g}"
    return f"at {seen} requests/s, {rate.detail}".rstrip(", ")


def headroom_of(evidence: tuple[Figure, ...], offered_rps: float | None) -> Figure | None:
    """The highest rate at the SLO as a multiple of the traffic's own; None where either is not known.

    Under 1 the hardware does not carry the traffic; at 2 half of it may do.
    """
    rate = best_figure(evidence, RATE_AT_SLO)
    if rate is None or not offered_rps:
        return None

    def share(rate_rps: float | None) -> float | None:
        return None if rate_rps is None else rate_rps / offered_rps

    return msgspec.structs.replace(
        rate, metric="headroom", value=share(rate.value), low=share(rate.low), high=share(rate.high), unit="×"
    )


_STRENGTH = {EvidenceKind.MEASURED: 3, EvidenceKind.PUBLISHED: 2, EvidenceKind.PREDICTED: 1, EvidenceKind.CLAIMED: 0}


def best_figure(evidence: tuple[Figure, ...], metric: str) -> Figure | None:
    """The figure of `metric` that stands for a candidate: the strongest kind, validated before not, then the largest.

    Kinds are never mixed: a measured figure hides a predicted one, whatever their values. None where there is none.
    """
    found = [f for f in evidence if f.metric == metric]
    return max(found, key=_standing, default=None)


def _standing(figure: Figure) -> tuple[int, bool, float, str]:
    return _STRENGTH[figure.kind], figure.validated, middle(figure) or 0.0, figure.detail


def middle(figure: Figure) -> float | None:
    """The value, or the middle of a range without one: to order the layouts of one engine, never to rank engines."""
    if figure.value is not None:
        return figure.value
    if figure.low is not None and figure.high is not None:
        return (figure.low + figure.high) / 2
    return figure.high if figure.low is None else figure.low
