"""`unmoor bakeoff` and `unmoor report` as a user runs them: what goes wrong, and a small real one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unmoor.bakeoff.result import BakeoffResult, Finding
from unmoor.launch.environments import installed
from unmoor.launch.models import find_model

ROOT = Path(__file__).parent.parent.parent
LOCAL = ROOT / "examples" / "local" / "plan.toml"
MODEL = "smollm2-135m-instruct"


def unmoor(*args: str | Path, home: Path | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = os.environ if home is None else {**os.environ, "UNMOOR_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "unmoor.cli", *map(str, args)],
        capture_output=True, text=True, check=False, env=env, cwd=cwd,
    )  # fmt: skip


def plan(folder: Path, *replaced: tuple[str, str]) -> Path:
    text = LOCAL.read_text()
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    path = folder / "plan.toml"
    path.write_text(text)
    return path


def test_a_candidate_that_is_not_installed_is_an_error_with_the_way_to_it(tmp_path: Path) -> None:
    found = unmoor("bakeoff", LOCAL, "--runs", tmp_path / "runs", home=tmp_path / "home")
    assert found.returncode == 1
    assert "'openvino' is not installed here" in found.stderr
    assert "hint: unmoor engines install openvino" in found.stderr
    assert found.stdout == ""
    assert not (tmp_path / "runs").exists()


def test_where_every_candidate_is_optional_and_none_is_here_it_is_an_error_too(tmp_path: Path) -> None:
    only = plan(tmp_path, ('engine = "openvino"', 'engine = "openvino"\noptional = true'))
    found = unmoor("bakeoff", only, "--json", home=tmp_path / "home", cwd=tmp_path)
    assert found.returncode == 1
    assert "skipped, as the plan allows: vllm" in found.stderr
    assert "hint:" in found.stderr


def test_an_engine_that_nobody_knows_is_the_users_mistake(tmp_path: Path) -> None:
    found = unmoor("bakeoff", plan(tmp_path, ('"openvino"', '"openvina"')), home=tmp_path / "home")
    assert found.returncode == 2
    assert "did you mean 'openvino'?" in found.stderr


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('engine = "openvino"', 'engine = "openvino"\nsettings = { prefix_cashing = true }', "prefix_caching"),
        ('engine = "openvino"', 'engine = "openvino"\nsettings = { prefix_caching = 5 }', "true or false"),
        ("[hardware]", '[gates]\nhardware_possible = ["nvidea"]\n\n[hardware]', "nvidia"),
        ('name = "local"', 'name = "local"\ndefault_engine = "vlm"', "vllm"),
        ("warmup_requests = 2", "warmup_requests = 100000", "fewer than"),
    ],
)
def test_what_the_plan_gets_wrong_is_said_with_its_line_before_anything_is_made(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    wrong = plan(tmp_path, (old, new))
    found = unmoor("bakeoff", wrong, "--runs", tmp_path / "runs", home=tmp_path / "home")
    word = re.findall(r"\w+(?= = (?:true|5|1000))|nvidea|default_engine", new)[0]
    number = next(n for n, line in enumerate(wrong.read_text().splitlines(), 1) if word in line)
    assert found.returncode == 2, found.stderr
    assert f"{wrong}:{number}: " in found.stderr
    assert told in found.stderr
    assert not (tmp_path / "runs").exists()


def test_an_engine_that_cannot_be_launched_here_is_not_to_be_installed(tmp_path: Path) -> None:
    found = unmoor("bakeoff", plan(tmp_path, ('"openvino"', '"sglang"')), home=tmp_path / "home", cwd=tmp_path)
    assert found.returncode == 1
    assert "SGLang cannot be launched here" in found.stderr
    assert "engines install sglang" not in found.stderr
    assert "hint:" in found.stderr


@pytest.mark.parametrize("device", ["h100_sxm", "mi300x"])
def test_a_plan_for_other_hardware_is_refused_before_any_engine_is_looked_for(tmp_path: Path, device: str) -> None:
    other = plan(tmp_path, ('device = "cpu"', f'device = "{device}"'))
    found = unmoor("bakeoff", other, "--json", "--runs", tmp_path / "runs", home=tmp_path / "home")
    number = other.read_text().splitlines().index(f'device = "{device}"') + 1
    assert found.returncode == 2
    assert found.stdout == ""
    assert f"{other}:{number}: " in found.stderr
    assert f'seen:     device = "{device}"' in found.stderr
    assert 'expected: device = "cpu"' in found.stderr
    assert "hint:" in found.stderr
    assert "is not installed" not in found.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("name", "seen"), [("nothing", "nothing at this path"), ("folder", "a folder without run.json"), ("file", "a file")]
)
def test_a_path_without_a_run_is_the_users_to_mend(tmp_path: Path, name: str, seen: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    found = unmoor("report", tmp_path / name)
    assert found.returncode == 2
    assert f"seen:     {seen}" in found.stderr
    assert "hint:" in found.stderr


def test_a_run_whose_file_is_broken_is_the_worlds_failure(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    found = unmoor("report", tmp_path)
    assert found.returncode == 1
    assert "hint:" in found.stderr
    assert "Traceback" not in found.stderr


def missing(*engines: str) -> str:
    absent = [f"{name} is not installed: unmoor engines install {name}" for name in engines if installed(name) is None]
    if find_model(MODEL) is None:
        absent.append(f"the demo model is not here: unmoor engines fetch {MODEL}")
    return "; ".join(absent)


ALONE = missing("openvino")
BESIDE_VLLM = missing("openvino", "vllm")
VLLM_CANDIDATE = LOCAL.read_text().partition('engine = "openvino"\n')[2].partition("\n[bakeoff]")[0]


@pytest.mark.real_engine
@pytest.mark.skipif(bool(ALONE), reason=ALONE or "-")
def test_a_small_bakeoff_on_the_embedded_engine_finds_what_a_prefix_cache_is_worth(tmp_path: Path) -> None:
    """Three settings, two starts each, real tokens; and everything that is owed afterwards, from the same run."""
    small = plan(tmp_path, ("requests = 14", "requests = 8"), (VLLM_CANDIDATE, ""))
    first = unmoor("bakeoff", small, "--json", "--runs", tmp_path / "runs", "--html", tmp_path / "page.html")
    assert first.returncode == 0, first.stderr
    result = msgspec.json.decode(first.stdout, type=BakeoffResult)
    engine = next(engine for engine in result.engines if engine.engine == "openvino")
    assert result.finished
    assert len(engine.trials) >= 3
    assert all(trial.blocks >= 2 for trial in engine.trials)
    assert all(trial.failures == 0 for trial in engine.trials)
    cached = engine.trial("prefix_caching=true")
    assert cached is not None
    ratio = next(found for found in cached.against_defaults if found.metric == "scheduled_e2e_s")
    assert ratio.effect is not None
    assert ratio.effect < 1, "three quarters of every prompt need no second prefill"
    codes = {caveat.code for trial in engine.trials for caveat in trial.caveats}
    assert not codes & {"prompt_length_off", "short_outputs", "usage_not_reported", "failed_requests"}
    assert "<svg" in (tmp_path / "page.html").read_text()
    (run,) = (tmp_path / "runs").iterdir()
    again = unmoor("report", run, "--json")
    assert json.loads(again.stdout) == json.loads(first.stdout)
    _assert_nothing_is_repeated(small, tmp_path / "runs", json.loads(first.stdout))


def _assert_nothing_is_repeated(small: Path, runs: Path, first: Any) -> None:  # noqa: ANN401 - JSON as it was parsed
    (records,) = runs.glob("*/records.jsonl")
    before = records.read_bytes()
    second = unmoor("bakeoff", small, "--json", "--runs", runs)
    assert second.returncode == 0
    assert records.read_bytes() == before
    assert json.loads(second.stdout)["engines"] == first["engines"]


@pytest.mark.real_engine
@pytest.mark.skipif(bool(BESIDE_VLLM), reason=BESIDE_VLLM or "-")
def test_vllm_is_tuned_beside_the_embedded_engine_and_not_ranked_against_other_precision(tmp_path: Path) -> None:
    small = plan(
        tmp_path, ("requests = 14", "requests = 6"), ("rate_rps = 2.0", "rate_rps = 1.0"), ("blocks = 2", "blocks = 1"),
        ("optional = true", "optional = false"),
    )  # fmt: skip
    found = unmoor("bakeoff", small, "--json", "--runs", tmp_path / "runs")
    assert found.returncode == 0, found.stderr
    result = msgspec.json.decode(found.stdout, type=BakeoffResult)
    assert [engine.engine for engine in result.engines] == ["openvino", "vllm"]
    for engine in result.engines:
        assert len([trial for trial in engine.trials if trial.requests]) >= 3
        assert all(trial.failures == 0 for trial in engine.trials)
        assert engine.best
    (versus,) = result.versus
    assert not versus.comparable
    assert {found.finding for found in versus.comparisons} == {Finding.NOT_COMPARABLE}
    assert result.verdict.startswith("NOT COMPARABLE")
    (run,) = (tmp_path / "runs").iterdir()
    _assert_decide_takes_it_as_measured(small, run)


def _assert_decide_takes_it_as_measured(small: Path, run: Path) -> None:
    priced = small.with_name("priced.toml")
    priced.write_text(small.read_text() + "\n[prices]\ndevice_hour = 0.10\n")
    decided = json.loads(unmoor("decide", priced, "--run", run, "--json").stdout)
    for candidate in decided["candidates"]:
        goodput = next(f for f in candidate["evidence"] if f["metric"] == "goodput_rps")
        assert goodput["kind"] == "measured"
        assert (candidate["cost"]["per_million_good_requests"] is not None) == (goodput["value"] > 0)
    assert "NOT COMPARABLE" in decided["verdict"]["sentence"]
    other = small.with_name("other.toml")
    other.write_text(small.read_text().replace("ttft_s = 0.3", "ttft_s = 2.0"))
    refused = unmoor("decide", other, "--run", run)
    assert refused.returncode == 2
    assert "measured with another slo than the plan's" in refused.stderr
