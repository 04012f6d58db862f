"""A SARIF log takes the place of an older one of ours, and of nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = ("move", "check", "--from", "vllm@0.33.0", "--to", "sglang@0.5.23", "--start", "start.sh")
ANOTHER_TOOL = """{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
"runs": [{"tool": {"driver": {"name": "another"}}}]}"""


def unmoor(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    (cwd / "start.sh").write_text("vllm serve /models/m --max-num-seqs 64\n")
    argv = [sys.executable, "-m", "unmoor.cli", *map(str, args)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.mark.parametrize(
    "content",
    ["vllm serve /m\n", '{"request": {}}\n', '{"architectures": ["LlamaForCausalLM"]}', "", ANOTHER_TOOL],
    ids=["start", "log", "config", "empty", "another tool's"],
)
def test_what_is_no_log_of_ours_stays_as_it_is(content: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text(content)
    for verb in (CHECK, ("check-model", ".")):
        done = unmoor(*verb, "--sarif", "there", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert "there: will not be overwritten" in done.stderr
        assert "expected: no file yet, or an older SARIF log of unmoor" in done.stderr
        assert "hint: name another with --sarif, or remove this one" in done.stderr
    assert there.read_text() == content


def test_an_older_log_of_ours_gives_way_however_it_is_laid_out(tmp_path: Path) -> None:
    out = tmp_path / "out.sarif"
    assert unmoor(*CHECK, "--sarif", "out.sarif", cwd=tmp_path).returncode in {0, 3}
    first = json.loads(out.read_text())
    for older in (out.read_text(), json.dumps(first), json.dumps(first, indent=4)):
        out.write_text(older)
        done = unmoor(*CHECK, "--sarif", "out.sarif", cwd=tmp_path)
        assert done.returncode in {0, 3}, done.stderr
        assert json.loads(out.read_text()) == first
