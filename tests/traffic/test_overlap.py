from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.traffic import Request, Segment, Workload
from unmoor.traffic.conversion import traffic_of
from unmoor.traffic.overlap import prefix_overlap
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.reuse.curve import curve_of, curves_of, hit_curve, ideal, salt_of

Prompt = Sequence[tuple[str, int]]
Row = dict[str, Any]


def workload_of(*prompts: Prompt, block: int | None = 1, adapters: Sequence[str | None] = ()) -> Workload:
    requests = tuple(
        Request(
            arrival_s=float(index),
            input_tokens=sum(tokens for _, tokens in prompt),
            output_tokens=1,
            segments=tuple(Segment(*part) for part in prompt),
            adapter=adapters[index] if adapters else None,
        )
        for index, prompt in enumerate(prompts)
    )
    return Workload(requests=requests, source="test", format="test", fingerprint="", overlap_block_tokens=block)


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
    # A segment's tokens are equal whole or not at all, so that no two prompts part within one.
    workload = workload_of(*given_prompts)
    assert prefix_overlap(workload) == pytest.approx(overlap_by_force(workload))


@given(prompts)
def test_an_unlimited_pool_of_one_token_blocks_serves_exactly_the_overlap(given_prompts: list[Prompt]) -> None:
    traffic = traffic_of(workload_of(*given_prompts))
    curve = curve_of(traffic)
    assert curve is not None
    assert curve.ideal.value == curve.at(10**6).value == ideal(traffic).tokens == ideal(traffic).blocks


def test_no_part_of_a_segment_counts() -> None:
    assert prefix_overlap(workload_of([("a", 10)], [("a", 9)])) == 0
    assert prefix_overlap(workload_of([("a", 10)], [("b", 10)])) == 0
    assert prefix_overlap(workload_of([("a", 10)], [("a", 10)])) == 0.5


def test_a_name_counts_only_after_the_same_start() -> None:
    assert prefix_overlap(workload_of([("a", 1), ("x", 9)], [("b", 1), ("x", 9)])) == 0


def test_overlap_is_unknown_not_zero_where_the_source_says_nothing_of_content() -> None:
    workload = workload_of([("a", 1)], [("a", 1)], block=None)
    assert prefix_overlap(workload) is None
    assert curve_of(traffic_of(workload)) is None
    assert prefix_overlap(workload_of()) is None


def test_the_least_recently_used_block_goes_first_and_a_parent_outlives_its_child() -> None:
    # Three blocks of room. "c" pushes out the end of a+b, never its start; then only the start is served.
    traffic = traffic_of(workload_of([("a", 2), ("b", 2)], [("c", 2), ("d", 2)], [("a", 2), ("b", 2)], block=2))
    curve = curve_of(traffic)
    assert curve is not None
    assert [curve.hit_tokens_at(2 * blocks) for blocks in range(6)] == [0, 0, 0, 2, 4, 4]
    assert curve.working_set_tokens == 8


def test_a_prompt_longer_than_the_pool_leaves_its_start_in_it() -> None:
    curve = curve_of(traffic_of(workload_of([("a", 10)], [("a", 10)])), block_tokens=2)
    assert curve is not None
    assert curve.at(4).value == 4 / 20
    assert curve.at(5).value == 4 / 20


def test_an_engine_computes_the_last_token_and_keeps_whole_blocks_only() -> None:
    traffic = traffic_of(workload_of([("a", 10)], [("a", 10)], [("a", 10), ("b", 1)]))
    assert traffic.tree is not None
    curves = {size: hit_curve(traffic.tree, traffic.node, block_tokens=size) for size in (1, 2, 4, 5, 16)}
    assert {size: curve.hit_tokens_at(100) for size, curve in curves.items()} == {
        1: 9 + 10,
        2: 8 + 10,
        4: 8 + 8,
        5: 5 + 10,
        16: 0,
    }


def test_an_adapter_has_blocks_of_its_own() -> None:
    traffic = traffic_of(workload_of([("a", 4)], [("a", 4)], [("a", 4)], adapters=["x", "y", "x"]))
    assert ideal(traffic).tokens == 8 / 12
    salt = salt_of(traffic.adapter, traffic.tenant)
    assert ideal(traffic, salt=salt).tokens == 4 / 12
    curve = curve_of(traffic, salt=salt)
    assert curve is not None
    assert [curve.hit_tokens_at(tokens) for tokens in (4, 5, 7, 8)] == [0, 1, 3, 4]


def test_an_adapters_last_partial_block_is_its_own_too() -> None:
    traffic = traffic_of(workload_of([("a", 3)], [("a", 3)], [("a", 3)], block=2, adapters=["x", "y", "x"]))
    curve = curve_of(traffic, salt=salt_of(traffic.adapter))
    assert curve is not None
    assert [curve.hit_tokens_at(2 * blocks) for blocks in range(6)] == [0, 0, 0, 2, 3, 3]
    assert ideal(traffic, salt=salt_of(traffic.adapter)).blocks == 2 / 6


