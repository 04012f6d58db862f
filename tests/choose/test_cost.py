from __future__ import annotations

from datetime import date

import pytest

from unmoor.choose.cost import best_figure, cost_of, headroom_of, hourly_price
from unmoor.choose.facts import load_prices
from unmoor.core.evidence import EvidenceKind, Figure
from unmoor.core.plan import CandidatePlan, GatesPlan, HardwarePlan, ModelPlan, Plan, PricesPlan, TrafficPlan
from unmoor.core.slo import Slo

PRICES = load_prices()
TODAY = date(2026, 11, 30)
BOOK = PricesPlan()


def plan(
    device: str = "h100_sxm",
    *,
    prices: PricesPlan = BOOK,
    support: bool = False,
) -> Plan:
    return Plan(
        name="p",
        traffic=TrafficPlan(path="t"),
        slo=Slo(ttft_s=1.5),
        model=ModelPlan(name="m", weights="fp8"),
        hardware=HardwarePlan(device=device, count=8),
        candidates=(CandidatePlan(engine="vllm"),),
        gates=GatesPlan(support_required=support),
        prices=prices,
    )


def rate(
    value: float | None, low: float | None, high: float | None, *, metric: str = "max_rate_at_slo_rps",
    kind: EvidenceKind = EvidenceKind.PREDICTED,
) -> Figure:  # fmt: skip
    return Figure(
        metric=metric, value=value, low=low, high=high, unit="rps", kind=kind, validated=value is not None,
        source="s", as_of="2026-11-30", detail="2 × TP4",
    )  # fmt: skip


def test_the_price_book_gives_the_middle_of_its_range_and_says_so() -> None:
    price = hourly_price(plan(), "vllm", PRICES, TODAY)
    assert price.per_hour == pytest.approx(4.14 * 8)
    assert price.source.startswith("middle of 3.99 to 4.29 per device-hour, claimed: Lambda")
    assert [c.code for c in price.caveats] == ["stale_price"]


def test_the_plans_own_price_goes_first() -> None:
    own = PricesPlan(device_hour=2.0, currency="EUR", source="our contract", as_of=date(2026, 10, 1))
    price = hourly_price(plan(prices=own), "vllm", PRICES, TODAY)
    assert (price.per_hour, price.source, price.as_of, price.caveats) == (16.0, "our contract", "2026-10-01", ())


@pytest.mark.parametrize("asked", [plan("abacus"), plan(prices=PricesPlan(currency="EUR"))])
def test_a_price_that_nobody_gave_is_unknown_and_not_nothing(asked: Plan) -> None:
    price = hourly_price(asked, "vllm", PRICES, TODAY)
    cost = cost_of(asked, price, (rate(10, 9, 11),), 400)
    assert (cost.per_hour, cost.per_million_output_tokens, cost.per_million_good_requests) == (None, None, None)
    assert "set prices.device_hour" in cost.source


def test_support_costs_only_where_the_plan_requires_it() -> None:
    without = hourly_price(plan(), "tensorrt-llm", PRICES, TODAY).per_hour
    with_it = hourly_price(plan(support=True), "tensorrt-llm", PRICES, TODAY).per_hour
    assert without is not None
    assert with_it == pytest.approx(without + 8.0)


def test_support_without_a_price_is_said_to_be_missing_from_the_cost() -> None:
    price = hourly_price(plan(support=True), "vllm", PRICES, TODAY)
    assert price.per_hour == pytest.approx(4.14 * 8)
    assert "support_not_priced" in [c.code for c in price.caveats]


def test_the_cost_of_tokens_follows_the_rate_and_its_band_turns_round() -> None:
    asked = plan(prices=PricesPlan(device_hour=4.5))
    cost = cost_of(asked, hourly_price(asked, "vllm", PRICES, TODAY), (rate(10, 8, 12.5),), 400)
    tokens = cost.per_million_output_tokens
    assert tokens is not None
    assert tokens.value == pytest.approx(36 / (10 * 400 * 3600) * 1e6)
    assert tokens.low == pytest.approx(36 / (12.5 * 400 * 3600) * 1e6)
    assert tokens.high == pytest.approx(36 / (8 * 400 * 3600) * 1e6)
    assert (tokens.kind, tokens.validated) == (EvidenceKind.PREDICTED, True)


