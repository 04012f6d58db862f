"""`unmoor load` as a user runs it: a process of its own against a server on a real socket."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from unmoor.core.plan import SyntheticTraffic
from unmoor.core.record import Record
from unmoor.fake.engine import FakeEngine
from unmoor.fake.script import Ask, Script
from unmoor.launch.process import RunningEngine
from unmoor.traffic.synthesis import synthesise

ROOT = Path(__file__).parents[2]
LOG = ROOT / "examples" / "gateway-log" / "requests.jsonl.gz"
QUICK = Script(ttft_s=0.02, gap_s=0.001)


def load(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unmoor.cli", "load", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return] # subprocess's own


def reported(*args: object) -> dict[str, object]:
    done = load(*args, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_what_is_sent_is_as_long_as_asked_and_new_in_each_run() -> None:
    with FakeEngine(QUICK) as engine:
        found = reported(engine.url, "--rate", 50, "--requests", 20, "--input-tokens", 60, "--output-tokens", 4)
        first = list(engine.seen)
        reported(engine.url, "--rate", 50, "--requests", 20, "--input-tokens", 60, "--output-tokens", 4)
        second = engine.seen[len(first) :]
    assert (found["requests"], found["failed"], found["token_source"], found["model"]) == (20, 0, "server", "fake")
    assert {caveat["code"] for caveat in found["caveats"]} == {"few_requests", "headroom_unknown"}  # type: ignore[attr-defined] # JSON
    assert 20 * 54 <= found["input_tokens"] <= 20 * 66  # type: ignore[operator] # JSON
    prompts = [json.loads(body)["messages"][0]["content"] for body in (*first[1:], *second[1:])]
    assert len(set(prompts)) == 40


def test_a_seed_sends_the_same_again() -> None:
    with FakeEngine(QUICK) as engine:
        for _ in range(2):
            reported(engine.url, "--rate", 50, "--requests", 5, "--seed", 7)
        assert sorted(engine.seen[1:6]) == sorted(engine.seen[7:])


def test_without_burstiness_every_gap_is_the_same(tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    with FakeEngine(QUICK) as engine:
        found = reported(engine.url, "--rate", 40, "--requests", 9, "--burstiness", 0, "--records", out)
    due = sorted(json.loads(line)["scheduled_at_ns"] for line in out.read_text().splitlines())
    assert {later - earlier for earlier, later in pairwise(due)} == {25_000_000}
    assert found["offered_rps"] == pytest.approx(40)


def test_a_log_is_replayed_in_its_own_lengths_and_a_stretched_time() -> None:
    with FakeEngine(QUICK) as engine:
        found = reported(engine.url, "--traffic", LOG, "--requests", 30, "--rate", 60)
    assert found["offered_rps"] == pytest.approx(60)
    asked = [json.loads(body)["max_tokens"] for body in engine.seen[1:]]
    assert len(asked) == 30
    assert len(set(asked)) > 5


def test_the_text_says_what_came_and_what_failed() -> None:
    def choose(ask: Ask) -> Script:
        return QUICK if ask.max_tokens != 5 else Script(fault="error_mid", ttft_s=0.01)

    with FakeEngine(choose) as engine:
        done = load(engine.url, "--rate", 100, "--requests", 40, "--output-tokens", 5, "--ttft-ms", 5000)
    assert done.returncode == 0, done.stderr
    assert "40 failed: 40 stream error" in done.stdout
    assert "0.0% of all requests meet every bound" in done.stdout


def test_records_are_kept_for_their_owner_and_never_over_another_file(tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    with FakeEngine(QUICK) as engine:
        reported(engine.url, "--rate", 100, "--requests", 10, "--records", out)
        again = load(engine.url, "--records", out)
    kept = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(one["index"] for one in kept) == list(range(10))
    assert all(msgspec.convert(one, Record).ok for one in kept)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert again.returncode == 2
    assert "will not be overwritten" in again.stderr


def test_a_full_disk_ends_the_load_and_what_was_measured_is_told(tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"

    def few_bytes() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    with FakeEngine(QUICK) as engine:
        done = load(engine.url, "--rate", 50, "--requests", 60, "--records", out, "--json", preexec_fn=few_bytes)
    assert done.returncode == 130, done.stderr
    found = json.loads(done.stdout)
    assert found["partial"] is True
    assert 0 < found["requests"] < 60
    assert "records_lost" in [caveat["code"] for caveat in found["caveats"]]


def test_ctrl_c_leaves_a_report_of_what_had_ended(tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    with FakeEngine(QUICK) as engine:
        command = [
            sys.executable,
            "-m",
            "unmoor.cli",
            "load",
            engine.url,
            "--rate",
            "20",
            "--requests",
            "400",
            "--json",
        ]
        process = subprocess.Popen(
            [*command, "--records", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while not out.exists() or out.stat().st_size < 2000:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=30)
    found = json.loads(text)
    assert process.returncode == 130
    assert found["partial"] is True
    assert 0 < found["requests"] < 400


def test_a_kill_leaves_whole_lines(tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    with FakeEngine(QUICK) as engine:
        command = [sys.executable, "-m", "unmoor.cli", "load", engine.url, "--rate", "100", "--requests", "2000"]
        process = subprocess.Popen([*command, "--records", str(out)], stderr=subprocess.DEVNULL)
        while not out.exists() or out.stat().st_size < 2000:
            assert process.poll() is None
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
    assert all(json.loads(line)["outcome"] == "ok" for line in out.read_text().splitlines())


def nobody() -> str:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("https://example.org",), 2, "the load has nowhere to go"),
        (("http://10.0.0.1:8000",), 2, "127.0.0.1, localhost or ::1"),
        (("NOBODY",), 1, "Connection refused"),
        (("URL", "--rate", "0"), 2, "--rate: no such amount"),
        (("URL", "--rate", "nan"), 2, "--rate: no such amount"),
        (("URL", "--burstiness", "1e-9"), 2, "0, or a number from 0.01 to 100"),
        (("URL", "--burstiness", "nan"), 2, "0, or a number from 0.01 to 100"),
        (("URL", "--requests", "-3"), 2, "--requests: no such amount"),
        (("URL", "--requests", "9000000"), 2, "too many requests"),
        (("URL", "--traffic", "LOG", "--input-tokens", "5"), 2, "--input-tokens beside --traffic"),
        (("URL", "--traffic", "LOG", "--requests", "1", "--rate", "3"), 2, "no time to stretch"),
        (("URL", "--traffic", "missing.jsonl"), 2, "nothing at this path"),
        (("URL", "--records", "/nowhere/at/all"), 2, "cannot be written"),
    ],
)
def test_a_mistake_is_one_clear_error(args: tuple[str, ...], code: int, said: str) -> None:
    with FakeEngine(QUICK) as engine:
        told = {"URL": engine.url, "LOG": str(LOG), "NOBODY": nobody()}
        done = load(*(told.get(arg, arg) for arg in args))
        assert engine.seen == []
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_refuses_the_first_request_is_told_in_its_own_words() -> None:
    with FakeEngine(Script(status=404, error_message="no such model")) as engine:
        done = load(engine.url, "--model", "other")
    assert done.returncode == 1
    assert "http_error: no such model" in done.stderr


@pytest.mark.real_engine
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_a_real_engine_counts_the_lengths_that_were_planned(embedded: RunningEngine, endpoint: str) -> None:
    lengths = ("--input-tokens", 80, "--output-tokens", 6)
    found = reported(embedded.url, "--endpoint", endpoint, "--rate", 4, "--requests", 12, *lengths, "--seed", 3)
    assert (found["model"], found["failed"], found["token_source"]) == ("demo", 0, "server")
    codes = {caveat["code"] for caveat in found["caveats"]}  # type: ignore[attr-defined] # JSON
    assert "prompt_lengths_differ" not in codes
    assert found["prefix_hit_rate"] is None  # it is not told what came from the cache
    asked = synthesise(SyntheticTraffic(requests=12, rate_rps=4, input_tokens=80, output_tokens=6, seed=3)).requests
    assert found["input_tokens"] == sum(request.input_tokens for request in asked)
    assert found["output_tokens"] == sum(request.output_tokens for request in asked)