def test_a_replica_has_the_blocks_of_its_own_requests_only() -> None:
    traffic = traffic_of(workload_of([("a", 4)], [("b", 4)], [("a", 4)], [("a", 4)]))
    curve = curve_of(traffic, members=np.array([True, False, False, True]))
    assert curve is not None
    assert (curve.prompt_tokens, curve.hit_tokens_at(4)) == (8, 4)


@pytest.mark.parametrize("replica", [None, 1])
def test_one_walk_serves_all_block_sizes(replica: int | None) -> None:
    rows = stand_in()
    traffic = read_traffic(b"\n".join(msgspec.json.encode(row) for row in rows), where="stand-in")
    salt = np.arange(len(traffic)) % 2
    members = None if replica is None else np.arange(len(traffic)) % 3 == replica
    curve_at = curves_of(traffic, salt=salt, members=members)
    for block in (None, 1, 16, 48, 512, 1024):
        one, other = curve_at(block), curve_of(traffic, block_tokens=block, salt=salt, members=members)
        assert one is not None
        assert other is not None
        assert one.ideal == other.ideal
        for tokens in range(0, one.working_set_tokens + 2000, 1999):
            assert one.at(tokens) == other.at(tokens)
        assert (one.ideal.value is None) == (block in {1, 16, 48})
    assert curves_of(traffic_of(workload_of([("a", 1)], block=None)))(16) is None


def test_a_log_in_large_blocks_bounds_what_an_engine_with_small_ones_serves() -> None:
    traffic = traffic_of(workload_of([("a", 8), ("b", 8)], [("a", 8), ("c", 8)], block=8))
    fine, own, coarse = (curve_of(traffic, block_tokens=size) for size in (2, 8, 16))
    assert fine is not None
    assert own is not None
    assert coarse is not None
    assert fine.ideal.value is None
    assert (fine.ideal.low, fine.ideal.high) == (8 / 32, 14 / 32)  # 7 tokens more may agree: 3 blocks of 2
    assert (own.ideal.low, own.ideal.value, own.ideal.high) == (8 / 32, 8 / 32, 8 / 32)
    assert coarse.ideal.value == 0


def stand_in(requests: int = 300, seed: int = 7) -> list[Row]:
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
    # Some prompts come twice, to their last, partial block.
    return [row for row in rows for _ in range(1 + (rng.random() < 0.1))]


def served(rows: Sequence[Row], capacity: int) -> tuple[int, int]:
    """The tokens and the blocks that a pool of `capacity` blocks serves, by ids alone, which are chained."""
    pool: OrderedDict[int, None] = OrderedDict()
    tokens = blocks = 0
    for row in rows:
        hits = next((n for n, block in enumerate(row["hash_ids"]) if block not in pool), len(row["hash_ids"]))
        blocks += hits
        tokens += min(512 * hits, row["input_length"])
        for block in reversed(row["hash_ids"]):
            pool[block] = None
            pool.move_to_end(block)
        while len(pool) > capacity:
            pool.popitem(last=False)
    return tokens, blocks


def test_a_stand_in_in_mooncakes_format_gives_what_a_pool_of_its_ids_serves_at_every_capacity() -> None:
    rows = stand_in()
    traffic = read_traffic(b"\n".join(msgspec.json.encode(row) for row in rows), where="stand-in")
    curve = curve_of(traffic)
    assert curve is not None
    distinct = len({block for row in rows for block in row["hash_ids"]})
    for capacity in [*range(120), *range(120, distinct, 41), distinct]:
        assert curve.hit_tokens_at(512 * capacity) == served(rows, capacity)[0]
    tokens, blocks = served(rows, distinct)
    share = ideal(traffic)
    assert share.tokens == tokens / sum(row["input_length"] for row in rows)
    assert share.blocks == blocks / sum(len(row["hash_ids"]) for row in rows)
    assert 0.3 < (share.tokens or 0) < 0.95


@pytest.mark.trace
def test_the_real_mooncake_trace_gives_the_known_answers(mooncake_trace: Path) -> None:
    traffic = read_traffic(mooncake_trace.read_bytes(), where="mooncake")
    share, curve = ideal(traffic), curve_of(traffic)
    assert share.tokens == pytest.approx(0.374, abs=0.0005)
    assert share.blocks == pytest.approx(0.366, abs=0.0005)
    assert curve is not None
    known = {0.5: 0.045, 1.3: 0.061, 3: 0.139, 10: 0.291, 30: 0.366}
    found = {millions: curve.at(int(millions * 1e6)).value for millions in known}
    assert found == {millions: pytest.approx(rate, abs=0.0005) for millions, rate in known.items()}
    assert curve.ideal.value == share.tokens


@pytest.mark.trace
def test_the_real_mooncake_trace_gives_to_the_token_what_a_pool_of_its_ids_serves(mooncake_trace: Path) -> None:
    content = mooncake_trace.read_bytes()
    rows = [msgspec.json.decode(line) for line in content.splitlines()]
    curve = curve_of(read_traffic(content, where="mooncake"))
    assert curve is not None
    for capacity in (976, 19_531):
        assert curve.hit_tokens_at(512 * capacity) == served(rows, capacity)[0]
