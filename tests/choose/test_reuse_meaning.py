from __future__ import annotations

import json
from pathlib import Path

import pytest

from unmoor.choose.prediction.kernel_tables import NoTable, StepTable, find_table
from unmoor.choose.reuse_meaning import engine_blocks, meaning_of, plan_fleets, with_meaning
from unmoor.core.plan import Plan, SyntheticTraffic
from unmoor.core.plan_text import read_plan
from unmoor.traffic.breakers.watch import Looked, Watch
from unmoor.traffic.log import Traffic
from unmoor.traffic.profile.profile_log import profile_log
from unmoor.traffic.profile.question import Question
from unmoor.traffic.profile.report import Meaning, TrafficReport
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.reuse.curve import HitRate
from unmoor.traffic.synthesis import synthesise, to_jsonl
from unmoor.traffic.text.pieces import BytesCutter

ROOT = Path(__file__).parent.parent.parent


def rate(low: float, high: float | None = None) -> HitRate:
    return HitRate(value=low if high is None else None, low=low, high=low if high is None else high)


def meaning(*by_layout: dict[str, HitRate], margin: float = 0.05) -> Meaning:
    return meaning_of((), by_layout, plan="p", margin=margin, requests=9)


def agents() -> tuple[Plan, Traffic, TrafficReport]:
    path = ROOT / "examples" / "agents" / "plan.toml"
    plan = read_plan(path.read_text(), where="plan.toml")
    traffic = read_traffic((path.parent / "traffic.jsonl").read_bytes(), where="traffic.jsonl")
    question = Question(engines=engine_blocks([c.engine for c in plan.candidates]), replicas=(2,))
    return plan, traffic, profile_log(traffic, question)


def dated(count: int, *, window_bytes: int = 2**25) -> tuple[Traffic, Looked]:
    """A log whose every prompt begins with another minute, and what is found in its text."""
    shared = "You answer questions on orders, politely, in one sentence. " * 40
    rows = (
        {
            "timestamp": n,
            "model": "m",
            "messages": [
                {"role": "system", "content": f"It is 2026-11-30 {n // 60:02d}:{n % 60:02d} now. {shared}"},
                {"role": "user", "content": f"question {n * 7919 % 1000}"},
            ],
        }
        for n in range(count)
    )
    watch, cutter = Watch(window_bytes), BytesCutter(b"key")
    traffic = read_traffic("\n".join(map(json.dumps, rows)).encode(), where="x", cutter=cutter, watch=watch)
    assert traffic.grain is not None
    assert traffic.grain.bytes_per_token is not None
    return traffic, watch.look(cutter, bytes_per_token=traffic.grain.bytes_per_token)


def test_mended_prompts_are_asked_the_same_at_the_plans_capacities() -> None:
    plan, _, _ = agents()
    traffic, looked = dated(60)
    report = profile_log(traffic, Question(engines=engine_blocks(["vllm", "sglang"]), replicas=(2,)))
    seen = with_meaning(report, traffic, plan, mended=looked.mended).meaning
    assert seen is not None
    assert seen.mended is not None
    assert [(row.engine, row.layout, row.kv_tokens) for row in seen.mended.expected] == [
        (row.engine, row.layout, row.kv_tokens) for row in seen.expected
    ]
    for row, mended in zip(seen.expected, seen.mended.expected, strict=True):
        if row.hit_rate is None:
            assert (mended.hit_rate, mended.hit_rate_unmended) == (None, None)
            continue
        assert mended.hit_rate is not None
        assert mended.hit_rate_unmended is not None
        # The window holds the whole log: what is said of it unmended is what is said of the log.
        assert mended.hit_rate_unmended == row.hit_rate
        assert row.hit_rate.high < 0.1
        # All but the first prompt of each replica, of which the date, the question and their partial blocks are new.
        assert mended.hit_rate.low > 0.9 * (60 - mended.replicas) / 60
    assert (seen.requests, seen.mended.requests, seen.mended.mended) == (60, 60, None)
    assert seen.mended.sentence.startswith("With all that breaks sharing mended, prefix reuse alone ")


def test_mended_prompts_of_a_long_logs_beginning_say_how_many_they_are() -> None:
    traffic, looked = dated(60, window_bytes=100_000)
    assert looked.mended is not None
    seen = with_meaning(
        profile_log(traffic, Question(engines=engine_blocks(), replicas=(2,))), traffic, None, mended=looked.mended
    ).meaning
    assert seen is not None
    assert seen.mended is not None
    assert seen.mended.requests == len(looked.mended) < 60 == seen.requests
    assert f"in the first {len(looked.mended)} requests" in seen.mended.sentence
    assert seen.mended.differ_at_most is not None


def test_nothing_found_means_nothing_mended() -> None:
    plan, traffic, report = agents()
    seen = with_meaning(report, traffic, plan).meaning
    assert seen is not None
    assert seen.mended is None


def no_table(*_asked: object) -> StepTable | NoTable:
    return NoTable(code="no_kernel_table", text="nobody measured it")


