from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.quantile_interval import fewest_for, quantile_interval

Q = st.sampled_from([0.05, 0.5, 0.9, 0.95, 0.99])


def at_most(k: int, n: int, q: float) -> float:
    """P(binomial(n, q) <= k), term by term."""
    return math.fsum(math.comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(k + 1))


@given(st.integers(1, 150), Q)
def test_the_bounds_are_the_nearest_order_statistics_that_hold(n: int, q: float) -> None:
    found = quantile_interval([float(place) for place in range(1, n + 1)], q)  # the k-th value is k
    assert found is not None
    low = max((k for k in range(1, n + 1) if at_most(k - 1, n, q) <= 0.025), default=None)
    high = min((k for k in range(1, n + 1) if 1 - at_most(k - 1, n, q) <= 0.025), default=None)
    assert found.low == (None if low is None else min(found.value, low))
    assert found.high == (None if high is None else max(found.value, high))
    assert found.high_is_max == (high == n)


def test_known_ranks() -> None:
    # The median of 100: the 40th and the 61st value (Hahn and Meeker, table A.15a).
    found = quantile_interval([float(place) for place in range(1, 101)], 0.5)
    assert found is not None
    assert (found.low, found.high) == (40.0, 61.0)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.95])
def test_they_cover_the_truth_at_least_as_often_as_they_say(q: float) -> None:
    rng, truth = np.random.default_rng(3), -math.log(1 - q)  # of an exponential
    intervals = [quantile_interval(rng.exponential(size=200).tolist(), q) for _ in range(400)]
    covered = sum(one is not None and (one.low or 0) <= truth <= (one.high or math.inf) for one in intervals)
    assert covered >= 368  # 95 % of 400, less three standard deviations


def test_eighty_requests_bound_p95_by_their_largest_and_seventy_do_not() -> None:
    eighty = quantile_interval([float(place) for place in range(80)], 0.95)
    assert eighty is not None
    assert (eighty.high, eighty.high_is_max) == (79.0, True)
    seventy = quantile_interval([float(place) for place in range(70)], 0.95)
    assert seventy is not None
    assert (seventy.high, seventy.high_is_max) == (None, False)


@given(Q, st.sampled_from([0.9, 0.95, 0.99]))
def test_the_fewest_for_an_upper_bound_are_enough_and_one_less_is_not(q: float, confidence: float) -> None:
    fewest = fewest_for(q, confidence=confidence)
    enough = quantile_interval([1.0] * fewest, q, confidence=confidence)
    less = quantile_interval([1.0] * (fewest - 1), q, confidence=confidence)
    assert enough is not None
    assert enough.high == 1.0
    assert less is None or less.high is None


def test_of_nothing_there_is_no_quantile_and_of_much_there_is_one() -> None:
    assert quantile_interval([], 0.5) is None
    many = quantile_interval(list(range(200_000)), 0.99)
    assert many is not None
    assert many.low is not None
    assert many.high is not None
    assert many.low < 198_000 < many.high < 198_100
