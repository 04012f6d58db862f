from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.plan import SyntheticTraffic
from unmoor.core.plan_text import read_description
from unmoor.traffic.conversion import traffic_of, workload_of
from unmoor.traffic.log import Traffic
from unmoor.traffic.overlap import prefix_overlap
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.shape import profile
from unmoor.traffic.synthesis import gamma, stream, synthesise, to_jsonl

AGENTS = Path(__file__).parent.parent.parent / "examples" / "agents"
PLAIN = SyntheticTraffic(
    requests=4000, rate_rps=5, input_tokens=1000, output_tokens=200, shared_prefix_tokens=600, groups=3, seed=1
)


def test_the_reference_traffic_is_made_again_byte_for_byte() -> None:
    text = (AGENTS / "traffic.toml").read_text()
    described = read_description(text, where="traffic.toml")
    made_by = {"verb": "unmoor generate", "description": msgspec.to_builtins(described)}
    assert to_jsonl(synthesise(described), made_by=made_by) == (AGENTS / "traffic.jsonl").read_bytes()


def test_the_reference_traffic_has_the_shape_of_the_reference_workload() -> None:
    seen = profile(workload_of(read_traffic((AGENTS / "traffic.jsonl").read_bytes(), where="traffic.jsonl")))
    assert seen.requests == 1200
    assert seen.input_tokens.mean == pytest.approx(4000, rel=0.005)
    assert seen.output_tokens.mean == pytest.approx(400, rel=0.005)
    assert seen.prefix_overlap == pytest.approx(0.8, abs=0.005)
    assert seen.offered_rps == pytest.approx(8, rel=0.02)
    assert seen.burstiness == pytest.approx(1, abs=0.05)


def test_means_spread_and_shares_are_as_described() -> None:
    workload = synthesise(PLAIN)
    seen = profile(workload)
    assert seen.input_tokens.mean == pytest.approx(1000, rel=0.01)
    assert seen.output_tokens.mean == pytest.approx(200, rel=0.01)
    assert {min(r.input_tokens for r in workload.requests), max(r.input_tokens for r in workload.requests)} == {
        900,
        1100,
    }
    assert {min(r.output_tokens for r in workload.requests), max(r.output_tokens for r in workload.requests)} == {
        180,
        220,
    }
    groups = Counter(r.segments[0].name for r in workload.requests)
    assert groups.keys() == {"shared-0", "shared-1", "shared-2"}
    assert max(groups.values()) < 1.15 * min(groups.values())


def test_overlap_is_all_shared_prefixes_but_the_first_of_each() -> None:
    workload = synthesise(PLAIN)
    total = sum(r.input_tokens for r in workload.requests)
    assert prefix_overlap(workload) == pytest.approx((4000 - 3) * 600 / total)
    apart = msgspec.structs.replace(PLAIN, shared_prefix_tokens=0)
    assert prefix_overlap(synthesise(apart)) == 0


@pytest.mark.parametrize("variation", [0.2, 0.5, 1.0, 2.0, 4.0])
def test_gaps_have_the_rate_and_the_burstiness_described(variation: float) -> None:
    described = msgspec.structs.replace(PLAIN, burstiness=variation, requests=20_000)
    arrivals = [r.arrival_s for r in synthesise(described).requests]
    gaps = [after - before for before, after in pairwise(arrivals)]
    assert arrivals[0] == 0
    assert arrivals == sorted(arrivals)
    assert fmean(gaps) == pytest.approx(0.2, rel=0.07)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(variation, rel=0.07)


def gamma_below(shape: float, x: float) -> float:
    """The regularised lower incomplete gamma function, by its series."""
    term = total = 1 / shape
    step = 0
    while x > 0 and term > 1e-16 * total:
        step += 1
        term *= x / (shape + step)
        total += term
    return total * math.exp(-x + shape * math.log(x) - math.lgamma(shape)) if x > 0 else 0.0


@pytest.mark.parametrize("variation", [0.2, 0.5, 1.0, 2.0, 4.0])
def test_gamma_passes_a_test_against_its_distribution(variation: float) -> None:
    shape = 1 / variation**2
    draw, n = stream(3, "test"), 10_000
    drawn = sorted(gamma(draw, variation) for _ in range(n))
    apart = max(abs(gamma_below(shape, x * shape) - (place + 0.5) / n) for place, x in enumerate(drawn))
    assert apart * math.sqrt(n) < 1.63  # Kolmogorov and Smirnov's bound at 1 %


def test_a_stream_is_pinned_for_ever() -> None:
    draw = stream(0, "input")
    assert [draw() for _ in range(3)] == [0.9622508219851054, 0.53054495872944, 0.07464895910159558]


def test_changing_lengths_moves_no_arrival() -> None:
    wider = msgspec.structs.replace(PLAIN, spread=0.5, output_tokens=90)
    assert [r.arrival_s for r in synthesise(wider).requests] == [r.arrival_s for r in synthesise(PLAIN).requests]


def test_another_seed_is_another_workload() -> None:
    other = synthesise(msgspec.structs.replace(PLAIN, seed=2))
    assert other.fingerprint != synthesise(PLAIN).fingerprint
    assert [r.arrival_s for r in other.requests] != [r.arrival_s for r in synthesise(PLAIN).requests]


def test_a_prompt_that_is_all_shared_prefix_has_no_part_of_its_own() -> None:
    workload = synthesise(msgspec.structs.replace(PLAIN, shared_prefix_tokens=1000, groups=1))
    assert {len(r.segments) for r in workload.requests} == {1}
    assert {r.input_tokens for r in workload.requests} == {1000}


descriptions = st.builds(
    SyntheticTraffic,
    requests=st.integers(1, 30),
    rate_rps=st.floats(0.01, 1000),
    input_tokens=st.integers(50, 200),
    output_tokens=st.integers(1, 50),
    shared_prefix_tokens=st.integers(0, 50),
    groups=st.integers(1, 5),
    spread=st.floats(0, 1),
    burstiness=st.floats(0.05, 20),
    seed=st.integers(-5, 2**70),
)


@given(descriptions)
def test_what_is_written_reads_back_the_same(described: SyntheticTraffic) -> None:
    workload = synthesise(described)
    back = read_traffic(to_jsonl(workload, made_by={"seed": 1}), where="x")
    assert _said(back) == _said(traffic_of(workload))
    assert back.grain
    assert back.grain.tokens == workload.overlap_block_tokens == 1
    assert back.caveats == ()


def _said(traffic: Traffic) -> list[list[object]]:
    """All columns but the lines; equal trees number equal prompts alike."""
    tree = () if traffic.tree is None else (traffic.tree.parent, traffic.tree.end)
    return [
        column.tolist()
        for column in (traffic.arrival_s, traffic.input_tokens, traffic.output_tokens, traffic.node, *tree)
    ]


def test_traffic_without_content_is_written_and_read_too() -> None:
    azure = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,3,4\n"
    traffic = read_traffic(azure, where="x")
    back = read_traffic(to_jsonl(workload_of(traffic)), where="x")
    assert _said(back) == _said(traffic)
    assert back.grain is None
