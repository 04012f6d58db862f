from __future__ import annotations

import gzip
import json
import re
import resource
import stat
import subprocess
import sys
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from unmoor.cli.page_file import write_page
from unmoor.cli.profile import command
from unmoor.cli.token_count import token_count
from unmoor.core.plan import SyntheticTraffic
from unmoor.traffic.breakers.breaker import Place
from unmoor.traffic.breakers.kinds import KINDS
from unmoor.traffic.log import Grain
from unmoor.traffic.profile import report as traffic_report
from unmoor.traffic.profile.report import TrafficReport
from unmoor.traffic.readers import FORMATS
from unmoor.traffic.readers.unmoor_jsonl import Header
from unmoor.traffic.reuse.curve import HitRate
from unmoor.traffic.reuse.timeline import Window

ROOT = Path(__file__).parent.parent.parent
AGENTS = ROOT / "examples" / "agents" / "traffic.jsonl"
PLAN = ROOT / "examples" / "agents" / "plan.toml"
PAGE = (ROOT / "docs" / "reference" / "traffic.md").read_text()


def unmoor(*args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "unmoor.cli", *args], capture_output=True, input=stdin, check=False, cwd=ROOT
    )


def profiled(*args: str, stdin: bytes = b"") -> TrafficReport:
    done = unmoor("profile", *args, "--json", stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 1
    return msgspec.json.decode(done.stdout, type=TrafficReport)


def test_the_json_is_one_traffic_report() -> None:
    seen = profiled(str(AGENTS), "--kv-tokens", "20k", "--kv-tokens", "1.3M", "--replicas", "2")
    assert seen.requests == 1200
    assert seen.format == "unmoor"
    assert seen.prefix_overlap == pytest.approx(0.8, abs=0.005)
    assert [point.kv_tokens for point in seen.hit_rate_curve] == [20_000, 1_300_000]
    assert {"vllm": 16, "sglang": 1, "tensorrt-llm": 32}.items() <= {
        name: engine.block_tokens for name, engine in seen.engines.items()
    }.items()
    assert [row.routing for row in seen.replicas] == ["round-robin", "least-loaded", "session-sticky", "prefix-aware"]


def test_a_log_is_the_same_from_a_file_an_archive_a_folder_and_standard_input(tmp_path: Path) -> None:
    content = AGENTS.read_bytes()
    (tmp_path / "log.gz").write_bytes(gzip.compress(content))
    whole = profiled(str(AGENTS), "--replicas", "2")
    others = [
        profiled(str(tmp_path / "log.gz"), "--replicas", "2"),
        profiled(str(tmp_path), "--replicas", "2"),
        profiled("-", "--replicas", "2", stdin=content),
    ]
    for other in others:
        assert other.hit_rate_curve == whole.hit_rate_curve
        assert other.prefix_overlap == whole.prefix_overlap


def test_broken_lines_are_counted_told_and_skipped_up_to_a_limit(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("arrival_s,input_tokens,output_tokens\n0,1,1\n1,x,1\n2,3,1\n")
    seen = profiled(str(log))
    assert (seen.requests, seen.skipped_lines) == (2, 1)
    assert ":3" in seen.skipped[0] or "3" in seen.skipped[0]
    refused = unmoor("profile", str(log), "--most-broken", "0")
    assert (refused.returncode, refused.stdout) == (2, b"")


def test_a_plan_brings_its_candidates_its_layouts_and_the_margin() -> None:
    seen = profiled(str(AGENTS), "--plan", str(PLAN))
    assert set(seen.engines) == {"vllm", "sglang", "tensorrt-llm"}
    assert seen.meaning is not None
    assert (seen.meaning.plan, seen.meaning.could_move_choice) == ("agents", False)
    assert {row.n for row in seen.replicas} == {1, 2, 4}


def test_a_page_is_written_beside_what_is_printed(tmp_path: Path) -> None:
    out = tmp_path / "new" / "page.html"
    done = unmoor("profile", str(AGENTS), "--page", str(out), "--replicas", "2")
    assert done.returncode == 0
    assert b"Prefix overlap" in done.stdout
    assert done.stderr.decode() == f"page: {out}\n"
    assert out.read_text().startswith("<!doctype html>")


def test_a_page_that_may_quote_text_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    for args in ([], ["--show-text"]):  # an older page gives way
        done = unmoor("profile", str(AGENTS), "--page", str(out), "--replicas", "2", *args)
        assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--page log", "will not be overwritten"),
        ("--page link", "will not be overwritten"),
        ("--page plan.toml --plan plan.toml", "will not be overwritten"),
        ("--page empty", "will not be overwritten"),
        ("--page theirs.html", "will not be overwritten"),
        ("--page folder", "is no file"),
        ("--page log/page.html", "cannot be written"),
        ("--page /dev/null", "is no file"),
        ("--fingerprint folder", "is no file"),
        ("--fingerprint none/out.fp", "cannot be written"),
        ("--fingerprint log", "will not be overwritten"),
        ("--fingerprint out --page ./out", "one file for two things"),
        ("--fingerprint out --key-file out", "one file for two things"),
        ("--fingerprint out --key-file key --page folder/../key", "one file for two things"),
        ("--fingerprint out --key-file key --page folder", "is no file"),
        ("--fingerprint out --key-file log", "no key to hash names with"),
    ],
)
def test_a_place_that_may_not_be_written_is_refused_before_the_log_is_read(
    tmp_path: Path, options: str, message: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "log").write_bytes(b"no log at all: were it read, the error would be another\n")
    (tmp_path / "plan.toml").write_bytes(PLAN.read_bytes())
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("log")
    (tmp_path / "theirs.html").write_text("<!doctype html>\n<title>Somebody's</title>\n")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()}
    argv = [sys.executable, "-m", "unmoor.cli", "profile", "log", *options.split()]
    done = subprocess.run(argv, capture_output=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()
    assert b"hint:" in done.stderr
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_page_that_does_not_fit_leaves_the_older_one_whole(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    write_page("<!doctype html>\n<title>Unmoor: old</title>\n", out, print)
    before = out.read_bytes()
    full = f"ulimit -f 8; trap '' XFSZ; {sys.executable} -m unmoor.cli profile {AGENTS} --replicas 2 --page {out}"
    done = subprocess.run(["/bin/bash", "-c", full], capture_output=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"the page cannot be written" in done.stderr
    assert out.read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]


def test_a_fingerprint_is_profiled_in_the_logs_place_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    out = tmp_path / "agents.fp"
    whole = profiled(str(AGENTS), "--fingerprint", str(out), "--block-tokens", "16", "--replicas", "2")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    again = profiled(str(out), "--replicas", "2")
    assert again.format == "fingerprint"
    assert (again.requests, again.input_tokens, again.arrivals) == (1200, whole.input_tokens, whole.arrivals)
    ours, theirs = whole.engines["vllm"].hit_rate_curve, again.engines["vllm"].hit_rate_curve
    assert ours[-1].hit_rate == pytest.approx(theirs[-1].hit_rate)
    assert (again.hit_rate_curve, again.replicas) == (whole.hit_rate_curve, whole.replicas)
    twice = unmoor("profile", str(AGENTS), "--fingerprint", str(out), "--block-tokens", "32")
    assert (twice.returncode, twice.stdout) == (2, b"")
    assert b"will not be overwritten" in twice.stderr


def test_no_prompt_is_shown_or_written_without_being_asked_for(tmp_path: Path) -> None:
    secret, rows = "zanzibar", []
    for n in range(40):
        shared = f"It is {n % 24:02d}:{n:02d} now. " + f"You help {secret} customers with their orders. " * 20
        messages = [{"role": "system", "content": shared}, {"role": "user", "content": f"{secret} question {n}"}]
        rows.append({"timestamp": n, "session_id": f"{secret}-{n}", "request": {"model": "m", "messages": messages}})
    log, page, out = tmp_path / "log.jsonl", tmp_path / "page.html", tmp_path / "out.fp"
    broken = '{"request": {"model": "m", "messages": "zanzibar"}}\n{"zanzibar\n'
    log.write_text("\n".join(map(json.dumps, rows)) + "\n" + broken)
    for args in (["--json"], []):
        done = unmoor("profile", str(log), *args, "--page", str(page), "--fingerprint", str(out))
        assert done.returncode == 0, done.stderr
        for told in (done.stdout, done.stderr, page.read_bytes(), out.read_bytes()):
            assert secret.encode() not in told
        out.unlink()
    assert profiled(str(log)).skipped_lines == 2
    asked = unmoor("profile", str(log), "--show-text")
    assert b"date in prefix" in asked.stdout
    assert b"You help" in asked.stdout


def test_a_key_without_a_fingerprint_is_a_mistake(tmp_path: Path) -> None:
    done = unmoor("profile", str(AGENTS), "--key-file", str(tmp_path / "key"))
    assert done.returncode == 2
    assert b"--fingerprint OUT beside --key-file" in done.stderr


@pytest.mark.parametrize(
    ("content", "args", "message"),
    [
        (None, [], "cannot be read"),
        (b"", [], "no request in it"),
        (b"hello\n", [], "no known format"),
        (b'{"timestamp": 0}\n', ["--format", "mooncake"], "missing key 'input_length'"),
        (b'{"timestamp": 0}\n', ["--format", "moncake"], "unknown format 'moncake'"),
    ],
)
def test_a_mistake_is_one_clear_error_and_exit_code_2(
    tmp_path: Path, content: bytes | None, args: list[str], message: str
) -> None:
    log = tmp_path / "log"
    if content is not None:
        log.write_bytes(content)
    done = unmoor("profile", str(log), "--json", *args)
    said = done.stderr.decode()
    assert done.returncode == 2
    assert done.stdout == b""
    assert said.startswith(f"error: {log}")
    assert message in said
    assert "hint:" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("written", ["0", "-5", "1e6", "many", "1.3Q", "1" * 40])
def test_a_capacity_that_is_no_number_of_tokens_is_refused(written: str) -> None:
    done = CliRunner().invoke(command, [str(AGENTS), f"--kv-tokens={written}"])
    assert done.exit_code == 2


@pytest.mark.parametrize("option", ["--prefill-tps", "--tpot-ms"])
@pytest.mark.parametrize("written", ["0", "-5", "inf", "nan", "1e10", "1e-4", "fast", ""])
def test_a_speed_that_is_no_positive_number_is_refused(option: str, written: str) -> None:
    done = CliRunner().invoke(command, [str(AGENTS), f"{option}={written}"])
    assert done.exit_code == 2
    assert "0.001 to 1e+09" in done.output


def test_the_speeds_of_a_replica_are_those_that_were_given() -> None:
    seen = profiled(str(AGENTS), "--replicas", "2", "--prefill-tps", "12000", "--tpot-ms", "8")
    assert seen.timeline is not None
    assert (seen.timeline.prefill_tps, seen.timeline.tpot_s) == (12_000, 0.008)
    assert {"service_given", "service_assumed"} & {caveat.code for caveat in seen.caveats} == {"service_given"}


@pytest.mark.parametrize(("written", "count"), [("1300000", 1_300_000), ("1.3M", 1_300_000), ("500k", 500_000)])
def test_capacities_are_understood_as_people_write_them(written: str, count: int) -> None:
    assert token_count(written) == count
    with pytest.raises(click.BadParameter):
        token_count(f"{written}x")


STRUCTS = [
    thing
    for thing in vars(traffic_report).values()
    if isinstance(thing, type) and issubclass(thing, msgspec.Struct) and thing.__module__ == traffic_report.__name__
]


@pytest.mark.parametrize("struct", [*STRUCTS, SyntheticTraffic, Header, Grain, HitRate, Place, Window])
def test_every_key_has_its_line_in_the_reference(struct: type[msgspec.Struct]) -> None:
    assert [name for name in struct.__struct_fields__ if f"`{name}`" not in PAGE] == []


def test_every_format_has_its_line_in_the_reference() -> None:
    assert [name for name in FORMATS if f"| `{name}` |" not in PAGE] == []


def test_every_option_has_its_line_in_the_reference() -> None:
    options = [name for param in command.params for name in param.opts if name.startswith("--")]
    assert [name for name in options if f"`{name}" not in PAGE] == []


def test_every_kind_of_breaker_has_its_line_in_the_reference() -> None:
    assert [kind for kind in KINDS if f"| `{kind}` |" not in PAGE] == []


def test_every_caveat_of_traffic_has_its_line_in_the_reference() -> None:
    files = [*(ROOT / "src/unmoor/traffic").rglob("*.py"), ROOT / "src/unmoor/choose/reuse_meaning.py"]
    text = "\n".join(file.read_text() for file in files)
    codes = {*re.findall(r'code="(\w+)"', text), *re.findall(r'_caveat\(\s*"(\w+)"', text)}
    assert len(codes) > 20
    assert sorted(code for code in codes if f"| `{code}` |" not in PAGE) == []


def test_the_example_in_the_reference_is_the_start_of_the_reference_traffic() -> None:
    for line in AGENTS.read_text().splitlines()[1:3]:
        assert line in PAGE


@pytest.mark.trace
def test_the_full_profile_of_the_mooncake_trace_takes_under_two_seconds_of_cpu(mooncake_trace: Path) -> None:
    def cpu_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert unmoor("profile", str(mooncake_trace), "--json").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu_s() for _ in range(3)) < 2  # the best of three: other work on the machine slows all
