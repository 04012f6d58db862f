from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.plan import SyntheticTraffic
from unmoor.traffic.fingerprint import write
from unmoor.traffic.log import Traffic
from unmoor.traffic.profile.profile_log import dense_curves, profile_log
from unmoor.traffic.profile.question import EngineBlocks, Fleet, Question, grid
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.reuse.curve import curve_of
from unmoor.traffic.synthesis import synthesise, to_jsonl

CONTRACT = (
    "requests",
    "skipped_lines",
    "duration_s",
    "input_tokens",
    "output_tokens",
    "arrivals",
    "prefix_overlap",
    "prefix_overlap_blocks",
    "hit_rate_curve",
    "engines",
    "replicas",
    "shared_prefixes",
    "breakers",
    "caveats",
)
ENGINES = {
    "fine": EngineBlocks(block_tokens=1, prefix_caching=True),
    "coarse": EngineBlocks(block_tokens=64, prefix_caching=False),
}
SHARED = synthesise(
    SyntheticTraffic(
        requests=60, rate_rps=2, input_tokens=400, output_tokens=20, shared_prefix_tokens=300, groups=3, seed=1
    )
)


def agents() -> Traffic:
    return read_traffic(to_jsonl(SHARED), where="agents")


def blocks(*rows: tuple[int, list[int]]) -> Traffic:
    lines = (
        f'{{"timestamp": {1000 * n}, "input_length": {size}, "output_length": 1, "hash_ids": {ids}}}'
        for n, (size, ids) in enumerate(rows)
    )
    return read_traffic("\n".join(lines).encode(), where="blocks")


def test_the_json_begins_with_the_keys_of_the_contract_in_its_order() -> None:
    made = msgspec.json.decode(msgspec.json.encode(profile_log(agents(), Question(engines=ENGINES))))
    assert tuple(made)[: len(CONTRACT)] == CONTRACT
    assert set(made["input_tokens"]) == {"total", "mean", "p50", "p95", "max"}
    assert set(made["arrivals"]) == {"rps", "interarrival_cv"}
    assert {"kv_tokens", "hit_rate"} <= set(made["hit_rate_curve"][0])
    assert {"block_tokens", "hit_rate_curve"} <= set(made["engines"]["fine"])
    assert {"n", "routing", "hit_rate"} <= set(made["replicas"][0])
    assert {"tokens", "requests", "tokens_saved"} <= set(made["shared_prefixes"][0])


def test_overlap_is_what_the_description_makes_it() -> None:
    seen = profile_log(agents(), Question(engines=ENGINES))
    total = sum(request.input_tokens for request in SHARED.requests)
    assert seen.prefix_overlap == pytest.approx((60 - 3) * 300 / total)
    assert sum(edge.tokens_saved for edge in seen.shared_prefixes) == (60 - 3) * 300
    assert seen.hit_rate_curve[-1].hit_rate == pytest.approx(seen.prefix_overlap)
    assert seen.engines["coarse"].ideal is not None
    assert seen.engines["coarse"].ideal.value == pytest.approx((60 - 3) * 256 / total)


def test_capacities_are_those_that_were_asked_for() -> None:
    seen = profile_log(agents(), Question(kv_tokens=(5000, 600, 900), block_tokens=16, engines=ENGINES))
    assert [point.kv_tokens for point in seen.hit_rate_curve] == [5000, 600, 900]
    assert seen.curve_block_tokens == 16
    assert {row.kv_tokens for row in seen.replicas} == {900}  # the middle one
    assert {row.n for row in seen.replicas} == {2, 4, 8}


def test_the_fleets_of_a_plan_are_looked_at_unless_something_else_was_asked_for() -> None:
    fleets = (Fleet(replicas=3, kv_tokens=700), Fleet(replicas=1, kv_tokens=2000))
    seen = profile_log(agents(), Question(fleets=fleets))
    assert seen.timeline is not None
    assert {(row.n, row.kv_tokens) for row in seen.replicas} == {(3, 700), (1, 2000)}
    assert seen.timeline.kv_tokens == 2000
    asked = profile_log(agents(), Question(fleets=fleets, replicas=(5,)))
    assert {row.n for row in asked.replicas} == {5}


def test_a_block_coarser_than_an_engines_gives_a_range_and_no_value() -> None:
    seen = profile_log(blocks((1000, [1, 2]), (1024, [1, 3]), (512, [1])), Question(engines=ENGINES))
    point = seen.engines["fine"].hit_rate_curve[-1]
    assert point.hit_rate is None
    assert point.low is not None
    assert point.high is not None
    assert point.low < point.high
    assert seen.prefix_overlap == pytest.approx(1024 / 2536)
    assert "overlap_in_blocks" in {caveat.code for caveat in seen.caveats}


