"""Results in SARIF stand in the file that they are about, at its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unmoor.cli.main import run

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "move"


@pytest.mark.parametrize("traffic", [True, False], ids=["with traffic", "without"])
def test_each_result_stands_where_it_was_found(tmp_path: Path, *, traffic: bool) -> None:
    start, log, out = EXAMPLE / "start.sh", EXAMPLE / "requests.jsonl.gz", tmp_path / "out.sarif"
    args = ["move", "check", "--from", "vllm@0.33.0", "--to", "sglang@0.5.23", "--start", str(start)]
    args += ["--dashboards", str(EXAMPLE / "dashboards"), "--sarif", str(out)]
    run([*args, "--traffic", str(log)] if traffic else args)
    for result in json.loads(out.read_text())["runs"][0]["results"]:
        place = result["locations"][0]["physicalLocation"]
        file, line = place["artifactLocation"]["uri"], place["region"]["startLine"]
        subject = result["message"]["text"].partition(" ")
        if subject[0] == "flag":
            flag = subject[2].split(":")[0].removesuffix(" (left out)")
            assert file.endswith("examples/move/start.sh")
            assert line == 1 or flag in start.read_text().splitlines()[line - 1]
        elif subject[0] in {"metric", "route"}:
            found = next(path for path in (EXAMPLE / "dashboards").iterdir() if file.endswith(path.name))
            name = subject[2].split(": ")[0].removeprefix("vllm:")
            assert name in found.read_text().splitlines()[line - 1]
        elif result["properties"]["requests"]:
            assert file.endswith("examples/move/requests.jsonl.gz")
