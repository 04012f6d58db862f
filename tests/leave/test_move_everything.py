"""Every ordered pair of the four engines, through the command line, on a log with everything and on a clean one."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from unmoor.engines.surface.load import surface
from unmoor.leave.check import check_move
from unmoor.leave.checks.registry import kinds
from unmoor.leave.finding import MoveReport
from unmoor.leave.gather import Brought, case_of
from unmoor.leave.reading.read import read_uses
from unmoor.leave.uses import ABSENT, Rows, Uses
from unmoor.traffic.readers import read_traffic

FOLDER = Path(__file__).parents[2] / "examples" / "move"
EVERYTHING, CLEAN = FOLDER / "requests.jsonl.gz", FOLDER / "clean.jsonl.gz"
ENGINES = ("vllm", "sglang", "tensorrt-llm", "llama-cpp")
PAIRS = list(itertools.permutations(ENGINES, 2))
LOST, REFUSED = 3, 2


def run(*args: str | Path, traffic: str | None = None) -> subprocess.CompletedProcess[str]:
    """`unmoor move check` as a user runs it, on a machine where nothing is installed."""
    argv = [sys.executable, "-m", "unmoor.cli", "move", "check", *map(str, args)]
    home = {**os.environ, "UNMOOR_HOME": str(FOLDER / "nothing-is-here")}
    return subprocess.run(argv, input=traffic or "", capture_output=True, text=True, check=False, env=home)


@cache
def uses_of(log: Path) -> Uses:
    where = str(log)
    return read_uses(lambda cutter, watch: read_traffic(log.read_bytes(), where=where, cutter=cutter, watch=watch))[0]


@cache
def features_of(log: Path) -> Mapping[str, frozenset[int]]:
    """Every feature of the log, with the lines that have it, or leave it out where that matters."""
    by_feature: dict[str, list[Rows]] = {}
    for use, rows in uses_of(log).by_use.items():
        by_feature.setdefault(use.feature, []).append(rows)
    return {name: frozenset(Rows.union(rows)) for name, rows in by_feature.items()}


def having(log: Path) -> Mapping[str, int]:
    """How many requests have each feature: those that leave it out do not count."""
    by_feature: dict[str, list[Rows]] = {}
    for use, rows in uses_of(log).by_use.items():
        by_feature.setdefault(use.feature, []).extend([rows] if use.value != ABSENT else [])
    return {name: len(Rows.union(rows)) for name, rows in by_feature.items()}


def checked(source: str, target: str, log: Path) -> MoveReport:
    said: list[str] = []
    return check_move(case_of(surface(source), surface(target), uses_of(log), Brought(), say=said.append))


def constraints_of(log: Path) -> set[str]:
    return {f"schema {key}" for key in uses_of(log).constraints}


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_feature_of_the_log_that_uses_everything_is_classed(source: str, target: str) -> None:
    done = run("--from", source, "--to", target, "--traffic", EVERYTHING, "--json")
    report = json.loads(done.stdout)
    assert done.returncode == (LOST if any(one["outcome"] == "lost" for one in report["findings"]) else 0)
    assert (report["requests"], report["bodies"]) == (uses_of(EVERYTHING).requests, uses_of(EVERYTHING).requests)
    used = features_of(EVERYTHING)
    classed = {one["name"]: one for one in report["features"]}
    assert len(classed) == len(report["features"])
    assert set(used) | constraints_of(EVERYTHING) <= set(classed)
    for name, one in classed.items():
        told = [finding for finding in report["findings"] if name in finding["features"]]
        assert name in used or told or name in constraints_of(EVERYTHING), name
        assert one["kinds"] == list(dict.fromkeys(finding["kind"] for finding in told))
        outcomes = {"same", *(finding["outcome"] for finding in told)}
        if one["outcome"] == "unknown":
            assert any("is not known" in why or "enforces any unless" in why for why in report["not_looked_at"])
            outcomes.add("unknown")
        order = ("lost", "unknown", "translated", "same")
        assert one["outcome"] == next(worst for worst in order if worst in outcomes)
        if name in used:
            assert one["requests"] == having(EVERYTHING)[name]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_lines_of_a_finding_are_requests_that_have_its_feature(source: str, target: str) -> None:
    used = features_of(EVERYTHING)
    lost = translated = 0
    for finding in checked(source, target, EVERYTHING).findings:
        lost += finding.outcome == "lost"
        translated += finding.outcome == "translated"
        assert finding.kind in kinds()
        assert finding.seen
        assert finding.fix
        assert len(finding.lines) == finding.requests
        about = [used[name] for name in finding.features if name in used]
        if about:
            having = frozenset.union(*about)
            pairs = [having, *(having | frozenset(rows) for rows in uses_of(EVERYTHING).together.values())]
            assert any(set(finding.lines) <= rows for rows in pairs), finding
    assert lost > 0
    assert translated > 0


NOT_OF_THE_LOG = frozenset(
    (
        *("UM101", "UM113", "UM114", "UM115", "UM117", "UM132", "UM133", "UM134"),  # of the model and its adapters
        *("UM108", "UM135", "UM137", "UM154"),  # found by running an engine's libraries
        "UM142",  # of the start's options only that for priorities is lost, and UM102 tells of it
    )
)


def test_every_kind_that_a_log_a_start_and_dashboards_can_show_is_found_in_the_example() -> None:
    found: set[str] = set()
    for source, target in PAIRS:
        start = FOLDER / "start.sh" if source == "vllm" else None
        around = Brought(start=start, dashboards=(FOLDER / "dashboards",))
        case = case_of(surface(source), surface(target), uses_of(EVERYTHING), around, say=lambda _: None)
        found |= {one.kind for one in check_move(case).findings}
    assert set(kinds()) - found <= NOT_OF_THE_LOG


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_changes_where_the_engine_stays(engine: str) -> None:
    done = run("--from", engine, "--to", engine, "--traffic", EVERYTHING, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["findings"], report["lost_requests"]) == (0, [], 0)
    assert {one["outcome"] for one in report["features"]} == {"same"}
    assert {one["name"] for one in report["features"]} == set(features_of(EVERYTHING)) | constraints_of(EVERYTHING)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_nothing_is_lost_or_translated_of_the_clean_log(source: str, target: str) -> None:
    report = checked(source, target, CLEAN)
    unlike = [one for one in report.findings if one.outcome != "same"]
    refused = [surface(name).traits["unknown_model"].value == "refused" for name in (source, target)]
    if refused == [False, True]:  # then the name must be served, whatever else the log holds
        assert [(one.kind, one.outcome, one.fix) for one in unlike] == [
            ("UM131", "translated", "Serve this name (--served-model-name).")
        ]
    else:
        assert unlike == []
        assert report.translated_requests == 0
    assert report.lost_requests == 0
    assert {one.name for one in report.features if one.outcome == "same"} >= set(features_of(CLEAN))


def test_the_clean_log_ends_with_0_and_the_other_with_3() -> None:
    assert run("--from", "vllm", "--to", "llama-cpp", "--traffic", CLEAN).returncode == 0
    done = run("--from", "vllm", "--to", "llama-cpp", "--traffic", EVERYTHING)
    assert (done.returncode, done.stderr) == (LOST, "")


def test_no_prompt_answer_or_schema_of_the_log_is_shown() -> None:
    uses = uses_of(EVERYTHING)
    texts = [sample.text for sample in (*uses.templated, *uses.raw_outputs) if sample.text]
    assert len(texts) > 5
    done = run("--from", "sglang", "--to", "tensorrt-llm", "--traffic", EVERYTHING, "--json")
    assert [text for text in texts if text in done.stdout] == []
    for secret in ("You answer customers", "claims-de", "undeclared", "iban", "desk-7", "find_order", "refund"):
        assert secret not in done.stdout, secret


def test_the_example_is_what_its_script_makes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(FOLDER / "make.py"), str(tmp_path)], check=True)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    shipped = {path.relative_to(FOLDER): path.read_bytes() for path in FOLDER.rglob("*") if path.is_file()}
    shipped.pop(Path("make.py"))
    assert made.keys() == shipped.keys()
    assert [name for name, content in made.items() if content != shipped[name]] == []


# --- Public formats ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trace", ["mooncake_trace", "azure_trace"])
def test_of_lengths_alone_it_says_what_it_cannot_tell(trace: str, request: pytest.FixtureRequest) -> None:
    log: Path = request.getfixturevalue(trace)
    done = run("--from", "vllm", "--to", "llama-cpp", "--traffic", log, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["bodies"], report["findings"]) == (0, 0, [])
    assert report["requests"] > 1000
    told = [why for why in report["not_looked_at"] if f"{report['requests']:,} of {report['requests']:,}" in why]
    assert len(told) == 1
    assert "could be lost" in told[0]
    text = run("--from", "vllm", "--to", "llama-cpp", "--traffic", log).stdout
    assert "nothing could be classed" in text
    assert "0 features lost" not in text


def test_a_csv_of_lengths_is_told_like_a_trace(tmp_path: Path) -> None:
    out = io.StringIO()
    csv.writer(out).writerows([["arrival_s", "input_tokens", "output_tokens"], [0, 100, 10], [1, 200, 20]])
    log = tmp_path / "lengths.csv"
    log.write_text(out.getvalue())
    report = json.loads(run("--from", "vllm", "--to", "sglang", "--traffic", log, "--json").stdout)
    assert (report["requests"], report["bodies"], report["features"]) == (2, 0, [])


def test_conversations_without_settings_are_told_apart_from_requests(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "hello there"}, {"from": "gpt", "value": "well met"}]
    log = tmp_path / "sharegpt.json"
    log.write_text(json.dumps([{"id": "a", "conversations": turns}, {"id": "b", "conversations": turns * 2}]))
    done = run("--from", "vllm", "--to", "sglang", "--traffic", log, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["bodies"], report["requests"]) == (0, 0, 3)
    assert any("3 of 3 requests" in why for why in report["not_looked_at"])


LITELLM: Mapping[str, Any] = {
    "id": "1",
    "call_type": "acompletion",
    "startTime": 1796029200.25,
    "endTime": 1796029202.5,
    "model": "llama-3.1-70b",
    "messages": [{"role": "user", "content": "hello there"}],
    "model_parameters": {"temperature": 0.2, "max_tokens": 50, "top_k": -1, "guided_json": {"type": "object"}},
    "response": {"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]},
    "prompt_tokens": 10,
    "completion_tokens": 2,
    "status": "success",
}


def test_a_gateways_own_payload_end_to_end(tmp_path: Path) -> None:
    log = tmp_path / "litellm.jsonl"
    log.write_text("".join(json.dumps({**LITELLM, "id": str(number)}) + "\n" for number in range(5)))
    done = run("--from", "vllm", "--to", "tensorrt-llm", "--traffic", log, "--json")
    report = json.loads(done.stdout)
    assert (report["format"], report["requests"], report["bodies"]) == ("openai", 5, 5)
    classed = {one["name"]: (one["outcome"], one["requests"]) for one in report["features"]}
    assert classed["chat.guided_json"] == ("translated", 5)  # ignored today, refused there
    assert classed["chat.top_k"] == ("translated", 5)
    assert classed["chat.temperature"] == ("same", 5)


# --- Bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "where", "hint"),
    [
        (("--from", "vlm", "--to", "sglang"), "--from", "did you mean 'vllm'?"),
        (("--from", "vllm", "--to", "tensorrt"), "--to", "did you mean 'tensorrt-llm'?"),
        (("--from", "vllm@new", "--to", "sglang"), "--from", "known: 0.32.0"),
        (("--from", "vllm@0.99", "--to", "sglang", "--strict"), "--from", "without --strict the nearest is taken"),
    ],
)
def test_an_engine_or_version_that_is_not_known_is_one_clear_error(
    args: tuple[str, ...], where: str, hint: str
) -> None:
    done = run(*args, "--traffic", CLEAN)
    assert (done.returncode, done.stdout) == (REFUSED, "")
    assert done.stderr.startswith(f"error: {where}: ")
    assert f"hint: {hint}" in done.stderr


def test_an_unknown_version_without_strict_is_a_doubt() -> None:
    done = run("--from", "vllm@0.99", "--to", "vllm@0.33.0", "--traffic", CLEAN, "--json")
    assert [one["code"] for one in json.loads(done.stdout)["caveats"]].count("nearest_version") == 1


@pytest.mark.parametrize("text", ["", "\n\n", "no log at all\n", "{}\n", '{"model": "m"}\n'])
def test_an_empty_log_and_what_is_no_log_are_one_clear_error(text: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(text)
    done = run("--from", "vllm", "--to", "sglang", "--traffic", log)
    assert done.returncode == REFUSED
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert "hint:" in done.stderr


def test_nothing_to_check_a_missing_log_and_a_folder_for_sarif_are_refused(tmp_path: Path) -> None:
    both = ("--from", "vllm", "--to", "sglang")
    for args, words in (
        (both, "--traffic: nothing to check"),
        ((*both, "--traffic", tmp_path / "none.jsonl"), "none.jsonl"),
        ((*both, "--traffic", CLEAN, "--sarif", tmp_path), "--sarif"),
        ((*both, "--traffic", CLEAN, "--sarif", tmp_path / "no" / "out.sarif"), "--sarif"),
        ((*both, "--traffic", CLEAN, "--model", tmp_path / "none"), "none"),
        ((*both, "--traffic", CLEAN, "--format", "parquet"), "unknown format"),
    ):
        done = run(*args)
        assert (done.returncode, done.stdout) in {(REFUSED, ""), (1, "")}, args
        assert done.stderr.startswith("error: "), args
        assert words in done.stderr
        assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_log_may_come_through_a_pipe() -> None:
    line = json.dumps({"request": {"model": "m", "messages": [{"role": "user", "content": "hi"}], "top_k": -1}})
    done = run("--from", "vllm", "--to", "sglang", "--traffic", "-", "--json", traffic=line + "\n")
    assert json.loads(done.stdout)["requests"] == 1
