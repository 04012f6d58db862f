"""`unmoor exit-plan` as a user runs it: the real example plans, in a process of its own."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from test_measured_run import PLAN as MEASURED_PLAN
from test_measured_run import a_run, alike

from unmoor.leave.exit_plan.exit_plan import ExitPlan

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
EXIT = EXAMPLES / "exit" / "plan.toml"
AGENTS = EXAMPLES / "agents" / "plan.toml"
LOCAL = EXAMPLES / "local" / "plan.toml"
AS_OF = ("--as-of", "2026-12-01")
SECTIONS = [
    "Open risks", "What is outside the runtime, and where it lives", "What a move away from", "Names that belong to",
    "Hardware that stays possible with these weights", "Licences, stewardship and security contacts of both sides",
    "What was rehearsed", "When this page goes stale", "Three checks before the runtime is committed to",
    "Two lines to",
]  # fmt: skip


NO_ENGINES = {"UNMOOR_HOME": str(Path(tempfile.gettempdir()) / "unmoor-tests-without-engines")}
"""Installed libraries and parsers are asked in their own tests; here each document would start them anew."""


def unmoor(*args: str | Path, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "unmoor.cli", *map(str, args)],
        capture_output=True, text=True, check=False, cwd=cwd, env={**os.environ, **NO_ENGINES, **more},
    )  # fmt: skip


@cache
def document(*args: str | Path) -> str:
    done = unmoor("exit-plan", *args, *AS_OF)
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_json(*args: str | Path) -> Any:  # noqa: ANN401 - JSON as it was parsed
    return json.loads(document(*args, "--json"))


def small_model(root: Path) -> Path:
    """A model's folder with one tensor."""
    root.mkdir()
    header = json.dumps({"a.weight": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}).encode()
    (root / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    (root / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16"}')
    return root


@pytest.mark.parametrize("plan", [EXIT, AGENTS, LOCAL], ids=lambda path: path.parent.name)
def test_every_example_plan_makes_a_whole_document(plan: Path) -> None:
    text = document(plan)
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert [heading.startswith(begins) for heading, begins in zip(headings, SECTIONS, strict=True)] == [True] * 10
    assert text.count("\n- [x] ") + text.count("\n- [ ] ") == 9
    assert len(re.findall(r"^> .", text, flags=re.MULTILINE)) == 2


def test_a_plan_that_records_nothing_is_told_so_in_every_place() -> None:
    text = document(AGENTS)
    kept = ["weights", "evals", "routing", "metering", "orchestration", "start of the engine", "adapters", "schemas"]
    for what in (*kept, "dashboards"):
        assert f"\n| {what} | not recorded |  |\n" in text
    assert "| Way out | not recorded; the plan's other candidates are looked at: " in text
    assert "\nNothing: no rehearsal is recorded by 2026-12-01.\n" in text
    assert "no folder of weights was looked at" in text
    assert "\n## Two lines to the owner of third-party risk (not recorded)\n" in text


def test_the_example_says_what_was_recorded_and_what_a_move_would_lose() -> None:
    found = as_json(EXIT)
    assert (found["serves"]["engine"], found["serves_by"], found["leave_to"]) == ("vllm", "plan", "sglang")
    seen = {place["what"]: place["seen"] for place in found["places"]}
    assert (seen["routing"], seen["start"], seen["dashboards"]) == ("there", "there", "there")
    assert (seen["evals"], seen["metering"], seen["model"]) == ("not looked at", "not recorded", "missing")
    (move,) = found["moves"]
    assert move["report"]["bodies"] > 300
    assert {finding["outcome"] for finding in move["report"]["findings"]} >= {"lost", "translated"}
    assert "UM121" in {finding["kind"] for finding in move["report"]["findings"]}  # names in the dashboards
    assert {"move_loses", "missing", "not_recorded", "stale"} <= {risk["code"] for risk in found["risks"]}
    assert [one["concept"] for one in found["engine_only"] if one["kind"] == "setting"] == [
        "max_running", "max_batch_tokens",
    ]  # fmt: skip
    assert found["letter"]["to"] == "Third-Party Risk"
    assert [one["on"] for one in found["rehearsals"]] == ["2026-11-12"]


def test_json_has_the_documented_keys_and_no_others() -> None:
    page = (ROOT / "docs" / "reference" / "exit-plan.md").read_text()
    found = as_json(EXIT)
    assert set(found) == set(ExitPlan.__struct_fields__)
    nested = [
        found, found["places"][0], found["weights"], found["goes_stale"][0], found["checks"][0]["steps"][0],
        found["serves"], found["serves"]["facts"][0], found["moves"][0], found["engine_only"][0],
        found["engine_only"][0]["there"][0], found["hardware_kinds"][0], found["hardware_kinds"][0]["engines"][0],
    ]  # fmt: skip
    for key in (key for one in nested for key in one):
        assert f"`{key}`" in page, key
    for risk in found["risks"]:
        assert f"`{risk['code']}`" in page, risk


def texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - JSON as it was parsed
    """Every text of ten words or more in a message."""
    match value:
        case str():
            if len(value.split()) >= 10:
                yield value
        case dict():
            for inner in value.values():
                yield from texts(inner)
        case list():
            for inner in value:
                yield from texts(inner)


def test_no_prompt_and_no_answer_is_in_it(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    shown = document(EXIT, "--html", page) + document(EXIT, "--json") + page.read_text()
    prompts: set[str] = set()
    with gzip.open(EXAMPLES / "move" / "requests.jsonl.gz", "rt") as log:
        for line in log:
            row = json.loads(line)
            prompts.update(
                texts(row["request"].get("messages")), texts(row["request"].get("prompt")), texts(row["response"])
            )
    assert len(prompts) > 300
    assert not [prompt for prompt in prompts if " ".join(prompt.split()[:10]) in shown]


def test_weights_are_hashed_where_the_command_line_names_them(tmp_path: Path) -> None:
    model = small_model(tmp_path / "m")
    found = as_json(LOCAL, "--model", model)
    whole = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    assert found["weights"]["files"][0]["sha256"] == whole
    assert found["places"][0] == {"what": "model", "where": str(model), "seen": "there"}
    assert found["weights"]["scheme"] == "none"
    text = document(LOCAL, "--model", model, "--no-hashes")
    assert whole not in text
    assert "| `model.safetensors` |" in text
    assert "| not hashed |" in text


def test_the_plans_own_model_is_found_from_its_folder(tmp_path: Path) -> None:
    small_model(tmp_path / "m")
    (tmp_path / "plan.toml").write_text(LOCAL.read_text() + '\n[exit]\nmodel = "${WEIGHTS:-elsewhere}"\n')
    done = unmoor("exit-plan", tmp_path / "plan.toml", "--json", *AS_OF, WEIGHTS="m")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["places"][0] == {"what": "model", "where": "${WEIGHTS:-elsewhere}", "seen": "there"}
    assert found["weights"]["files"][0]["name"] == "model.safetensors"


def test_a_bake_off_is_a_load_test_and_one_cut_short_no_tuning(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(MEASURED_PLAN)
    found = as_json(tmp_path / "plan.toml", "--run", a_run(tmp_path / "run", alike, finished=False))
    steps = {step["asked"].partition(" ")[0]: step for check in found["checks"] for step in check["steps"]}
    assert (steps["Run"]["done"], steps["Run"]["known_by"]) == (True, "seen")
    assert (steps["Tune"]["done"], steps["Tune"]["known_by"]) == (False, "")
    assert "what the bake-off measured" in found["decision_rests_on"]


def test_no_secret_of_a_start_file_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text("HF_TOKEN=hf_quokkaquokka vllm serve /m --api-key sk-quokka\n")
    sglang = '\n[[candidates]]\nengine = "sglang"\n[exit]\nserves = "vllm"\nstart = "start.sh"\n'
    (tmp_path / "plan.toml").write_text(LOCAL.read_text() + sglang)
    page = tmp_path / "page.html"
    shown = document(tmp_path / "plan.toml", "--html", page) + document(tmp_path / "plan.toml", "--json")
    assert "A start of sglang that says the same" in shown
    assert "quokka" not in shown + page.read_text()


def test_what_has_gone_stale_by_a_later_day_is_told() -> None:
    early, late = as_json(AGENTS)["goes_stale"], json.loads(
        unmoor("exit-plan", AGENTS, "--json", "--as-of", "2029-01-01").stdout
    )["goes_stale"]  # fmt: skip
    assert not all(one["stale"] for one in early)
    assert all(one["stale"] for one in late)
    assert [one["good_until"] for one in early] == [one["good_until"] for one in late]


def test_the_document_goes_to_a_file_and_over_nothing_else(tmp_path: Path) -> None:
    out, page = tmp_path / "exit.md", tmp_path / "pages" / "exit.html"
    done = unmoor("exit-plan", AGENTS, *AS_OF, "-o", out, "--html", page)
    assert (done.returncode, done.stdout) == (0, "")
    assert out.read_text() == document(AGENTS)
    assert page.read_text().startswith("<!doctype html>")
    assert unmoor("exit-plan", AGENTS, *AS_OF, "-o", out).returncode == 0  # the same again
    later = unmoor("exit-plan", AGENTS, "--as-of", "2027-06-01", "-o", out)
    assert later.returncode == 2
    assert "--force replaces this one" in later.stderr
    assert unmoor("exit-plan", AGENTS, "--as-of", "2027-06-01", "-o", out, "--force").returncode == 0
    assert "As of 2027-06-01." in out.read_text()


@pytest.mark.parametrize(
    ("args", "told", "code"),
    [
        (["--model", "gone"], "--model gone: there is no such model", 2),
        (["-o", "nowhere/exit.md"], "a folder that is not there", 2),
        (["--html", "-"], "for standard output", 2),
        (["--as-of", "soon"], "--as-of", 2),
        (["--run", "gone"], "gone", 2),
    ],
)
def test_a_mistake_in_the_call_is_one_error_with_a_hint(tmp_path: Path, args: list[str], told: str, code: int) -> None:
    done = unmoor("exit-plan", AGENTS, *args, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('leave_to = "openvin"', "'exit.leave_to' is no candidate"),
        ('model = "$NOBODY_SET_THIS/m"', "the variable NOBODY_SET_THIS is not set"),
        ('model = "~nobody-of-this-name/m"', "no such user's folder"),
        ('start = "plan.toml"', "plan.toml"),
        ('dashboards = ["weights.bin"]\nadapters = "nothing-in-it"', "nothing-in-it"),
    ],
)
def test_a_mistake_in_the_table_is_one_error_with_a_hint(tmp_path: Path, table: str, told: str) -> None:
    (tmp_path / "nothing-in-it").mkdir()
    (tmp_path / "weights.bin").write_bytes(bytes(64))
    (tmp_path / "plan.toml").write_text(f"{LOCAL.read_text()}\n[exit]\n{table}\n")
    done = unmoor("exit-plan", "plan.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
