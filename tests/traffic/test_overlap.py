from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.traffic import Request, Segment, Workload
from unmoor.traffic.overlap import PoolHits, blocks_of, cached_tokens_lru, prefix_overlap
from unmoor.traffic.readers import read_workload

Prompt = Sequence[tuple[str, int]]


def workload_of(*prompts: Prompt, block: int | None = 1) -> Workload:
    requests = tuple(
        Request(
            arrival_s=float(index),
            input_tokens=sum(tokens for _, tokens in prompt),
            output_tokens=1,
            segments=tuple(Segment(*part) for part in prompt),
        )
        for index, prompt in enumerate(prompts)
    )
    return Workload(requests=requests, source="test", format="test", fingerprint="", overlap_block_tokens=block)


def mooncake_stand_in(requests: int = 300, seed: int = 7) -> bytes:
    """A small trace in Mooncake's format: one system block, sessions whose turns extend one another."""
    rng = random.Random(seed)  # noqa: S311 - a test's data, not a secret
    sessions: list[list[int]] = []
    rows, fresh = [], 1
    for at in range(requests):
        if not sessions or rng.random() < 0.3:
            sessions.append([0])
        ids = rng.choice(sessions[-8:])
        grown = rng.randint(1, 4)
        ids.extend(range(fresh, fresh + grown))
        # A prompt's last block is partial: its hash is of fewer tokens, so the next turn has another id there.
        partial, fresh = fresh + grown, fresh + grown + 1
        length = 512 * len(ids) + rng.randint(1, 511)
        rows.append({"timestamp": at * 10, "input_length": length, "output_length": 9, "hash_ids": [*ids, partial]})
    return b"\n".join(msgspec.json.encode(row) for row in rows)


def expanded(request: Request) -> list[tuple[str, int, int]]:
    """A prompt as one name a token."""
    return [(s.name, s.tokens, place) for s in request.segments for place in range(s.tokens)]


def overlap_by_force(workload: Workload) -> float:
    prompts = [expanded(request) for request in workload.requests]
    shared = 0
    for index, prompt in enumerate(prompts):
        shared += max((common(prompt, earlier) for earlier in prompts[:index]), default=0)
    return shared / sum(len(prompt) for prompt in prompts)


def common(one: Sequence[object], other: Sequence[object]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


prompts = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), min_size=1, max_size=5), min_size=1, max_size=12
)


@given(prompts)
def test_overlap_is_what_brute_force_over_tokens_finds(given_prompts: list[Prompt]) -> None:
    workload = workload_of(*given_prompts)
    assert prefix_overlap(workload) == pytest.approx(overlap_by_force(workload))


@given(prompts)
def test_an_unlimited_pool_of_one_token_blocks_serves_exactly_the_overlap(given_prompts: list[Prompt]) -> None:
    workload = workload_of(*given_prompts)
    hits = cached_tokens_lru(workload, capacity_tokens=10**6, block_tokens=1)
    assert hits is not None
    assert hits.token_share == pytest.approx(prefix_overlap(workload))
    assert hits.block_share == hits.token_share


@given(prompts, st.integers(1, 3))
def test_a_larger_pool_never_serves_less(given_prompts: list[Prompt], block: int) -> None:
    workload = workload_of(*given_prompts)
    pools = [cached_tokens_lru(workload, capacity_tokens=c, block_tokens=block) for c in (0, 2, 4, 8, 16, 64)]
    shares = [pool.block_share for pool in pools if pool]
    assert shares[0] == 0
    assert shares == sorted(shares)


@given(prompts, st.integers(1, 5))
def test_blocks_cut_a_prompt_and_lose_nothing(given_prompts: list[Prompt], block: int) -> None:
    for request in workload_of(*given_prompts).requests:
        blocks = list(blocks_of(request.segments, block))
        lengths = [sum(stop - start for _, _, start, stop in pieces) for pieces in blocks]
        assert all(length == block for length in lengths[:-1])
        assert 0 < lengths[-1] <= block
        tokens = [(name, size, at) for b in blocks for name, size, start, stop in b for at in range(start, stop)]
        assert tokens == expanded(request)


