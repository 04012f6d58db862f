from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from unmoor.cli.profile import command
from unmoor.core.plan import SyntheticTraffic
from unmoor.core.traffic import TokenCounts, TrafficProfile
from unmoor.traffic.readers import FORMATS
from unmoor.traffic.readers.unmoor_jsonl import Header

ROOT = Path(__file__).parent.parent.parent
AGENTS = ROOT / "examples" / "agents" / "traffic.jsonl"
PAGE = (ROOT / "docs" / "reference" / "traffic.md").read_text()


def unmoor(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "unmoor.cli", *args], capture_output=True, text=True, check=False)


def test_the_json_is_a_traffic_profile() -> None:
    done = CliRunner().invoke(command, [str(AGENTS), "--json"])
    assert done.exit_code == 0
    seen = msgspec.json.decode(done.stdout, type=TrafficProfile)
    assert seen.requests == 1200
    assert seen.format == "unmoor"
    assert seen.prefix_overlap == pytest.approx(0.8, abs=0.005)
    assert done.stdout.count("\n") == 1


def test_the_text_names_every_property_and_its_caveats(tmp_path: Path) -> None:
    log = tmp_path / "azure.csv"
    log.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,3,4\n2023-11-16 18:15:48,5,4\n")
    done = CliRunner().invoke(command, [str(log)])
    assert done.stdout.splitlines()[1:] == [
        "  requests        2 over 2.0 s, 0.5 requests/s",
        "  prompt tokens   mean 4, p50 4, p95 5; 8 in all",
        "  answer tokens   mean 4, p50 4, p95 4; 8 in all",
        "  prefix overlap  unknown",
        "  caveat          The source says nothing of content: prefix overlap is unknown, not zero.",
    ]


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
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: {log}")
    assert message in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_is_refused(tmp_path: Path) -> None:
    done = unmoor("profile", str(tmp_path))
    assert done.returncode == 2
    assert "seen:     a folder" in done.stderr


@pytest.mark.parametrize("struct", [TrafficProfile, TokenCounts, SyntheticTraffic, Header])
def test_every_key_has_its_line_in_the_reference(struct: type[msgspec.Struct]) -> None:
    assert [name for name in struct.__struct_fields__ if f"`{name}`" not in PAGE] == []


def test_every_format_has_its_line_in_the_reference() -> None:
    assert [name for name in FORMATS if f"| `{name}` |" not in PAGE] == []


def test_the_example_in_the_reference_is_the_start_of_the_reference_traffic() -> None:
    for line in AGENTS.read_text().splitlines()[1:3]:
        assert line in PAGE