def test_a_log_that_says_nothing_of_content_has_unknowns_and_no_zeros() -> None:
    traffic = read_traffic(b"arrival_s,input_tokens,output_tokens\n0,10,1\n5,20,2\n", where="x")
    seen = profile_log(traffic, Question(kv_tokens=(100,), engines=ENGINES))
    assert (seen.prefix_overlap, seen.prefix_overlap_blocks) == (None, None)
    assert (seen.shared_prefixes, seen.breakers, seen.breakers_looked_for, seen.timeline) == ((), (), False, None)
    assert {(row.hit_rate, row.low, row.high) for row in seen.replicas} == {(None, None, None)}
    assert {row.kv_tokens for row in seen.replicas} == {100}
    assert [point.hit_rate for point in seen.hit_rate_curve] == [None]
    assert [point.hit_rate for point in seen.engines["fine"].hit_rate_curve] == [None]
    assert "content_unknown" in {caveat.code for caveat in seen.caveats}


def test_one_request_has_no_rate_and_nothing_before_it() -> None:
    seen = profile_log(blocks((512, [1])), Question(engines=ENGINES))
    assert (seen.requests, seen.duration_s, seen.arrivals.rps) == (1, 0.0, None)
    assert seen.prefix_overlap == 0.0
    assert all(point.hit_rate == 0.0 for point in seen.hit_rate_curve)


def test_nothing_shared_still_has_a_curve_and_it_is_flat() -> None:
    seen = profile_log(blocks(*((512, [n]) for n in range(9))), Question())
    assert seen.hit_rate_curve
    assert {point.hit_rate for point in seen.hit_rate_curve} == {0.0}


def test_adapters_share_no_cache_and_the_overlap_within_each_is_said() -> None:
    row = '{"arrival_s":%d,"input_tokens":100,"output_tokens":1,"segments":[["a",100]],"adapter":"%s"}'
    rows = ['{"unmoor_traffic":1,"overlap_block_tokens":1}', *(row % (n, name) for n, name in enumerate("xyxy"))]
    seen = profile_log(read_traffic("\n".join(rows).encode(), where="x"), Question(kv_tokens=(1000,), engines=ENGINES))
    assert seen.prefix_overlap == 0.75
    assert seen.overlap_within == {"adapter": 0.5}
    assert seen.hit_rate_curve[0].hit_rate == pytest.approx(0.5)
    assert seen.engines["fine"].hit_rate_curve[0].hit_rate == pytest.approx(0.495)
    assert [(edge.requests, edge.tokens_saved) for edge in seen.shared_prefixes] == [(4, 200)]


def test_concurrency_is_compared_under_the_rule_that_it_was_simulated_by() -> None:
    log = blocks(*[(500, [1])] * 20)  # a second apart: nothing runs at the same time but what decodes
    for asked, served in ((512, 0.0), (None, 0.95), (16, 0.95)):  # finer than the log's blocks is simulated in those
        timeline = profile_log(log, Question(kv_tokens=(5000,), block_tokens=asked)).timeline
        assert timeline is not None
        assert timeline.one_after_another == pytest.approx(served)
        assert timeline.hit_rate == pytest.approx(served)


def test_a_fingerprint_is_read_by_the_rule_of_the_blocks_it_was_cut_into() -> None:
    def alike(log: Traffic, asked: int | None, size: int) -> bool:
        again = read_traffic(b"".join(write(log, key=bytes(32), block_tokens=size)), where="fingerprint")
        whole, cut = profile_log(log, Question(block_tokens=asked)), profile_log(again, Question())
        curves = [dense_curves(log, Question(block_tokens=asked), whole), dense_curves(again, Question(), cut)]
        return (whole.hit_rate_curve, whole.replicas, whole.timeline, curves[0]) == (
            (cut.hit_rate_curve, cut.replicas, cut.timeline, curves[1])
        )

    trace = blocks(*[(700, [1, 2])] * 5, (500, [1]))
    assert alike(agents(), 64, 64)
    assert alike(trace, None, 512)
    assert not alike(trace, 512, 512)  # an engine serves no half block
    assert alike(trace, 1024, 1024)


