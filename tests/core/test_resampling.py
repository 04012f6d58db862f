"""Resampling in blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.resampling import blocked_draws, interval
from unmoor.core.stats import mean_of, quantile_of


@given(lengths=st.lists(st.integers(0, 9), max_size=4), seed=st.integers(0, 9))
def test_every_draw_is_a_position_and_there_are_as_many_as_observations(lengths: list[int], seed: int) -> None:
    draws = blocked_draws(lengths, seed=seed, resamples=20)
    assert draws.shape == (20, sum(lengths))
    if sum(lengths):
        assert draws.min() >= 0
        assert draws.max() < sum(lengths)


def test_a_slot_is_filled_from_one_block_at_a_time() -> None:
    draws = blocked_draws([8, 8], seed=0, resamples=50)
    for row in draws:
        for slot in (row[:8], row[8:]):
            assert len(set((slot >= 8).tolist())) == 1


def test_the_same_seed_draws_the_same() -> None:
    assert np.array_equal(blocked_draws([5, 6], seed=3), blocked_draws([5, 6], seed=3))


def test_blocks_that_disagree_make_a_wider_interval_than_their_pool_would() -> None:
    apart = [0.0, 0.1, 0.0, 0.1, 0.0, 0.1, 1.0, 1.1, 1.0, 1.1, 1.0, 1.1]
    two = interval(apart, mean_of, blocked_draws([6, 6], seed=0))
    assert two.low < 0.1
    assert two.high > 1.0


def test_an_observation_that_never_came_lies_beyond_every_quantile() -> None:
    draws = blocked_draws([4], seed=0)
    found = interval([1.0, 2.0, math.inf, math.inf], quantile_of(0.95), draws)
    assert found.value == math.inf
    assert found.high == math.inf
    assert interval([1.0, 2.0, 3.0, math.inf], quantile_of(0.5), draws).value == 2.5


def test_nothing_has_no_interval() -> None:
    with pytest.raises(ValueError, match="no observation"):
        interval([], mean_of, blocked_draws([], seed=0))