def test_the_cost_says_at_which_rate_it_holds() -> None:
    asked = plan(prices=PricesPlan(device_hour=4.5))
    tput = rate(None, 3000, 3200, metric="output_tput_tps")
    others = rate(9000, 9000, 9000, metric="output_tput_tps", kind=EvidenceKind.PUBLISHED)
    cost = cost_of(asked, hourly_price(asked, "vllm", PRICES, TODAY), (rate(None, 8, 12.5), tput, others), 400)
    own, highest = cost.per_million_output_tokens_at_own_rate, cost.per_million_output_tokens
    assert own is not None
    assert highest is not None
    assert own.value is None
    assert own.low == pytest.approx(36 / (3200 * 3600) * 1e6)
    assert own.high == pytest.approx(36 / (3000 * 3600) * 1e6)
    assert highest.detail == "at 8 to 12.5 requests/s, 2 × TP4"


def test_an_hour_is_priced_to_the_cent() -> None:
    assert cost_of(plan(), hourly_price(plan(), "vllm", PRICES, TODAY), (), 400).per_hour == 33.12


def test_headroom_is_the_rate_over_the_traffics_own() -> None:
    room = headroom_of((rate(None, 8, 12),), 4)
    assert room is not None
    assert (room.metric, room.value, room.low, room.high, room.unit) == ("headroom", None, 2, 3, "×")
    assert headroom_of((), 4) is None
    assert headroom_of((rate(None, 8, 12),), None) is None


def test_an_unvalidated_rate_gives_a_range_of_cost_without_a_value() -> None:
    asked = plan()
    tokens = cost_of(
        asked, hourly_price(asked, "vllm", PRICES, TODAY), (rate(None, 5, 20),), 400
    ).per_million_output_tokens
    assert tokens is not None
    assert (tokens.value, tokens.validated) == (None, False)
    assert tokens.low is not None
    assert tokens.high is not None
    assert tokens.low < tokens.high


def test_a_rate_of_nothing_costs_nobody_knows_what() -> None:
    asked = plan()
    assert (
        cost_of(asked, hourly_price(asked, "vllm", PRICES, TODAY), (rate(0, 0, 0),), 400).per_million_output_tokens
        is None
    )


def test_good_requests_are_priced_from_a_measured_goodput_only() -> None:
    asked = plan(prices=PricesPlan(device_hour=4.5))
    price = hourly_price(asked, "vllm", PRICES, TODAY)
    predicted = cost_of(asked, price, (rate(9, 8, 10, metric="goodput_rps"),), 400)
    assert predicted.per_million_good_requests is None
    assert predicted.good_requests_reason is not None
    assert "not been measured" in predicted.good_requests_reason
    measured = cost_of(asked, price, (rate(9, 8, 10, metric="goodput_rps", kind=EvidenceKind.MEASURED),), 400)
    assert measured.per_million_good_requests is not None
    assert measured.per_million_good_requests.value == pytest.approx(36 / (9 * 3600) * 1e6)
    assert measured.good_requests_reason is None


def test_the_stronger_kind_stands_for_a_candidate_even_where_it_is_lower() -> None:
    measured = rate(5, 4, 6, kind=EvidenceKind.MEASURED)
    assert best_figure((rate(20, 18, 22), rate(None, 30, 60), measured), "max_rate_at_slo_rps") is measured
    assert best_figure((rate(None, 30, 60), rate(20, 18, 22)), "max_rate_at_slo_rps") == rate(20, 18, 22)
    assert best_figure((), "max_rate_at_slo_rps") is None
