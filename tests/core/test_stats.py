from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.stats import bootstrap, mean_of, paired_difference, quantile, quantile_of, wilson

SAMPLES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def test_a_quantile_interpolates_between_neighbours() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert quantile([7.0], 0.95) == 7.0
    assert quantile([], 0.5) is None


@given(SAMPLES, st.integers(0, 99))
def test_an_interval_holds_its_estimate_and_stays_within_the_sample(sample: list[float], seed: int) -> None:
    found = bootstrap(sample, quantile_of(0.5), seed=seed, resamples=200)
    assert found is not None
    slack = 1e-9 * max(1.0, *(abs(x) for x in sample))
    assert min(sample) - slack <= found.low <= found.high <= max(sample) + slack
    assert found.n == len(sample)


def test_an_interval_of_the_mean_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for trial in range(200):
        found = bootstrap(rng.normal(3.0, 1.0, 40).tolist(), mean_of, seed=trial, resamples=400)
        assert found is not None
        covered += not found.excludes(3.0)
    assert 175 <= covered <= 199  # 95 % nominal; the percentile method runs a little narrow at n = 40


def test_the_same_seed_gives_the_same_interval() -> None:
    sample = [1.0, 5.0, 2.0, 8.0]
    assert bootstrap(sample, mean_of, seed=1) == bootstrap(sample, mean_of, seed=1)
    assert bootstrap([], mean_of, seed=1) is None


@given(st.lists(st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)), min_size=1, max_size=30))
def test_a_paired_difference_changes_sign_when_its_sides_change_places(pairs: list[tuple[float, float]]) -> None:
    before, after = [p[0] for p in pairs], [p[1] for p in pairs]
    there, back = paired_difference(before, after, seed=3), paired_difference(after, before, seed=3)
    assert there is not None
    assert back is not None
    assert there.value == pytest.approx(-back.value)
    assert there.low == pytest.approx(-back.high, abs=1e-9)


def test_a_shift_common_to_all_pairs_is_found_through_any_noise_between_pairs() -> None:
    before = np.random.default_rng(5).normal(100.0, 30.0, 20)
    found = paired_difference(before.tolist(), (before + 2.0).tolist(), seed=0)
    assert found is not None
    assert found.excludes(0.0)
    with pytest.raises(ValueError, match="20 observations before, 1 after"):
        paired_difference(before.tolist(), [1.0], seed=0)


@given(st.integers(0, 200), st.integers(1, 200))
def test_a_wilson_interval_holds_its_share_and_stays_within_0_and_1(successes: int, trials: int) -> None:
    found = wilson(min(successes, trials), trials)
    assert found is not None
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    assert found.low < found.high


def test_no_failure_in_twenty_is_no_proof_of_none() -> None:
    found = wilson(20, 20)
    assert found is not None
    assert found.low == pytest.approx(0.839, abs=0.001)  # Wilson 1927; the same as statsmodels proportion_confint
    assert wilson(0, 0) is None