def test_no_part_of_a_segment_counts() -> None:
    assert prefix_overlap(workload_of([("a", 10)], [("a", 9)])) == 0
    assert prefix_overlap(workload_of([("a", 10)], [("b", 10)])) == 0
    assert prefix_overlap(workload_of([("a", 10)], [("a", 10)])) == 0.5


def test_a_name_counts_only_after_the_same_start() -> None:
    assert prefix_overlap(workload_of([("a", 1), ("x", 9)], [("b", 1), ("x", 9)])) == 0


def test_overlap_is_unknown_not_zero_where_the_source_says_nothing_of_content() -> None:
    workload = workload_of([("a", 1)], [("a", 1)], block=None)
    assert prefix_overlap(workload) is None
    assert cached_tokens_lru(workload, capacity_tokens=10, block_tokens=1) is None


def test_the_least_recently_used_block_goes_first_and_a_parent_outlives_its_child() -> None:
    # Three blocks of room. "c" pushes out the end of a+b, never its start; then only the start is served.
    workload = workload_of([("a", 2), ("b", 2)], [("c", 2), ("d", 2)], [("a", 2), ("b", 2)])
    assert cached_tokens_lru(workload, capacity_tokens=6, block_tokens=2) == PoolHits(
        capacity_blocks=3, token_share=2 / 12, block_share=1 / 6
    )


def test_a_prompt_longer_than_the_pool_leaves_its_start_in_it() -> None:
    workload = workload_of([("a", 10)], [("a", 10)])
    hits = cached_tokens_lru(workload, capacity_tokens=4, block_tokens=2)
    assert hits is not None
    assert hits.token_share == 4 / 20


def test_an_adapter_has_blocks_of_its_own() -> None:
    workload = workload_of([("a", 4)], [("a", 4)])
    one, other = workload.requests
    parted = msgspec.structs.replace(workload, requests=(one, msgspec.structs.replace(other, adapter="lora")))
    hits = cached_tokens_lru(parted, capacity_tokens=100, block_tokens=2)
    assert hits is not None
    assert hits.token_share == 0


def test_a_stand_in_in_mooncakes_format_gives_what_brute_force_finds() -> None:
    workload = read_workload(mooncake_stand_in(), where="stand-in")
    names = [list(r.segments) for r in workload.requests]
    shared = sum(
        512 * max((common(prompt, earlier) for earlier in names[:index]), default=0)
        for index, prompt in enumerate(names)
    )
    total = sum(r.input_tokens for r in workload.requests)
    assert prefix_overlap(workload) == pytest.approx(shared / total)
    assert 0.3 < shared / total < 0.95
    unlimited = cached_tokens_lru(workload, capacity_tokens=10**9, block_tokens=512)
    small = cached_tokens_lru(workload, capacity_tokens=20_000, block_tokens=512)
    assert unlimited is not None
    assert small is not None
    assert unlimited.token_share == pytest.approx(shared / total)
    assert 0 < small.token_share < unlimited.token_share


@pytest.mark.trace
def test_the_real_mooncake_trace_has_the_published_overlap(mooncake_trace: Path) -> None:
    overlap = prefix_overlap(read_workload(mooncake_trace.read_bytes(), where="mooncake"))
    assert overlap == pytest.approx(0.374, abs=0.0005)


@pytest.mark.trace
def test_the_real_mooncake_trace_hits_pools_as_computed_before(mooncake_trace: Path) -> None:
    workload = read_workload(mooncake_trace.read_bytes(), where="mooncake")
    shares = {
        millions: hits.token_share
        for millions in (0.5, 1.3, 3, 10, 30)
        if (hits := cached_tokens_lru(workload, capacity_tokens=int(millions * 1e6), block_tokens=512))
    }
    expected = {0.5: 0.045, 1.3: 0.061, 3: 0.139, 10: 0.291, 30: 0.366}
    assert shares == {millions: pytest.approx(share, abs=0.0005) for millions, share in expected.items()}
    unlimited = cached_tokens_lru(workload, capacity_tokens=10**9, block_tokens=512)
    assert unlimited is not None
    assert unlimited.block_share == pytest.approx(0.366, abs=0.0005)
    assert unlimited.token_share == pytest.approx(prefix_overlap(workload))