def test_block_sizes_are_those_of_the_engines_own_files() -> None:
    blocks = {name: one.block_tokens for name, one in engine_blocks().items()}
    assert {"vllm": 16, "sglang": 1, "tensorrt-llm": 32}.items() <= blocks.items()
    assert list(engine_blocks(["sglang"])) == ["sglang"]


def test_engines_differ_by_what_is_left_to_compute_and_not_by_their_rates() -> None:
    seen = meaning({"a": rate(0.9), "b": rate(0.89)})
    assert seen.differ_at_most == pytest.approx(0.1)  # 11 % against 10 %
    assert seen.could_move_choice is True
    assert seen.sentence == (
        "Prefix reuse alone could move the choice: the engines differ by 10.0% in the prompt tokens left to compute, "
        "against a margin of 5%."
    )


def test_a_difference_within_the_margin_cannot_move_the_choice() -> None:
    seen = meaning({"a": rate(0.5), "b": rate(0.49)}, {"a": rate(0.2), "b": rate(0.21)})
    assert seen.differ_at_most == pytest.approx(0.02)
    assert seen.could_move_choice is False
    assert "cannot move the choice: the engines differ by at most 2.0%" in seen.sentence


def test_bounds_are_compared_under_one_reading_of_the_log_at_a_time() -> None:
    seen = meaning({"a": rate(0.50, 0.60), "b": rate(0.50, 0.57)})
    assert seen.differ_at_least == 0
    assert seen.differ_at_most == pytest.approx(0.43 / 0.40 - 1)
    assert seen.could_move_choice is None
    assert "may or may not" in seen.sentence


def test_engines_are_compared_within_a_layout_only() -> None:
    seen = meaning({"a": rate(0.9)}, {"b": rate(0.1)})
    assert (seen.differ_at_least, seen.differ_at_most, seen.could_move_choice) == (None, None, None)
    assert "not known" in seen.sentence


def test_a_plans_layouts_have_a_rate_at_each_engines_own_capacity() -> None:
    plan, traffic, report = agents()
    seen = with_meaning(report, traffic, plan, tables=find_table).meaning
    assert seen is not None
    by = {(row.engine, row.layout): row for row in seen.expected}
    assert {row.engine for row in seen.expected} == {"vllm", "sglang", "tensorrt-llm"}
    row = by["vllm", "2 × TP4"]
    assert row.kv_tokens is not None
    assert row.hit_rate is not None
    assert row.hit_rate_one_pool is not None
    assert row.hit_rate.value == pytest.approx(0.79, abs=0.01)
    assert row.hit_rate.low <= row.hit_rate_one_pool.low
    assert by["vllm", "8 × TP1"].kv_tokens is None
    assert "no room" in by["vllm", "8 × TP1"].reason
    assert (seen.plan, seen.margin, seen.could_move_choice) == ("agents", 0.05, False)


def test_a_capacity_that_nobody_knows_is_none_with_its_reason() -> None:
    plan, traffic, report = agents()
    made = with_meaning(report, traffic, plan, tables=no_table)
    assert made.meaning is not None
    assert {row.hit_rate for row in made.meaning.expected} == {None}
    assert made.meaning.could_move_choice is None
    assert "kv_capacity_unknown" in {caveat.code for caveat in made.caveats}
    assert plan_fleets(plan, no_table) == ()


def test_without_a_plan_the_engines_meet_at_the_same_capacities() -> None:
    _, traffic, report = agents()
    seen = with_meaning(report, traffic, None).meaning
    assert seen is not None
    assert (seen.plan, seen.expected, seen.could_move_choice) == (None, (), False)


def test_nothing_is_said_where_nothing_is_known_of_content() -> None:
    plan, _, _ = agents()
    traffic = read_traffic(b"input_tokens,output_tokens\n10,1\n", where="x")
    report = profile_log(traffic, Question(kv_tokens=(100,)))
    assert with_meaning(report, traffic, plan) is report


def test_fleets_are_the_layouts_that_fit_with_the_capacity_of_each() -> None:
    plan, _, _ = agents()
    fleets = plan_fleets(plan, find_table)
    assert [fleet.replicas for fleet in fleets] == [4, 2, 1]
    assert [fleet.kv_tokens for fleet in fleets] == sorted(fleet.kv_tokens for fleet in fleets)


def test_an_engine_that_does_not_reuse_prefixes_under_the_plan_serves_none() -> None:
    text = (ROOT / "examples" / "agents" / "plan.toml").read_text()
    plan = read_plan(
        text.replace('version = "0.33.0"', 'version = "0.33.0"\n\n[candidates.settings]\nprefix_caching = false', 1),
        where="plan.toml",
    )
    workload = synthesise(
        SyntheticTraffic(requests=20, rate_rps=2, input_tokens=400, output_tokens=9, shared_prefix_tokens=300)
    )
    traffic = read_traffic(to_jsonl(workload), where="x")
    made = with_meaning(profile_log(traffic, Question(replicas=(2,))), traffic, plan, tables=find_table)
    assert made.meaning is not None
    assert {row.hit_rate.low for row in made.meaning.expected if row.engine == "vllm" and row.hit_rate} == {0.0}
    assert made.meaning.could_move_choice is True