@given(st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 3)), min_size=1, max_size=12))
def test_a_grid_is_round_rises_and_ends_where_all_is_served(rows: list[tuple[int, int]]) -> None:
    traffic = blocks(*((size, [group, *range(100, 100 + -(-size // 512) - 1)]) for size, group in rows))
    curve = curve_of(traffic)
    sizes = grid(curve)
    assert curve is not None
    assert list(sizes) == sorted(set(sizes))
    assert all(str(size).rstrip("0") in {"1", "2", "5"} for size in sizes)
    assert curve.at(sizes[-1]).low == curve.ideal.low


@pytest.mark.parametrize("answer", [1, 300, 2000])
@pytest.mark.parametrize("block_tokens", [None, 16, 700])
def test_every_request_fits_at_the_capacity_that_is_looked_at_by_default(answer: int, block_tokens: int | None) -> None:
    lines = (
        f'{{"timestamp": {1000 * n}, "input_length": 512, "output_length": {answer}, "hash_ids": [1]}}'
        for n in range(30)
    )
    traffic = read_traffic("\n".join(lines).encode(), where="alike")
    report = profile_log(traffic, Question(block_tokens=block_tokens))
    assert report.timeline is not None
    assert report.timeline.too_large == 0
    assert report.timeline.kv_tokens in [point.kv_tokens for point in report.hit_rate_curve]
    assert {row.kv_tokens for row in report.replicas} == {report.timeline.kv_tokens}
    assert (block_tokens == 700) == (report.timeline.hit_rate == 0)  # 700 fills no block


@pytest.mark.parametrize("block_tokens", [2**31, 10**15])
def test_blocks_beyond_every_prompt_serve_nothing(block_tokens: int) -> None:
    report = profile_log(agents(), Question(block_tokens=block_tokens, engines=ENGINES))
    assert {point.hit_rate for point in report.hit_rate_curve} == {0.0}
    assert report.curve_block_tokens == block_tokens


def test_curves_to_draw_span_the_capacities_and_agree_with_them() -> None:
    traffic, question = agents(), Question(engines=ENGINES)
    report = profile_log(traffic, question)
    curves = dense_curves(traffic, question, report)
    assert set(curves) == {"", "fine", "coarse"}
    assert curves[""][-1].hit_rate == report.hit_rate_curve[-1].hit_rate
    assert curves["coarse"][0].kv_tokens == report.hit_rate_curve[0].kv_tokens
    assert dense_curves(traffic, Question(kv_tokens=(5,)), profile_log(traffic, Question(kv_tokens=(5,)))) == {}


@pytest.mark.trace
def test_the_real_mooncake_trace_has_its_known_answers(mooncake_trace: Path) -> None:
    traffic = read_traffic(mooncake_trace.read_bytes(), where="mooncake")
    asked = (500_000, 1_300_000, 3_000_000, 10_000_000, 30_000_000)
    seen = profile_log(traffic, Question(kv_tokens=asked, replicas=(2,)))
    assert seen.prefix_overlap == pytest.approx(0.374, abs=0.0005)
    assert seen.prefix_overlap_blocks == pytest.approx(0.366, abs=0.0005)
    rates = [point.hit_rate for point in seen.hit_rate_curve]
    assert rates == pytest.approx([0.045, 0.061, 0.139, 0.291, 0.366], abs=0.0005)


def service_said(traffic: Traffic, question: Question) -> dict[str, str]:
    return {c.code: c.text for c in profile_log(traffic, question).caveats if c.code.startswith("service_")}


def test_which_speeds_of_a_replica_were_given_and_which_assumed_is_said() -> None:
    (assumed,) = service_said(agents(), Question()).items()
    assert assumed[0] == "service_assumed"
    assert "8,000 tokens/s a replica (assumed), and answers at 25 ms a token (assumed)" in assumed[1]
    (half,) = service_said(agents(), Question(tpot_s=0.04)).items()
    assert half[0] == "service_assumed"
    assert "8,000 tokens/s a replica (assumed), and answers at 40 ms a token (given)" in half[1]
    (given,) = service_said(agents(), Question(prefill_tps=50_000, tpot_s=0.04)).items()
    assert given[0] == "service_given"
    assert "assumed" not in given[1]


def test_no_speed_is_spoken_of_where_none_bears_on_a_figure() -> None:
    untimed = read_traffic(b"input_tokens,output_tokens\n10,1\n", where="x")
    assert service_said(untimed, Question()) == {}


def test_a_slower_replica_is_still_computing_more_and_runs_more_at_a_time() -> None:
    fast, slow = (profile_log(agents(), Question(prefill_tps=tps, tpot_s=0.001)).timeline for tps in (1e6, 300.0))
    assert fast is not None
    assert slow is not None
    assert (fast.prefill_tps, slow.tpot_s) == (1e6, 0.001)
    assert fast.still_computing is not None
    assert slow.still_computing is not None
    assert fast.still_computing < slow.still_computing
    assert fast.mean_running is not None
    assert slow.mean_running is not None
    assert fast.mean_running < slow.mean_running
