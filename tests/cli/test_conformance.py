"""`unmoor conformance` as a user runs it, and our own client held to every case."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from unmoor.fake.conformance.cases import CASES, case_named
from unmoor.fake.conformance.clients import client_from_template, client_named
from unmoor.fake.conformance.judge import CaseResult, Standing
from unmoor.fake.conformance.play import Call, play

FAKE = Path(__file__).parents[1] / "fake"
NAIVE = f"{sys.executable} {FAKE / 'naive_client.py'} {{url}} {{requests}} {{tokens}} {{out}}"
NAIVE_READS = str(FAKE / "naive_client.toml")

# Each mistake of the naive client, by the cases that must find it.
CAUGHT = {
    "ttft_s": {"role-first", "empty-chunks", "slow-server", "no-tokens"},
    "failed": {"error-mid", "error-first", "finish-abort", "ends-early"},
    "output_tokens": {"no-usage"},
    "tpot_s": {"one-token"},
}
NOT_MISTAKEN = {"plain", "crlf", "usage-differs", "http-429"}


def conformance(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unmoor.cli", "conformance", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def played(codes: list[str], call: Call, *, at_once: int) -> dict[str, CaseResult]:
    """The results by code, so many cases at a time."""
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        return dict(zip(codes, pool.map(lambda code: play(case_named(code), call), codes), strict=True))


def test_our_own_client_is_right_in_every_case() -> None:
    call = Call(client=client_named("unmoor"))
    results = played([case.code for case in CASES], call, at_once=3)
    # One that was wrong in the crowd is played again alone: on a busy machine a mean may be too far off.
    wrong = [code for code, result in results.items() if result.standing is Standing.WRONG]
    results |= played(wrong, call, at_once=1)
    unlike = {code: result for code, result in results.items() if result.standing is not Standing.RIGHT}
    assert {code: result.standing for code, result in unlike.items()} == {"own-queue": Standing.NOT_PLAYED}, unlike


def test_ctrl_c_leaves_the_cases_that_were_played() -> None:
    command = [sys.executable, "-m", "unmoor.cli", "conformance", "--command", NAIVE, "--reads", NAIVE_READS, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(6)
    process.send_signal(signal.SIGINT)
    text, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert len(json.loads(text)["cases"]) < len(CASES)
    assert "stopped after" in told


def test_a_naive_client_is_caught_where_it_is_wrong_and_only_there() -> None:
    call = Call(client=client_from_template(NAIVE, NAIVE_READS))
    results = played(sorted(set.union(*CAUGHT.values(), NOT_MISTAKEN)), call, at_once=6)
    for figure, caught_by in CAUGHT.items():
        for code in caught_by:
            wrong = {check.figure for check in results[code].checks if check.standing is Standing.WRONG}
            assert figure in wrong, (code, results[code])
    assert {code: results[code].standing for code in NOT_MISTAKEN} == dict.fromkeys(NOT_MISTAKEN, Standing.RIGHT)


def test_a_wrong_client_exits_with_3_and_its_json_says_what_it_said_and_what_was_true() -> None:
    done = conformance("--command", NAIVE, "--reads", NAIVE_READS, "--only", "role-first", "--json")
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert found["counts"] == {"right": 0, "wrong": 1, "not_said": 0, "not_played": 0, "did_not_run": 0}
    assert set(found) == {"client", "counts", "cases"}
    assert set(found["cases"][0]) == {"case", "title", "expect", "standing", "checks", "why"}
    ttft = next(check for check in found["cases"][0]["checks"] if check["figure"] == "ttft_s")
    assert ttft["standing"] == "wrong"
    assert ttft["said"] < ttft["true"] - 0.3


def test_the_text_says_it_in_words() -> None:
    done = conformance("--command", NAIVE, "--reads", NAIVE_READS, "--only", "one-token", "--only", "plain")
    assert done.returncode == 3
    assert "1 case right, 1 case wrong" in done.stdout
    assert "TPOT said 0 ms, true is to say nothing" in done.stdout


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("raise SystemExit('no such option')", "it ended with exit code 1 and wrote no result: no such option"),
        ("pass", "it ended with exit code 0 and wrote no result: it said nothing"),
        ("import time; time.sleep(60)", "it had not ended after 1 s"),
        ("import sys; open(sys.argv[2], 'w').write('all fine')", "its result file is no JSON"),
        ("import sys; open(sys.argv[2], 'w').write('{}')", "0 of 10 requests came"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exit code -9"),
    ],
)
def test_a_client_that_crashes_hangs_or_writes_nothing_is_a_row_that_says_why(
    program: str, why: str, tmp_path: Path
) -> None:
    script = tmp_path / "client.py"
    script.write_text(program)
    template = f"{sys.executable} {script} {{url}} {{out}}"
    done = conformance("--command", template, "--reads", "unmoor", "--only", "plain", "--timeout", 1, "--json")
    assert done.returncode == 3, done.stderr
    case = json.loads(done.stdout)["cases"][0]
    assert case["standing"] == "did_not_run"
    assert why in case["why"]


@pytest.mark.parametrize(
    ("args", "where"),
    [
        (["nobody"], "CLIENT"),
        (["vllm-benhc"], "did you mean 'vllm-bench'"),
        ([], "CLIENT"),
        (["unmoor", "--command", "x {url}"], "CLIENT"),
        (["--command", "x {url}"], "--reads"),
        (["unmoor", "--only", "nothing"], "--only"),
        (["guidellm", "--program", "/not/there"], "--program"),
        (["--command", "not-a-program-here {url}", "--reads", "unmoor"], "not-a-program-here"),
        (["guidellm", "--program", sys.executable], "--tokenizer"),
        (["guidellm", "--program", sys.executable, "--tokenizer", "/not/there"], "--tokenizer"),
        (["unmoor", "--timeout", "0"], "--timeout"),
    ],
)
def test_a_mistake_in_the_call_is_one_error_with_a_hint(args: list[str], where: str) -> None:
    done = conformance(*args)
    assert done.returncode == 2
    assert where in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_list_names_every_case_and_client_and_runs_nothing() -> None:
    text = conformance("--list").stdout
    found = json.loads(conformance("--list", "--json").stdout)
    assert [case["case"] for case in found["cases"]] == [case.code for case in CASES]
    assert all(case.code in text for case in CASES)
    assert all(name in text for name in found["clients"])


def test_the_reference_names_every_case_and_client() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "conformance.md").read_text()
    for case in CASES:
        assert f"| `{case.code}` | {case.title} | {case.expect} |" in page
    for name in json.loads(conformance("--list", "--json").stdout)["clients"]:
        assert f"`{name}`" in page
