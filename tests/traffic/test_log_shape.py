from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.traffic.log import Traffic
from unmoor.traffic.profile.log_asked import named_of, sampling_of, sessions_of, structured_of, tools_of
from unmoor.traffic.profile.log_shape import arrivals_of, concurrency_of, histogram, stretches_of, token_counts_of
from unmoor.traffic.profile.report import Lengths
from unmoor.traffic.readers import read_traffic


def log(*rows: str, header: str = "arrival_s,input_tokens,output_tokens,took_s,session,tenant,adapter") -> Traffic:
    return read_traffic("\n".join((header, *rows)).encode(), where="log.csv")


FOUR = log("0,10,1,2,a,x,", "1,20,2,2,a,y,l1", "2,30,3,2,b,x,l1", "4,40,4,1,a,x,l2")


def test_lengths_are_counted_over_those_that_are_known() -> None:
    counts = token_counts_of(np.array([10, -1, 30]))
    assert counts is not None
    assert (counts.total, counts.mean, counts.p50, counts.max) == (40, 20, 20, 30)
    assert token_counts_of(np.array([-1, -1])) == Lengths(total=None, mean=None, p50=None, p95=None, max=None)


def test_the_rate_is_gaps_over_duration_and_bursts_are_the_variation_of_gaps() -> None:
    seen = arrivals_of(FOUR)
    assert seen.rps == 0.75
    assert seen.interarrival_cv == pytest.approx(np.std([1, 1, 2]) / np.mean([1, 1, 2]))
    assert arrivals_of(log("0,1,1,,,,", "0,1,1,,,,")).rps is None
    assert arrivals_of(log("0,1,1,,,,", "2,1,1,,,,")).interarrival_cv is None


def test_who_ran_when_follows_from_the_times_that_requests_took() -> None:
    seen = concurrency_of(FOUR)
    assert seen is not None
    assert seen.peak == 2
    assert seen.mean == pytest.approx(6 / 4)  # two seconds each for three, within the four from first to last arrival
    assert concurrency_of(log("0,1,1,1,,,", "2,1,1,,,,")) is None


def test_stretches_cover_the_log_and_count_every_request_once() -> None:
    stretches = stretches_of(FOUR, 4)
    assert [s.requests for s in stretches] == [1, 1, 1, 1]
    assert [s.input_tokens for s in stretches] == [10, 20, 30, 40]
    assert [s.mean_running for s in stretches] == [1, 2, 2, 1]
    assert stretches_of(log("3,1,1,,,,")) == ()


@given(st.lists(st.integers(-1, 10**7), min_size=1))
def test_a_histogram_counts_every_known_length_once_and_in_its_bin(lengths: list[int]) -> None:
    bins = histogram(np.array(lengths))
    known = [max(length, 1) for length in lengths if length >= 0]
    assert sum(bar.count for bar in bins) == len(known)
    for bar in bins:
        assert bar.count == sum(bar.low <= length < bar.high for length in known)
    assert all(one.high == other.low for one, other in pairwise(bins))


def test_sessions_have_turns_and_time_between_them() -> None:
    seen = sessions_of(FOUR)
    assert seen is not None
    assert (seen.count, seen.requests_share, seen.turns.max) == (2, 1.0, 3)
    assert seen.between_turns_s is not None
    assert seen.think_s is not None
    assert seen.between_turns_s.mean == 2
    assert seen.think_s.mean == 0.5  # the first answer ended after the second turn began: no time to think
    assert sessions_of(log("0,1,1,,,,")) is None


def test_names_come_with_their_requests_and_tokens_the_largest_first() -> None:
    tenants = named_of(FOUR, FOUR.tenant)
    adapters = named_of(FOUR, FOUR.adapter)
    assert tenants is not None
    assert adapters is not None
    assert [(one.name, one.requests, one.input_tokens) for one in tenants.top] == [("x", 3, 80), ("y", 1, 20)]
    assert (adapters.distinct, adapters.share) == (2, 0.75)


def test_what_a_log_of_lengths_does_not_say_is_none_and_not_zero() -> None:
    assert structured_of(FOUR) is None
    assert tools_of(FOUR) is None
    assert sampling_of(FOUR) is None


def test_a_quarter_of_a_million_rows_are_columns_and_take_no_time() -> None:
    rng = np.random.default_rng(0)
    size = 250_000
    body = "\n".join(f"{t:.3f},{n},7,1.5,s{n % 999},," for t, n in enumerate(rng.integers(1, 9000, size).tolist()))
    big = read_traffic(
        f"arrival_s,input_tokens,output_tokens,took_s,session,tenant,adapter\n{body}".encode(), where="x"
    )
    assert len(stretches_of(big)) == 48
    assert sessions_of(big) is not None
    assert math.isclose(sum(bar.count for bar in histogram(big.input_tokens)), size)
