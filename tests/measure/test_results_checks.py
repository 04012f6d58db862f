"""Each doubt stands where the file shows it, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unmoor.core.slo import Slo
from unmoor.measure.results.check import RunReport, check_results
from unmoor.measure.results.finding import Basis, Finding, Severity
from unmoor.measure.results.formats import read_results

SAMPLES = Path(__file__).parent / "result_samples"
_TOKENS = 11


def clean(count: int = 400) -> dict[str, Any]:
    """A detailed file of the vLLM form with nothing to object: 10 requests/s, even, one gap a token, none failed."""
    rng = np.random.default_rng(7)
    ttfts = (0.05 + 0.01 * rng.random(count)).tolist()
    itls = [[0.01] * (_TOKENS - 1) for _ in range(count)]
    latencies = [ttft + 0.1 for ttft in ttfts]
    start = [1000.0 + place / 10 for place in range(count)]
    content: dict[str, Any] = {
        "date": "20261201-120000", "backend": "openai", "model_id": "m", "tokenizer_id": "t", "num_prompts": count,
        "request_rate": 10.0, "burstiness": 1e6, "max_concurrency": None, "completed": count, "failed": 0,
        "input_lens": [20] * count, "output_lens": [_TOKENS] * count, "ttfts": ttfts, "itls": itls,
        "latencies": latencies, "start_times": start, "queue_times": [1e-4] * count, "errors": [""] * count,
    }  # fmt: skip
    return summed(content)


def summed(content: dict[str, Any]) -> dict[str, Any]:
    """The same with its sums and statistics as the client makes them."""
    ok = [place for place, error in enumerate(content["errors"]) if not error]
    duration = content["start_times"][-1] - content["start_times"][0] + 0.2
    total = sum(content["output_lens"][place] for place in ok)
    content |= {"duration": duration, "request_throughput": len(ok) / duration, "output_throughput": total / duration}
    content |= {"completed": len(ok), "failed": content["num_prompts"] - len(ok), "total_output_tokens": total}
    columns = {
        "ttft": [content["ttfts"][place] for place in ok],
        "e2el": [content["latencies"][place] for place in ok],
        "tpot": [(content["latencies"][place] - content["ttfts"][place]) / (_TOKENS - 1) for place in ok],
    }
    for name, values in columns.items():
        content[f"mean_{name}_ms"] = float(np.mean(values)) * 1000
        content[f"median_{name}_ms"] = float(np.median(values)) * 1000
        content[f"p99_{name}_ms"] = float(np.quantile(values, 0.99)) * 1000
    return content


def report_of(folder: Path, content: dict[str, Any], slo: Slo | None = None) -> RunReport:
    path = folder / "result.json"
    path.write_text(json.dumps(content))
    return check_results(read_results(path), slo).runs[0]


def of_sample(name: str, slo: Slo | None = None) -> RunReport:
    return check_results(read_results(SAMPLES / name), slo).runs[0]


def shown(report: RunReport) -> dict[str, Finding]:
    """What the file itself shows, but for what is to know of any file."""
    return {one.code: one for one in report.findings if one.basis is Basis.FILE and one.severity is not Severity.NOTE}


def test_a_clean_file_has_no_doubt_of_its_own(tmp_path: Path) -> None:
    assert shown(report_of(tmp_path, clean())) == {}


def test_quantiles_are_bounded_or_said_not_to_be(tmp_path: Path) -> None:
    few = shown(report_of(tmp_path, clean(80)))["few_requests"]
    assert few.figures == ("ttft_s.p99", "tpot_s.p99", "e2e_s.p99")
    assert "a p99 takes 368" in few.evidence
    recomputed = report_of(tmp_path, clean()).recomputed
    assert recomputed is not None
    assert recomputed.ttft_s.p99 is not None
    assert recomputed.ttft_s.p99.high is not None


def test_failures_leave_the_latencies_and_stay_in_the_attainment(tmp_path: Path) -> None:
    content = clean()
    for place in range(0, 400, 10):
        content["errors"][place] = "Service Unavailable"
        content["ttfts"][place] = content["latencies"][place] = 0.0
        content["output_lens"][place] = 0
        content["itls"][place] = []
    report = report_of(tmp_path, summed(content), Slo(ttft_s=1.0))
    found = shown(report)
    assert "40 of 400 failed" in found["failures_left_out"].evidence
    assert "90.0%" in found["failures_left_out"].text
    assert any(one.code == "zero_for_failed" for one in report.findings)
    assert report.slo_attainment is not None
    assert report.slo_attainment.value == pytest.approx(0.9)
    assert "statistics_disagree" not in found


def test_a_first_token_time_of_zero_voids_it(tmp_path: Path) -> None:
    content = clean()
    content["ttfts"][7] = 0.0
    assert shown(report_of(tmp_path, summed(content)))["zero_ttft"].severity is Severity.VOID


@pytest.mark.parametrize(
    ("key", "factor", "code"),
    [
        ("request_throughput", 1.5, "throughput_disagrees"),
        ("output_throughput", 0.5, "throughput_disagrees"),
        ("total_output_tokens", 2, "totals_disagree"),
        ("mean_ttft_ms", 1.1, "statistics_disagree"),
        ("p99_e2el_ms", 0.9, "statistics_disagree"),
        ("completed", 0.5, "counts_disagree"),
        ("completed", 0.5, "requests_disagree"),
    ],
)
def test_arithmetic_that_does_not_agree_is_void(tmp_path: Path, key: str, factor: float, code: str) -> None:
    content = clean()
    content[key] = type(content[key])(content[key] * factor)
    assert shown(report_of(tmp_path, content))[code].severity is Severity.VOID


def test_several_tokens_a_chunk_make_itl_one_of_chunks(tmp_path: Path) -> None:
    content = clean()
    content["itls"] = [[0.02] * (_TOKENS // 2) for _ in content["itls"]]
    assert set(shown(report_of(tmp_path, content))) == {"tokens_share_chunks"}


def test_a_chunk_without_a_token_first_or_last(tmp_path: Path) -> None:
    content = clean()
    content["itls"] = [[0.03, *[0.007] * (_TOKENS - 1)] for _ in content["itls"]]
    assert set(shown(report_of(tmp_path, content))) == {"ttft_of_an_empty_chunk"}
    # A role with the first token, or a finish with the last, does not move the first token.
    content["itls"] = [[1e-5, *[0.01] * (_TOKENS - 1)] for _ in content["itls"]]
    assert set(shown(report_of(tmp_path, content))) == {"gaps_of_empty_chunks"}
    content["itls"] = [[0.028, *[0.008] * (_TOKENS - 2), 1e-5] for _ in content["itls"]]
    assert set(shown(report_of(tmp_path, content))) == {"gaps_of_empty_chunks"}


def test_ends_that_the_gaps_do_not_reach_or_go_beyond(tmp_path: Path) -> None:
    content = clean()
    content["itls"] = [[0.005] * (_TOKENS - 1) for _ in content["itls"]]
    assert set(shown(report_of(tmp_path, content))) == {"ends_after_last_token"}
    content["itls"] = [[0.02] * (_TOKENS - 1) for _ in content["itls"]]
    assert shown(report_of(tmp_path, content))["time_lines_disagree"].severity is Severity.VOID


def test_lengths_and_cached_prompts(tmp_path: Path) -> None:
    content = json.loads((SAMPLES / "sglang-details.jsonl").read_text())
    content["input_lens"] = [30] * 40
    content["cache_report"] = {"total_prompt_tokens": 800, "total_cached_tokens": 400}
    found = shown(report_of(tmp_path, content))
    assert "30.0 is their mean" in found["lengths_not_planned"].evidence
    assert "50.0%" in found["prefix_hits"].evidence


def test_a_run_that_was_stopped(tmp_path: Path) -> None:
    content = json.loads((SAMPLES / "aiperf.json").read_text()) | {"was_cancelled": True}
    assert "cut_short" in shown(report_of(tmp_path, content))


def test_a_rate_that_was_not_reached(tmp_path: Path) -> None:
    content = clean() | {"request_rate": 20.0}
    found = shown(report_of(tmp_path, content))["rate_missed"]
    assert found.severity is Severity.VOID
    assert "20 requests/s asked for, 10 sent" in found.evidence
    # Poisson arrivals differ that far by chance in a short run.
    chance = clean(40) | {"request_rate": 12.0, "burstiness": 1.0}
    assert "rate_missed" not in shown(report_of(tmp_path, chance))


def test_a_cap_that_hid_a_queue_and_one_that_was_not_reached(tmp_path: Path) -> None:
    content = clean() | {"max_concurrency": 64}
    assert shown(report_of(tmp_path, content))["capped_rate"].severity is Severity.OTHERWISE
    content["queue_times"] = [0.5] * 400
    assert shown(report_of(tmp_path, content))["queue_hidden"].severity is Severity.VOID
    assert "closed_loop" in shown(report_of(tmp_path, clean() | {"max_concurrency": 64, "request_rate": "inf"}))


def test_a_late_client_a_cold_start_a_growing_queue_and_a_short_run(tmp_path: Path) -> None:
    late = clean()
    late["queue_times"] = [0.02] * 400
    assert set(shown(report_of(tmp_path, late))) == {"sent_late"}
    cold = clean()
    for place, ttft in ((0, 3.0), (1, 1.0)):
        cold["ttfts"][place], cold["latencies"][place] = ttft, ttft + 0.1
    assert "2 requests" in shown(report_of(tmp_path, summed(cold)))["warm_up_included"].evidence
    queue = clean()
    queue["ttfts"] = [0.05 + place / 1000 for place in range(400)]
    queue["latencies"] = [ttft + 0.1 for ttft in queue["ttfts"]]
    assert "unsteady" in shown(report_of(tmp_path, summed(queue)))
    short = clean(20)
    short["latencies"][3] += 1.5
    assert "short_run" in shown(report_of(tmp_path, summed(short)))


def test_a_mean_far_from_the_median(tmp_path: Path) -> None:
    content = clean()
    for place in range(150, 400, 4):
        content["ttfts"][place] += 1.0
        content["latencies"][place] += 1.0
    assert "mean_far_from_median" in shown(report_of(tmp_path, summed(content)))


def test_impossible_times(tmp_path: Path) -> None:
    content = clean()
    content["latencies"][5] = -1.0
    content["ttfts"][9] = content["latencies"][9] + 1
    codes = [one.evidence for one in report_of(tmp_path, content).findings if one.code == "impossible_times"]
    assert len(codes) == 2


def test_goodput_without_its_slo(tmp_path: Path) -> None:
    report = report_of(tmp_path, clean() | {"request_goodput": 3.0})
    assert "slo_not_told" in shown(report)
    assert "no_goodput" not in {one.code for one in report.findings}


def test_nothing_answered(tmp_path: Path) -> None:
    content = clean()
    content["errors"] = ["x"] * 400
    content |= {"completed": 0, "failed": 400, "mean_ttft_ms": 0.0, "request_throughput": 0.0}
    content |= {"total_output_tokens": 0, "output_throughput": 0.0}
    assert "none_completed" in shown(report_of(tmp_path, content))


def test_a_role_event_taken_for_the_first_token_is_seen_in_a_real_file() -> None:
    report = of_sample("vllm-detailed.json", Slo(ttft_s=0.05))
    found = shown(report)["ttft_of_an_empty_chunk"]
    assert found.severity is Severity.VOID
    assert "35 of 35" in found.evidence
    assert report.slo_attainment is None  # of a figure that is void nothing is said


def test_the_queue_that_a_real_file_hides() -> None:
    report = of_sample("vllm-plain.json", Slo(ttft_s=0.05))
    assert shown(report)["queue_hidden"].severity is Severity.VOID
    assert report.slo_attainment is None  # no TTFT of single requests


def test_tokens_that_were_asked_for_stand_for_those_that_came() -> None:
    found = shown(of_sample("sglang-details.jsonl"))["tokens_assumed"]
    assert "560" in found.evidence
    assert "340" in found.evidence
    plain = shown(of_sample("sglang-plain.jsonl"))
    assert plain["tokens_disagree"].severity is Severity.OTHERWISE
    assert "failures_not_told" in plain


@pytest.mark.parametrize("name", ["guidellm.json", "aiperf.json", "aiperf-records.jsonl", "unmoor-records.jsonl"])
def test_real_files_that_agree_with_themselves_are_not_void(name: str) -> None:
    found = shown(of_sample(name))
    assert [one.code for one in found.values() if one.severity is Severity.VOID] == []
    assert "failures_left_out" in found


def test_an_answer_whose_tokens_nobody_counted() -> None:
    assert "1 of 27" in shown(of_sample("aiperf-records.jsonl"))["answers_without_tokens"].evidence


def test_interactivity_is_the_inverse_of_tpot(tmp_path: Path) -> None:
    report = of_sample("inferencex.json")
    assert {"interactivity_inverted", "closed_loop", "failures_not_told", "sample_not_told"} <= set(shown(report))
    content = json.loads((SAMPLES / "inferencex.json").read_text())
    content["p99_intvty"] *= 2
    assert shown(report_of(tmp_path, content))["interactivity_disagrees"].severity is Severity.VOID


def test_our_own_doubts_are_carried_once() -> None:
    codes = [one.code for one in of_sample("unmoor-load.json").findings]
    assert codes.count("few_requests") == 1
    assert "headroom_unknown" in codes


def test_what_is_known_of_a_tool_carries_source_and_date() -> None:
    known = [
        one for name in SAMPLES.glob("*.json*") for one in of_sample(name.name).findings if one.basis is Basis.TOOL
    ]
    assert known
    assert all(one.source and one.as_of == "2026-12-01" for one in known)
