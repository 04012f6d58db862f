from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from unmoor.cli.generate import command
from unmoor.core.errors import PlanError, TrafficError, UsageError
from unmoor.traffic.fingerprint import write
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.reuse.curve import ideal

AGENTS = Path(__file__).parent.parent.parent / "examples" / "agents"
SMALL = "requests = 3\nrate_rps = 2\ninput_tokens = 20\noutput_tokens = 5\n"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_the_console_script_makes_the_reference_traffic_byte_for_byte() -> None:
    argv = [sys.executable, "-m", "unmoor.cli", "generate", str(AGENTS / "traffic.toml")]
    done = subprocess.run(argv, capture_output=True, check=True)
    assert done.stdout == (AGENTS / "traffic.jsonl").read_bytes()
    assert done.stderr == b""


def test_a_file_is_written_then_left_alone_when_it_holds_the_same(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    first = CliRunner().invoke(command, [str(small), "-o", str(out)])
    assert first.stdout == f"{out}: 3 requests, written\n"
    written_at = out.stat().st_mtime_ns
    again = CliRunner().invoke(command, [str(small), "-o", str(out), "--json"])
    assert msgspec.json.decode(again.stdout) == {
        "path": str(out),
        "written": False,
        "requests": 3,
        "bytes": out.stat().st_size,
        "fingerprint": hashlib.sha256(out.read_bytes()).hexdigest(),
    }
    assert out.stat().st_mtime_ns == written_at
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.jsonl", "small.toml"]


def test_a_file_with_other_content_is_kept_unless_forced(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("mine")
    refused = CliRunner().invoke(command, [str(small), "-o", str(out)])
    assert isinstance(refused.exception, UsageError)
    assert refused.exception.hint == "-o names another file; --force replaces this one"
    assert out.read_text() == "mine"
    assert CliRunner().invoke(command, [str(small), "-o", str(out), "--force"]).exit_code == 0
    assert out.read_text().startswith('{"unmoor_traffic":1')


@pytest.mark.parametrize("out", ["no/such/folder/out.jsonl", "."])
def test_a_place_that_cannot_be_written_is_refused(small: Path, tmp_path: Path, out: str) -> None:
    refused = CliRunner().invoke(command, [str(small), "-o", str(tmp_path / out)])
    assert isinstance(refused.exception, UsageError)
    assert refused.exception.message in {"cannot be written", "is no file"}
    assert refused.exception.hint


def test_json_without_a_file_is_refused(small: Path) -> None:
    refused = CliRunner().invoke(command, [str(small), "--json"])
    assert isinstance(refused.exception, UsageError)
    assert refused.exception.expected == "-o OUT beside --json"


@pytest.mark.parametrize(
    ("old", "new", "message", "line", "hint"),
    [
        ("rate_rps", "rate_rp", "unknown key 'rate_rp'", 2, "did you mean 'rate_rps'?"),
        ("rate_rps = 2\n", "", "missing key or table 'rate_rps'", 1, "docs/reference/traffic.md lists every key"),
        ("rate_rps = 2", "rate_rps = '2'", "wrong value for 'rate_rps'", 2, None),
        ("rate_rps = 2", "rate_rps = inf", "'rate_rps' is out of range", 2, None),
        ("rate_rps = 2", "rate_rps = nan", "'rate_rps' is out of range", 2, None),
        ("rate_rps = 2", "rate_rps = ", "not valid TOML", 2, None),
        ("requests = 3", "requests = 0", "'requests' is out of range", 1, None),
        ("output_tokens = 5", "output_tokens = 5\nspread = 1.5", "'spread' is out of range", 5, None),
        (
            "output_tokens = 5",
            "output_tokens = 5\nshared_prefix_tokens = -1",
            "'shared_prefix_tokens' is out of range",
            5,
            None,
        ),
        (
            "output_tokens = 5",
            "output_tokens = 5\nshared_prefix_tokens = 21",
            "the shared prefix is longer than the prompt",
            5,
            None,
        ),
    ],
)
def test_a_mistake_in_the_description_names_its_line(
    small: Path, *, old: str, new: str, message: str, line: int, hint: str | None
) -> None:
    small.write_text(SMALL.replace(old, new))
    refused = CliRunner().invoke(command, [str(small)])
    assert isinstance(refused.exception, PlanError)
    assert refused.exception.message == message
    assert refused.exception.where == f"{small}:{line}"
    assert hint in (None, refused.exception.hint)


def test_a_description_that_is_not_there_or_not_text_is_refused(small: Path, tmp_path: Path) -> None:
    missing = CliRunner().invoke(command, [str(tmp_path / "none.toml")])
    assert isinstance(missing.exception, PlanError)
    assert missing.exception.seen == "nothing at this path"
    small.write_bytes(b"requests = 3\n# \xff")
    refused = CliRunner().invoke(command, [str(small)])
    assert isinstance(refused.exception, PlanError)
    assert refused.exception.where == f"{small}:2"


def test_force_writes_through_a_link_and_leaves_it_a_link(small: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "target.jsonl", tmp_path / "link.jsonl"
    target.write_text("other")
    link.symlink_to(target)
    assert CliRunner().invoke(command, [str(small), "-o", str(link), "--force"]).exit_code == 0
    assert link.is_symlink()
    assert target.read_bytes().startswith(b'{"unmoor_traffic":1')
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.jsonl", "small.toml", "target.jsonl"]


def test_a_device_is_never_replaced(small: Path) -> None:
    refused = CliRunner().invoke(command, [str(small), "-o", "/dev/null", "--force"])
    assert isinstance(refused.exception, UsageError)
    assert Path("/dev/null").is_char_device()


def fingerprint_of_a_log(folder: Path) -> Path:
    log = b"".join(
        b'{"timestamp": %d, "input_length": 600, "output_length": 3, "hash_ids": [1, %d]}\n' % (1000 * i, i + 2)
        for i in range(4)
    )
    path = folder / "log.fp"
    path.write_bytes(b"".join(write(read_traffic(log, where="log"), key=bytes(32))))
    return path


def test_a_twin_is_written_for_its_owner_only_and_profiles_as_the_log_did(tmp_path: Path) -> None:
    out = tmp_path / "twin.jsonl"
    argv = ["--twin", str(fingerprint_of_a_log(tmp_path)), "-o", str(out), "--json"]
    done = CliRunner().invoke(command, argv)
    assert msgspec.json.decode(done.stdout)["requests"] == 4
    assert out.stat().st_mode & 0o777 == 0o600
    overlap = ideal(read_traffic(out.read_bytes(), where="twin"))
    assert overlap.tokens == 3 * 512 / 2400
    assert msgspec.json.decode(CliRunner().invoke(command, argv).stdout)["written"] is False
    other = CliRunner().invoke(command, [*argv, "--seed", "1"])
    assert isinstance(other.exception, UsageError)
    header = msgspec.json.decode(out.read_bytes().splitlines()[0])
    assert header["made_by"]["verb"] == "unmoor generate"
    assert header["made_by"]["seed"] == 0


def test_a_part_of_a_twin_at_another_rate(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        command, ["--twin", str(fingerprint_of_a_log(tmp_path)), "--requests", "3", "--rate", "0.5"]
    )
    lines = [msgspec.json.decode(line) for line in done.stdout.splitlines()[1:]]
    assert [line["arrival_s"] for line in lines] == [0.0, 2.0, 4.0]
    assert "caveat: This is a fingerprint" in done.stderr


@pytest.mark.parametrize(
    ("argv", "message", "where"),
    [
        ([], "one thing to make traffic from is needed", "unmoor generate"),
        (["small.toml", "--twin", "log.fp"], "one thing to make traffic from is needed", "unmoor generate"),
        (["small.toml", "--seed", "0"], "an option of twins", "--seed"),
        (["small.toml", "--rate", "2"], "an option of twins", "--rate"),
        (["--twin", "log.fp", "--rate", "0"], "no rate", "--rate"),
        (["--twin", "log.fp", "--rate", "inf"], "no rate", "--rate"),
        (["--twin", "log.fp", "--requests", "0"], "not that many requests", "--requests"),
        (["--twin", "log.fp", "--requests", "5"], "not that many requests", "--requests"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    small: Path, tmp_path: Path, *, argv: list[str], message: str, where: str
) -> None:
    places = {"small.toml": str(small), "log.fp": str(fingerprint_of_a_log(tmp_path))}
    refused = CliRunner().invoke(command, [places.get(word, word) for word in argv])
    assert isinstance(refused.exception, UsageError)
    assert (refused.exception.message, refused.exception.where) == (message, where)


def test_a_log_is_no_fingerprint(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}\n')
    refused = CliRunner().invoke(command, ["--twin", str(log)])
    assert isinstance(refused.exception, TrafficError)
    missing = CliRunner().invoke(command, ["--twin", str(tmp_path / "none")])
    assert isinstance(missing.exception, TrafficError)
