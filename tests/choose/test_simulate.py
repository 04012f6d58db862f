from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import MIXED, NEVER_EVICTS, PREFILL_FIRST, SCHEDULERS, LinearTable, traffic

from unmoor.choose.prediction.kv_pool import KvPool, chains_of
from unmoor.choose.prediction.simulate import Patience, simulate
from unmoor.core.traffic import Request, Segment

loads = st.builds(
    traffic,
    n=st.integers(1, 60),
    rate_rps=st.floats(0.1, 200),
    prompt=st.integers(50, 3000),
    answer=st.integers(1, 120),
    shared=st.sampled_from([0, 16, 40]),
    seed=st.integers(0, 5),
)
schedulers = st.sampled_from(SCHEDULERS)
pools = st.sampled_from([4_000, 8_000, 200_000])


@settings(max_examples=60, deadline=None)
@given(loads, schedulers, pools)
def test_every_request_ends_once_or_fails_and_never_both(
    load: tuple[Request, ...], scheduler: object, kv_tokens: int
) -> None:
    seen = simulate(load, LinearTable(kv_tokens), scheduler)  # type: ignore[arg-type]  # hypothesis loses the type
    assert np.array_equal(np.isnan(seen.end_s), seen.failed)
    assert np.array_equal(np.isnan(seen.first_token_s), seen.failed)
    done = ~seen.failed
    assert (seen.first_token_s[done] > seen.arrival_s[done]).all()
    assert (seen.end_s[done] >= seen.first_token_s[done]).all()


@settings(max_examples=60, deadline=None)
@given(loads, schedulers, pools)
def test_the_kv_pool_is_never_exceeded(load: tuple[Request, ...], scheduler: object, kv_tokens: int) -> None:
    table = LinearTable(kv_tokens)
    seen = simulate(load, table, scheduler)  # type: ignore[arg-type]  # hypothesis loses the type
    assert seen.busy_peak <= 1
    # Decoding requests that share a prefix count it once in the pool and each for itself in attention.
    shared = max((s.tokens for r in load for s in r.segments if s.name.startswith("shared")), default=0)
    assert table.most_kv <= kv_tokens + 64 * (shared + 1)


@settings(max_examples=60, deadline=None)
@given(loads, schedulers)
def test_a_first_token_takes_at_least_the_time_to_compute_what_is_not_cached(
    load: tuple[Request, ...], scheduler: object
) -> None:
    seen = simulate(load, LinearTable(), scheduler)  # type: ignore[arg-type]  # hypothesis loses the type
    least = 5e-3 + 5e-5 * (seen.input_tokens - seen.cached_tokens)
    assert (seen.ttft_s >= least - 1e-9).all()
    assert (seen.cached_tokens < seen.input_tokens).all(), "the last prompt token is always computed"


def test_a_request_alone_takes_exactly_its_iterations() -> None:
    request = Request(arrival_s=3.0, input_tokens=100, output_tokens=11)
    seen = simulate([request], LinearTable(), MIXED)
    assert seen.first_token_s[0] == pytest.approx(3.0 + 5e-3 + 100 * 5e-5)
    decode = 10 * (5e-3 + 2e-4) + 1e-7 * sum(101 + step for step in range(10))
    assert seen.end_s[0] - seen.first_token_s[0] == pytest.approx(decode)
    assert seen.tpot_s[0] == pytest.approx(decode / 10)
    assert seen.iterations == 11


def test_a_long_prompt_is_computed_in_chunks_and_refused_where_it_may_not_be() -> None:
    request = Request(arrival_s=0.0, input_tokens=5000, output_tokens=1)
    assert simulate([request], LinearTable(), MIXED).iterations == 3
    whole = msgspec.structs.replace(MIXED, chunked_prefill=False)
    assert simulate([request], LinearTable(), whole).failed.all()


def test_a_cached_prefix_takes_prefill_time_away() -> None:
    cold = simulate(traffic(40, 1.0), LinearTable(), MIXED)
    warm = simulate(traffic(40, 1.0, shared=800), LinearTable(), MIXED)
    off = msgspec.structs.replace(MIXED, prefix_caching=False)
    assert cold.cached_tokens.sum() == 0
    assert warm.cached_tokens.sum() >= 36 * 800
    assert warm.ttft_s.mean() < 0.6 * cold.ttft_s.mean()
    assert simulate(traffic(40, 1.0, shared=800), LinearTable(), off).cached_tokens.sum() == 0


def test_a_prefix_that_is_still_being_computed_is_not_a_hit() -> None:
    together = [
        Request(arrival_s=0.0, input_tokens=4000, output_tokens=5, segments=(Segment("same", 4000),)) for _ in range(2)
    ]
    later = msgspec.structs.replace(together[0], arrival_s=100.0)
    seen = simulate([*together, later], LinearTable(), MIXED)
    assert seen.cached_tokens.tolist() == [0, 0, 3984]


def test_prefills_first_stall_decodes_and_answer_first_tokens_sooner() -> None:
    load = traffic(80, 12.0)
    mixed, first = (simulate(load, LinearTable(), scheduler) for scheduler in (MIXED, PREFILL_FIRST))
    assert first.ttft_s.mean() <= mixed.ttft_s.mean() * 1.05


def test_a_pool_too_small_preempts_and_says_so_unless_answers_are_reserved() -> None:
    load = traffic(40, 50.0, prompt=500, answer=400)
    evicts = simulate(load, LinearTable(6000), MIXED)
    reserves = simulate(load, LinearTable(6000), NEVER_EVICTS)
    assert evicts.preemptions > 0
    assert evicts.saturated
    assert not evicts.failed.any()
    assert reserves.preemptions == 0
    assert reserves.saturated, "it waited for memory instead"
    assert not simulate(load[:5], LinearTable(), MIXED).saturated


def test_a_request_longer_than_the_pool_fails_and_the_others_do_not() -> None:
    long = Request(arrival_s=0.0, input_tokens=9000, output_tokens=10)
    seen = simulate([long, *traffic(5, 1.0)], LinearTable(8000), MIXED)
    assert seen.failed.tolist() == [True] + [False] * 5


def test_patience_ends_a_run_that_cannot_meet_its_bound_any_more() -> None:
    load = traffic(400, 100.0)
    seen = simulate(load, LinearTable(), MIXED, patience=Patience(misses=10, ttft_s=0.2))
    assert seen.gave_up
    assert np.isnan(seen.end_s).sum() > 200
    assert not simulate(load, LinearTable(), MIXED, patience=Patience(misses=10, ttft_s=1e6)).gave_up


def test_the_pool_evicts_the_least_recently_used_and_the_end_of_a_prompt_first() -> None:
    requests = [
        Request(arrival_s=0, input_tokens=30, output_tokens=1, segments=(Segment(a, 10), Segment(b, 20)))
        for a, b in (("x", "1"), ("x", "2"), ("y", "1"))
    ]
    chains = chains_of(requests)
    assert chains.tokens == (10, 20, 20, 10, 20), "the same name after another beginning is another content"
    pool = KvPool(60, chains.tokens)
    for chain in chains.of_request[:2]:
        shared = pool.matched(chain)
        pool.hold(chain[:shared])
        assert pool.take(30 - sum(chains.tokens[node] for node in chain[:shared]))
        pool.publish(chain[shared:])
        pool.release(chain)
    assert pool.used == 50
    assert pool.take(30)
    assert pool.matched(chains.of_request[0]) == 1, "its end went, its beginning was used since"
    assert pool.matched(chains.of_request[1]) == 2
    assert not pool.take(31)
    assert pool.used <= pool.capacity
