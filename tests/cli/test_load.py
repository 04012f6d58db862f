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
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from unmoor.core.plan import SyntheticTraffic
from unmoor.core.record import Record
from unmoor.engines.registry import engine
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
    assert {caveat["code"] for caveat in found["caveats"]} == {"few_requests", "headroom_unknown", "no_server_metrics"}  # type: ignore[attr-defined] # JSON
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
    assert done.returncode == 1
    assert "not every record could be kept" in done.stderr
    assert "hint:" in done.stderr
    found = json.loads(done.stdout)
    assert found["partial"] is True
    assert 0 < found["requests"] < 60
    assert "records_lost" in [caveat["code"] for caveat in found["caveats"]]
    kept = [json.loads(line) for line in out.read_text().splitlines()]
    assert 0 < len(kept) < found["requests"]


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


def test_sigterm_leaves_a_report_too() -> None:
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
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(engine.seen) < 8:
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        text, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(text)["partial"] is True


def test_a_limit_of_open_files_is_the_clients_own_fault() -> None:
    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    slow = Script(ttft_s=0.5, gap_s=0.0)
    with FakeEngine(slow) as engine:
        done = load(
            engine.url, "--concurrency", 100, "--requests", 120, "--output-tokens", 2, "--json", preexec_fn=few_files
        )
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert found["failures"]["refused"] > 0
    assert [reason["code"] for reason in found["void"]] == ["client_bound"]
    assert "ulimit" in found["void"][0]["text"]


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


def test_a_load_that_did_not_begin_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    with FakeEngine(Script(status=500)) as engine:
        assert load(engine.url, "--records", out).returncode == 1
    assert not out.exists()


def test_a_client_that_was_too_late_makes_the_run_void() -> None:
    with FakeEngine(QUICK) as engine:
        done = load(engine.url, "--rate", 100, "--requests", 20, "--ttft-ms", 0.001, "--json")
        text = load(engine.url, "--rate", 100, "--requests", 20, "--ttft-ms", 0.001)
    assert done.returncode == text.returncode == 3
    found = json.loads(done.stdout)
    assert "client_bound" in [reason["code"] for reason in found["void"]]
    assert "client_bound" not in [caveat["code"] for caveat in found["caveats"]]
    assert "VOID: no figure above may be used" in text.stdout


def test_users_wait_for_their_answers() -> None:
    with FakeEngine(Script(ttft_s=0.05, gap_s=0.0)) as engine:
        found = reported(engine.url, "--concurrency", 3, "--think", 0.01, "--requests", 30, "--output-tokens", 2)
        text = load(engine.url, "--concurrency", 3, "--duration", 0.5, "--output-tokens", 2).stdout
    assert found["pacing"] == {"concurrency": 3, "wait_for_turns": False, "think_s": 0.01, "until_s": None}
    assert (found["offered_rps"], found["requests"], found["ended_by"]) == (None, 30, "all")
    assert "closed_loop" in [caveat["code"] for caveat in found["caveats"]]  # type: ignore[attr-defined] # JSON
    assert "by 3 users who each wait for the answer" in text
    assert "the time was over" in text


