"""Files that real clients wrote are told apart and read as one noun; a broken one is one clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unmoor.core.errors import UsageError
from unmoor.core.record import Outcome, e2e_s, scheduled_ttft_s, ttft_s
from unmoor.measure.results.check import check_results
from unmoor.measure.results.formats import FORMATS, read_results
from unmoor.measure.results.run import records

SAMPLES = Path(__file__).parent / "result_samples"
WRITTEN = {
    "vllm-detailed.json": ("vllm-bench", None, 40, 35, 5),
    "vllm-plain.json": ("vllm-bench", None, 40, 35, 5),
    "sglang-details.jsonl": ("sglang-bench", None, 40, 35, 5),
    "sglang-plain.jsonl": ("sglang-bench", None, None, 35, None),
    "guidellm.json": ("guidellm", "0.8.1", 30, 26, 4),
    "aiperf.json": ("aiperf", "0.13.0", 30, 27, 3),
    "aiperf-records.jsonl": ("aiperf-records", None, 30, 27, 3),
    "inferencex.json": ("inferencex", None, None, None, None),
    "unmoor-records.jsonl": ("unmoor-records", None, 16, 13, 3),
    "unmoor-load.json": ("unmoor-load", None, 40, 33, 7),
}


def written(folder: Path, content: object) -> Path:
    path = folder / "result.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SAMPLES / name).read_text().splitlines()[0])
    return found


def test_every_sample_is_listed_and_every_format_has_one() -> None:
    assert {path.name for path in SAMPLES.iterdir()} == {*WRITTEN, "README.md"}
    assert {found[0] for found in WRITTEN.values()} == {one.name for one in FORMATS}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_real_file_is_told_and_read(name: str) -> None:
    format_name, version, requests, completed, failed = WRITTEN[name]
    file = read_results(SAMPLES / name)
    (run,) = file.runs
    assert (file.format, file.version) == (format_name, version)
    assert (run.load.requests, run.completed, run.failed) == (requests, completed, failed)
    named = read_results(SAMPLES / name, format_name)
    assert msgspec.json.encode(check_results(named)) == msgspec.json.encode(check_results(file))


@pytest.mark.parametrize(
    "name", ["vllm-detailed.json", "guidellm.json", "aiperf-records.jsonl", "unmoor-records.jsonl"]
)
def test_requests_become_records_whose_failed_ones_have_no_latency(name: str) -> None:
    (run,) = read_results(SAMPLES / name).runs
    found = list(records(run))
    assert [record.index for record in found] == list(range(len(run.requests)))
    assert sum(record.ok for record in found) == run.completed
    for record in found:
        if record.ok:
            assert 0 < (ttft_s(record) or 0) <= (e2e_s(record) or 0)
            assert (scheduled_ttft_s(record) or 0) >= (ttft_s(record) or 0)
            assert record.output_tokens in {None, 5, 10}  # fewer where an error in the stream was counted as an answer
        else:
            assert record.outcome is not Outcome.OK
            assert record.first_token_at_ns is None
            assert record.output_tokens is None


def test_our_own_records_come_back_as_they_were() -> None:
    path = SAMPLES / "unmoor-records.jsonl"
    (run,) = read_results(path).runs
    first = msgspec.json.decode(path.read_text().splitlines()[0])
    record = next(iter(records(run)))
    assert ttft_s(record) == pytest.approx((first["first_token_at_ns"] - first["sent_at_ns"]) / 1e9)
    gaps = [later - first["chunk_at_ns"][0] for later in first["chunk_at_ns"]]
    assert record.chunk_at_ns == tuple(record.chunk_at_ns[0] + gap for gap in gaps)


def test_no_answer_or_error_text_gets_out(tmp_path: Path) -> None:
    text = "the answer nobody may see"
    for name in ("vllm-detailed.json", "sglang-details.jsonl"):
        content = sample(name)
        content["generated_texts"] = [text] * 40
        content["errors"] = [error and text for error in content["errors"]]
        report = check_results(read_results(written(tmp_path, content)))
        assert text not in msgspec.json.encode(report).decode()


def test_several_runs_of_one_file_are_several(tmp_path: Path) -> None:
    line = json.dumps(sample("sglang-plain.jsonl"))
    runs = read_results(written(tmp_path, f"{line}\n{line}\n")).runs
    assert [run.place for run in runs] == ["line 1", "line 2"]
    codes = {
        finding.code for run in check_results(read_results(tmp_path / "result.json")).runs for finding in run.findings
    }
    assert "single_run" not in codes


def test_infinity_and_nan_as_python_writes_them(tmp_path: Path) -> None:
    content = sample("sglang-details.jsonl")
    content |= {"request_rate": float("inf"), "mean_ttft_ms": float("nan")}
    content["ttfts"][3] = float("nan")
    content["generated_texts"][0] = 'NaN, "Infinity", NaN'
    file = read_results(written(tmp_path, content))
    (run,) = file.runs
    assert run.load.all_at_once
    assert run.load.requested_rps is None
    assert run.stated["ttft_s"].mean is None
    assert run.requests[3].ttft_s is None
    assert file.not_numbers == 2
    codes = {finding.code for finding in check_results(file).runs[0].findings}
    assert {"not_numbers", "all_at_once"} <= codes


BROKEN = {
    "empty": ("", "an empty file"),
    "words": ("Successful requests: 40\n", "malformed"),
    "truncated": (json.dumps({"completed": 1})[:-3], "truncated"),
    "a list": ("[1, 2]", "JSON without keys"),
    "another tool's": ('{"results": [], "times": {}}', "results, times"),
    "deep": ("[" * 100_000, "recursion"),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_what_is_no_result_file_is_one_error(tmp_path: Path, content: tuple[str, str]) -> None:
    path = written(tmp_path, content[0])
    with pytest.raises(UsageError) as caught:
        read_results(path)
    assert str(path) in str(caught.value)
    assert content[1] in str(caught.value)
    assert "hint:" in str(caught.value)


def test_a_wrong_value_names_its_key(tmp_path: Path) -> None:
    wrong = {"completed": "many", "latencies": [1.0, "x"], "itls": [["x"]], "start_times": {"0": 1}}
    for key, value in wrong.items():
        content = sample("vllm-detailed.json")
        content[key] = [*value, *content[key][len(value) :]] if isinstance(value, list) else value
        with pytest.raises(UsageError, match=key):
            read_results(written(tmp_path, content))


def test_a_time_that_no_clock_shows_is_refused(tmp_path: Path) -> None:
    content = sample("vllm-detailed.json")
    content["latencies"][4] = 1e308
    with pytest.raises(UsageError, match=r"1e\+308 s, of request 4"):
        read_results(written(tmp_path, content))
    record = sample("unmoor-records.jsonl")
    record["chunk_at_ns"][0] = 2**63
    with pytest.raises(UsageError, match="a time that cannot be"):
        read_results(written(tmp_path, record))


def test_a_wrong_line_names_its_line(tmp_path: Path) -> None:
    lines = (SAMPLES / "aiperf-records.jsonl").read_text().splitlines()
    lines[6] = lines[6][:40]
    path = written(tmp_path, "\n".join(lines))
    with pytest.raises(UsageError, match=r"result\.json:7: the file ends in the middle"):
        read_results(path)


def test_lists_of_two_lengths_are_refused(tmp_path: Path) -> None:
    content = sample("vllm-detailed.json")
    content["ttfts"].pop()
    with pytest.raises(UsageError, match=r"ttfts 39"):
        read_results(written(tmp_path, content))


def test_a_format_that_is_not_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean guidellm"):
        read_results(written(tmp_path, "{}"), "guidelm")


def test_a_file_read_as_another_tools_is_an_error_or_says_that_it_has_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="metrics"):
        read_results(written(tmp_path, {"benchmarks": [{"name": "sort"}], "metadata": {}}))
    empty = check_results(read_results(tmp_path / "result.json", "vllm-bench"))
    assert empty.void
