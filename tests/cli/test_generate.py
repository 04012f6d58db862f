from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from unmoor.cli.generate import command
from unmoor.core.errors import PlanError, UsageError

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