def test_a_logs_turns_wait_where_that_is_asked_and_what_is_not_asked_is_said(tmp_path: Path) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "records.jsonl"
    lines: list[dict[str, object]] = [{"unmoor_traffic": 1, "overlap_block_tokens": None}]
    lines += [
        {"arrival_s": n / 100, "input_tokens": 40, "output_tokens": 3, "session": f"s{n % 2}", "schema": "x"}
        for n in range(10)
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with FakeEngine(Script(ttft_s=0.05, gap_s=0.0)) as engine:
        alone = reported(engine.url, "--traffic", log)
        waited = reported(engine.url, "--traffic", log, "--turns-wait", "--records", out)
    said = {caveat["code"]: caveat["text"] for caveat in alone["caveats"]}  # type: ignore[attr-defined] # JSON
    assert "10 have a schema, 8 have an earlier turn" in said["not_asked_for"]
    said = {caveat["code"]: caveat["text"] for caveat in waited["caveats"]}  # type: ignore[attr-defined] # JSON
    assert "earlier turn" not in said["not_asked_for"]
    kept = {(one := json.loads(line))["index"]: one for line in out.read_text().splitlines()}
    for turn in range(2, 10):
        assert kept[turn]["scheduled_at_ns"] >= kept[turn - 2]["closed_at_ns"]


def test_a_ramp_sends_ever_faster_and_shows_what_that_did(tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    ramp = ("--rate", 10, "--ramp-to", 90, "--burstiness", 0, "--duration", 2)
    with FakeEngine(QUICK) as engine:
        found = reported(engine.url, *ramp, "--records", out)
        text = load(engine.url, *ramp, "--ttft-ms", 5000).stdout
    due = sorted(json.loads(line)["scheduled_at_ns"] for line in out.read_text().splitlines())
    gaps = [later - earlier for earlier, later in pairwise(due)]
    assert gaps == sorted(gaps, reverse=True)
    assert 98 <= len(due) <= 102
    assert (due[-1] - due[0]) / 1e9 == pytest.approx(2, abs=0.05)
    rates = [one["offered_rps"] for one in found["slices"]]  # type: ignore[attr-defined] # JSON
    assert rates[0] < 25
    assert rates[-1] > 75
    assert found["ended_by"] == "duration"
    assert "Over time: the rate was not the same" in text


def test_bursts_and_silence_fill_the_duration() -> None:
    with FakeEngine(QUICK) as engine:
        found = reported(
            engine.url, "--rate", 40, "--burstiness", 10, "--duration", 2, "--seed", 1, "--output-tokens", 2
        )
    assert found["ended_by"] == "duration"


def test_what_a_server_says_does_not_reach_the_terminal_as_it_is() -> None:
    with FakeEngine(Script(status=500, error_message="\x1b]0;pwned\x07boom")) as engine:
        done = load(engine.url)
    assert "boom" in done.stderr
    assert "\x1b" not in done.stderr
    assert "\x07" not in done.stderr


def test_a_load_ends_when_it_is_sure_enough_and_says_when_it_is_not() -> None:
    shape = ("--rate", 400, "--output-tokens", 2)
    with FakeEngine(Script(ttft_s=0.05, gap_s=0.0)) as engine:
        sure = reported(engine.url, *shape, "--until-ttft-p95", 60)
        unsure = reported(engine.url, *shape, "--until-ttft-p95", 0.001, "--requests", 120)
    assert sure["ended_by"] == "enough"
    p95 = sure["metrics"]["ttft_s"]["p95"]  # type: ignore[index] # JSON
    assert p95["high"] - p95["low"] <= 0.7 * p95["value"]  # a few answers came after it was sure
    assert unsure["ended_by"] == "all"
    assert "not_yet_sure" in [caveat["code"] for caveat in unsure["caveats"]]  # type: ignore[attr-defined] # JSON


def test_warm_up_and_cool_down_are_sent_and_not_counted() -> None:
    with FakeEngine(QUICK) as engine:
        found = reported(
            engine.url, "--rate", 50, "--burstiness", 0, "--requests", 51, "--warm-up", 0.2, "--cool-down", 0.3
        )
        assert len(engine.seen) == 52
    window = found["window"]
    assert (window["warm_up"], window["requests"], window["cool_down"]) == (10, 26, 15)  # type: ignore[index] # JSON


def test_prompts_share_a_prefix_where_that_is_asked() -> None:
    with FakeEngine(QUICK) as engine:
        reported(
            engine.url, "--rate", 100, "--requests", 30, "--shared-prefix-tokens", 50, "--prefix-groups", 2,
            "--input-tokens", 100,
        )  # fmt: skip
        prompts = [json.loads(body)["messages"][0]["content"].split() for body in engine.seen[1:]]
    assert len({tuple(prompt[:50]) for prompt in prompts}) == 2
    assert len({tuple(prompt) for prompt in prompts}) == 30


class Cached:
    """A server that says how much of its prompts it had, and has metrics of one engine and a way to forget."""

    def __init__(self, cached_tokens: int) -> None:
        self.emptied = 0
        self.script = Script(ttft_s=0.02, gap_s=0.001, cached_tokens=cached_tokens)

    def metrics(self) -> bytes:
        names = engine("vllm").scrape
        return f"{names['running']} 2\n{names['waiting']} 5\n{names['preemptions']} 0\n".encode()

    def empty(self) -> bytes:
        self.emptied += 1
        return b""

    def pages(self) -> dict[str, Callable[[], bytes | None]]:
        return {"/metrics": self.metrics, engine("vllm").cache_reset_path or "": self.empty}


def test_a_cache_that_knew_the_prompts_from_before_makes_the_run_void() -> None:
    shape = ("--rate", 100, "--requests", 20, "--input-tokens", 50)
    with FakeEngine(Cached(40).script) as fake:
        warm = load(fake.url, *shape, "--json")
        planned = load(fake.url, *shape, "--shared-prefix-tokens", 48, "--json")
    with FakeEngine(Cached(0).script) as fake:
        cold = load(fake.url, *shape, "--shared-prefix-tokens", 40, "--json")
    assert (warm.returncode, planned.returncode, cold.returncode) == (3, 0, 0)
    assert [one["code"] for one in json.loads(warm.stdout)["void"]] == ["cache_warm"]
    assert json.loads(planned.stdout)["shared_at_most"] > 0.8
    assert "hit_rate_below_plan" in [one["code"] for one in json.loads(cold.stdout)["caveats"]]


def test_the_servers_own_account_stands_beside_and_its_cache_is_emptied_where_asked() -> None:
    cached = Cached(0)
    with FakeEngine(cached.script, pages=cached.pages()) as fake:
        found = reported(fake.url, "--rate", 100, "--requests", 10, "--reset-cache")
        text = load(fake.url, "--rate", 100, "--requests", 10).stdout
        alone = reported(fake.url, "--rate", 100, "--requests", 10, "--no-server-metrics")
    assert cached.emptied == 1
    server = found["server"]
    assert isinstance(server, dict)
    assert (server["engine"], server["waiting"], server["preemptions"]) == ("vllm", {"p50": 5.0, "max": 5.0}, 0)
    assert "waiting 5 in the median, 5 at most" in " ".join(text.split())
    assert alone["server"] is None
    assert "no_server_metrics" not in [caveat["code"] for caveat in alone["caveats"]]  # type: ignore[attr-defined] # JSON


def test_head_room_is_found_out_at_the_loads_own_shape() -> None:
    with FakeEngine(Script(ttft_s=0.02, gap_s=0.01)) as fake:
        done = load(fake.url, "--rate", 20, "--requests", 20, "--output-tokens", 8, "--headroom", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    codes = [caveat["code"] for caveat in found["caveats"]]
    assert found["client"]["headroom"] is not None or "headroom_unknown" in codes
    assert "1x: " in done.stderr


def test_what_the_server_does_not_count_a_tokenizer_counts_where_one_is_named(tmp_path: Path) -> None:
    tokenizer = Tokenizer(WordLevel({"unknown": 0}, unk_token="unknown"))  # noqa: S106 - a token of text
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    silent = Script(ttft_s=0.02, gap_s=0.001, usage=False, tokens=5, leading=2)
    with FakeEngine(silent) as engine:
        uncounted = reported(engine.url, "--rate", 100, "--requests", 10)
        counted = reported(engine.url, "--rate", 100, "--requests", 10, "--tokenizer", tmp_path)
        whole = reported(engine.url, "--rate", 100, "--requests", 10, "--tokenizer", tmp_path, "--no-stream")
    assert (uncounted["output_tokens"], uncounted["token_source"]) == (None, None)
    assert (counted["output_tokens"], counted["token_source"]) == (50, "tokenizer")
    assert "tokens_recounted" in [caveat["code"] for caveat in counted["caveats"]]  # type: ignore[attr-defined] # JSON
    assert whole["token_source"] == "server"  # noqa: S105 - who counted: an answer in one piece has its usage


def test_records_as_parquet_are_the_same_records(tmp_path: Path) -> None:
    lines, table = tmp_path / "records.jsonl", tmp_path / "records.parquet"
    with FakeEngine(QUICK) as engine:
        reported(engine.url, "--rate", 100, "--requests", 10, "--records", lines, "--parquet", table)
        again = load(engine.url, "--parquet", table)
        same = load(engine.url, "--records", tmp_path / "one", "--parquet", tmp_path / "one")
    rows = [{key: value for key, value in row.items() if value is not None} for row in pq.read_table(table).to_pylist()]
    kept = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [{"chunk_at_ns": [], **one} for one in kept] == rows
    assert stat.S_IMODE(table.stat().st_mode) == 0o600
    assert "will not be overwritten" in again.stderr
    assert "one file for two things" in same.stderr
    assert (again.returncode, same.returncode) == (2, 2)


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
        (("URL", "--rate", "0"), 2, "'0' is no number from 0.001"),
        (("URL", "--rate", "nan"), 2, "'nan' is no number"),
        (("URL", "--warm-up", "-1"), 2, "'-1' is no number from 0"),
        (("URL", "--concurrency", "4", "--rate", "2"), 2, "a rate and users who wait"),
        (("URL", "--think", "2"), 2, "nobody who thinks"),
        (("URL", "--ramp-to", "2"), 2, "a ramp from nowhere"),
        (("URL", "--shared-prefix-tokens", "200"), 2, "leaves no room"),
        (("URL", "--traffic", "LOG", "--prefix-groups", "2"), 2, "--prefix-groups beside --traffic"),
        (("URL", "--burstiness", "1e-9"), 2, "0, or a number from 0.01 to 100"),
        (("URL", "--burstiness", "nan"), 2, "'nan' is no number from 0"),
        (("URL", "--requests", "-3"), 2, "-3 is not in the range"),
        (("URL", "--requests", "9000000"), 2, "9000000 is not in the range"),
        (("URL", "--traffic", "LOG", "--input-tokens", "5"), 2, "--input-tokens beside --traffic"),
        (("URL", "--traffic", "LOG", "--requests", "1", "--rate", "3"), 2, "no time to stretch"),
        (("URL", "--traffic", "missing.jsonl"), 2, "nothing at this path"),
        (("URL", "--records", "/nowhere/at/all"), 2, "cannot be written"),
        (("http://bob:s3cret@127.0.0.1:9",), 2, "a URL without user"),
        (("http://127.0.0.1:9/?key=s3cret",), 2, "a URL without user"),
        (("URL", "--seed", "-5"), 2, "-5 is not in the range"),
        (("URL", "--model", ""), 2, "an empty name"),
        (("URL", "--model", "\udcff"), 2, "is no text in UTF-8"),
        (("URL", "--model", "a\nb"), 2, "cannot be printed"),
        (("URL", "--adapters", "a,b", "--adapters-zipf", "10000"), 2, "not in the range"),
        (("--self-check", "--rate", "3"), 2, "--rate beside --self-check"),
        (("URL", "--tokenizer", "nowhere"), 2, "tokenizer"),
        ((), 2, "neither URL nor --self-check"),
        (("URL", "--self-check"), 2, "URL and --self-check"),
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
    assert "s3cret" not in done.stderr


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
    server = found["server"]
    assert isinstance(server, dict)
    assert server["engine"] == "openvino"
    assert (server["prompt_tokens"], server["generated_tokens"]) == (found["input_tokens"], found["output_tokens"])
