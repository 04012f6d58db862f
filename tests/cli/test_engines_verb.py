"""`unmoor engines` as a user runs it: a real process, with a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def unmoor(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "UNMOOR_HOME": str(home)}
    argv = [sys.executable, "-m", "unmoor.cli", "engines", *args]
    return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def test_an_empty_home_lists_what_is_known_and_how_to_bring_it(tmp_path: Path) -> None:
    done = unmoor(tmp_path)
    assert done.returncode == 0
    assert "not installed: unmoor engines install openvino" in done.stdout
    assert "not installed: it needs an NVIDIA GPU" in done.stdout
    assert "not here: unmoor engines fetch smollm2-135m-instruct" in done.stdout
    assert unmoor(tmp_path, "list").stdout == done.stdout


def test_json_is_one_object_with_every_engine(tmp_path: Path) -> None:
    seen = json.loads(unmoor(tmp_path, "--json").stdout)
    assert seen["home"] == str(tmp_path)
    assert {one["name"]: one["installed"] for one in seen["engines"]} == {
        "vllm": False,
        "sglang": False,
        "tensorrt-llm": False,
        "openvino": False,
    }
    assert seen["models"][0]["formats"] == []


def test_without_a_terminal_nothing_is_installed_unasked(tmp_path: Path) -> None:
    for args in (("install", "openvino"), ("fetch", "smollm2-135m-instruct")):
        done = unmoor(tmp_path, *args)
        assert done.returncode == 2
        assert "hint: --yes answers yes" in done.stderr
        assert "licence" in done.stderr
        assert done.stdout == ""
    assert list(tmp_path.rglob("*")) == []


def test_what_cannot_be_had_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    done = unmoor(tmp_path, "install", "vlm")
    assert (done.returncode, "did you mean 'vllm'?" in done.stderr) == (2, True)
    done = unmoor(tmp_path, "install", "tensorrt-llm", "--yes")
    assert (done.returncode, "needs an NVIDIA GPU" in done.stderr) == (1, True)
    done = unmoor(tmp_path, "fetch", "smollm")
    assert (done.returncode, "smollm2-135m-instruct" in done.stderr) == (2, True)
    assert "Traceback" not in done.stderr


def test_a_half_made_environment_is_not_called_installed(tmp_path: Path) -> None:
    (tmp_path / "engines" / "openvino" / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "engines" / "openvino" / "installed.json").write_text('{"name": "openv')
    seen = json.loads(unmoor(tmp_path, "list", "--json").stdout)
    assert not any(one["installed"] for one in seen["engines"])
