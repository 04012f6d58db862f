from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import MIXED, SCHEDULERS, LinearTable, traffic

from unmoor.choose.prediction.arrivals import first_or_again, spread_ticks, ticks_coarsely
from unmoor.choose.prediction.capacity import (
    Fleet,
    Pace,
    deal,
    fast_end,
    highest_rate,
    meets_at,
    meets_slo,
    run_fleet,
    slow_end,
    tail,
)
from unmoor.choose.prediction.published_error import Band
from unmoor.core.slo import Slo
from unmoor.core.traffic import Request, Segment

SLO = Slo(ttft_s=0.4)


def capacity(fleet: Fleet, pace: Pace, slo: Slo = SLO) -> float:
    found = highest_rate(lambda rate: meets_at(fleet, slo, pace, rate), 5.0, 0.02)
    assert found is not None
    return found


@given(st.floats(0.01, 1000), st.floats(0.01, 1000), st.sampled_from([0.2, 0.05, 0.01]))
def test_the_search_finds_a_threshold_within_its_tolerance(threshold: float, near: float, tolerance: float) -> None:
    found = highest_rate(lambda rate: rate <= threshold, near, tolerance)
    if near / threshold > 1e3 or threshold / near > 1e3:
        return
    assert found is not None
    assert threshold / (1 + tolerance) * 0.999 <= found <= threshold


def test_a_rate_that_nothing_binds_is_none_and_one_that_nothing_meets_is_zero() -> None:
    assert highest_rate(lambda _: True, 1.0, 0.1) is None
    assert highest_rate(lambda _: False, 1.0, 0.1) == 0.0


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=["mixed", "prefill_first", "never_evicts"])
def test_twice_the_step_time_halves_the_capacity(scheduler: object) -> None:
    fleet = deal(traffic(1200, 5.0), 1, LinearTable(), scheduler)  # type: ignore[arg-type]  # parametrize loses the type
    slo = Slo(tpot_s=0.06)
    halved = highest_rate(lambda r: meets_at(fleet, Slo(tpot_s=0.12), Pace(step_factor=2.0), r), 5.0, 0.02)
    assert halved is not None
    assert halved == pytest.approx(capacity(fleet, Pace(), slo) / 2, rel=0.1)


def test_the_slow_end_is_below_the_fast_end() -> None:
    fleet = deal(traffic(1000, 5.0), 2, LinearTable(), MIXED)
    band = Band(fast=0.86, mid=1.0, slow=1.14)
    assert capacity(fleet, slow_end(band)) < 0.9 * capacity(fleet, fast_end(band))


def test_the_hit_rate_of_the_first_requests_is_that_of_their_places_on_every_replica() -> None:
    load = traffic(7, 1.0, prompt=1000, shared=400, groups=1)
    run = run_fleet(deal(load, 3, LinearTable(), MIXED), 0.1, Pace())
    assert run.hit_rate_of_first(3) == 0.0, "the first request of each replica finds an empty cache"
    assert run.hit_rate_of_first(7) == run.prefix_hit_rate
    assert 0.0 < (run.hit_rate_of_first(4) or 0.0) < (run.prefix_hit_rate or 0.0)
    assert run.hit_rate_of_first(0) is None


def test_two_replicas_carry_about_twice_the_rate_of_one() -> None:
    load = traffic(2400, 5.0)
    one, two = (capacity(deal(load, n, LinearTable(), MIXED), Pace()) for n in (1, 2))
    assert two == pytest.approx(2 * one, rel=0.2)


def test_more_rate_never_lowers_the_tail_by_much() -> None:
    fleet = deal(traffic(800, 5.0), 1, LinearTable(), MIXED)
    tails = [run_fleet(fleet, rate, Pace()).tail_ttft_s(0.95) for rate in (1, 2, 4, 8, 12, 16, 24, 32)]
    assert all(later > 0.9 * earlier for earlier, later in itertools.pairwise(tails))
    assert tails[-1] > 2 * tails[0]


def test_every_request_is_dealt_to_exactly_one_replica_in_turn() -> None:
    load = traffic(7, 1.0)
    fleet = deal(load, 3, LinearTable(), MIXED)
    assert [len(share) for share in fleet.shares] == [3, 2, 2]
    assert sorted(r.arrival_s for share in fleet.shares for r in share) == [r.arrival_s for r in load]
    assert len(run_fleet(fleet, 1.0, Pace()).ttft_s) == 7


def test_a_failed_request_misses_the_slo_and_stays_in_the_denominator() -> None:
    long = Request(arrival_s=0.0, input_tokens=300_000, output_tokens=5)
    load = (long, *traffic(9, 1.0))
    run = run_fleet(deal(load, 1, LinearTable(), MIXED), 0.5, Pace())
    assert run.failed == 1
    assert not meets_slo(run, Slo(ttft_s=100.0, quantile=0.95))
    assert meets_slo(run, Slo(ttft_s=100.0, quantile=0.8))
    assert math.isinf(tail(run.ttft_s, 1.0))


def test_host_work_is_added_to_first_tokens_only() -> None:
    fleet = deal(traffic(50, 1.0), 1, LinearTable(), MIXED)
    bare, hosted = run_fleet(fleet, 1.0, Pace()), run_fleet(fleet, 1.0, Pace(host_s=0.06))
    assert hosted.ttft_s == pytest.approx(bare.ttft_s + 0.06)
    assert hosted.tpot_s == pytest.approx(bare.tpot_s)


def test_traffic_without_a_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="apart in time"):
        deal(traffic(1, 1.0), 1, LinearTable(), MIXED)


def test_repeated_traffic_shares_standing_prefixes_and_nothing_else() -> None:
    load = traffic(20, 1.0, shared=100)
    longer = first_or_again(load, 50)
    assert len(longer) == 50
    assert longer[:20] == load
    assert all(a.arrival_s < b.arrival_s for a, b in itertools.pairwise(longer))
    for again in longer[20:]:
        assert again.segments[0] in {Segment("shared-0", 100), Segment("shared-1", 100)}
    names = [r.segments[1].name for r in longer]
    assert len(set(names)) == 50
    assert first_or_again(load, 5) == load[:5]


def test_a_conversation_does_not_come_twice() -> None:
    turns = tuple(
        Request(arrival_s=float(t), input_tokens=10, output_tokens=1, segments=(Segment("talk", 10),)) for t in (0, 1)
    )
    load = (*turns, *(Request(arrival_s=a, input_tokens=5, output_tokens=1) for a in (50.0, 99.0)))
    longer = first_or_again(load, 8)
    assert longer[4].segments == (Segment("talk/1", 10),)
    assert longer[5].segments == (Segment("talk/1", 10),)


def test_requests_of_one_tick_are_spread_until_the_next() -> None:
    load = [
        Request(arrival_s=a, input_tokens=1, output_tokens=1) for a in (0.0, 0.0, 0.0, 3.0, 3.0, 3.0, 6.0, 6.0, 6.0)
    ]
    assert ticks_coarsely(load)
    assert [r.arrival_s for r in spread_ticks(load)] == pytest.approx(np.arange(9.0).tolist())
    assert not ticks_coarsely(traffic(20, 1.0))
