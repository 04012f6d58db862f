"""The forms of answers that `unmoor load` asks for, against the fake engine on a real socket."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unmoor.fake.engine import FakeEngine
from unmoor.fake.script import Ask, Script
from unmoor.launch.process import RunningEngine

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
COUNT = 18
QUICK = Script(ttft_s=0.02, gap_s=0.001)
GOOD = Script(ttft_s=0.02, gap_s=0.001, says='{"city": "Rome"}')


def load(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unmoor.cli", "load", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def measured(engine: FakeEngine, *args: object) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The report, and the bodies of the requests of the traffic."""
    # Too few for a rate to be missed: this machine may be busy with other things.
    done = load(engine.url, "--rate", 100, "--requests", COUNT, "--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), [json.loads(body) for body in engine.seen[1:]]


def written(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("endpoint", ["chat", "completions", "responses"])
@pytest.mark.parametrize("streamed", [True, False])
def test_every_endpoint_answers_streamed_or_in_one_piece(endpoint: str, streamed: bool) -> None:  # noqa: FBT001
    with FakeEngine(QUICK) as engine:
        found, bodies = measured(engine, "--endpoint", endpoint, *([] if streamed else ["--no-stream"]))
    assert (found["failed"], found["endpoint"], found["asked"]["stream"]) == (0, endpoint, streamed)
    assert all(body.get("stream", False) is streamed for body in bodies)
    assert COUNT * 28 < found["output_tokens"] < COUNT * 36
    assert found["metrics"]["e2e_s"]["n"] == COUNT
    assert found["metrics"]["ttft_s"]["n"] == found["metrics"]["ttfa_s"]["n"] == (COUNT if streamed else 0)
    assert found["metrics"]["ttft_s"]["p50"] is None or streamed


def test_reasoning_delays_the_answer_and_not_the_first_token() -> None:
    script = Script(ttft_s=0.02, gap_s=0.01, tokens=20, leading=10)
    with FakeEngine(script) as engine:
        found, _ = measured(engine)
        text = load(engine.url, "--rate", 100, "--requests", 5).stdout
    metrics = found["metrics"]
    assert metrics["ttfa_service_s"]["p50"]["value"] > metrics["ttft_service_s"]["p50"]["value"]
    assert found["reasoning_tokens"] == 10 * COUNT
    assert "first answer from due" in text


def test_answers_that_fit_the_schema_are_counted(tmp_path: Path) -> None:
    schema = written(tmp_path / "city.json", SCHEMA)
    flip = iter(range(10**6))

    def choose(_: Ask) -> Script:
        return GOOD if next(flip) % 2 else QUICK  # the first answer is of no figure

    with FakeEngine(choose) as engine:
        found, bodies = measured(engine, "--schema", schema)
        text = load(engine.url, "--rate", 100, "--requests", 5, "--schema", schema).stdout
    assert bodies[0]["response_format"]["json_schema"]["schema"] == SCHEMA
    assert not any("ignore_eos" in body for body in bodies)
    assert (found["valid"]["value"], found["valid"]["n"]) == (0.5, COUNT)
    assert "had the form asked for" in text


def test_schemas_of_a_folder_are_drawn_for_each_request(tmp_path: Path) -> None:
    others = [{**SCHEMA, "properties": {"city": {"type": "string", "maxLength": most}}} for most in (3, 8)]
    for number, schema in enumerate(others):
        written(tmp_path / f"{number}.json", schema)
    with FakeEngine(GOOD) as engine:
        found, bodies = measured(engine, "--schema", tmp_path, "--seed", 1)
    asked = Counter(others.index(body["response_format"]["json_schema"]["schema"]) for body in bodies)
    assert min(asked[0], asked[1]) > 2
    assert found["asked"]["schemas"] == 2
    assert found["valid"]["value"] == pytest.approx(asked[1] / COUNT)  # "Rome" has four letters


def test_an_answer_cut_at_its_length_is_told_from_one_that_is_wrong(tmp_path: Path) -> None:
    schema = written(tmp_path / "city.json", SCHEMA)
    for endpoint in ("chat", "responses"):
        cut = Script(ttft_s=0.02, gap_s=0.001, says='{"city": "Ro', finish_reason="length")
        with FakeEngine(cut) as engine:
            found, _ = measured(engine, "--schema", schema, "--endpoint", endpoint)
        assert found["valid"]["value"] == 0.0
        assert "form_cut_short" in {caveat["code"] for caveat in found["caveats"]}
    with FakeEngine(QUICK) as engine:
        found, _ = measured(engine, "--schema", schema)
    assert "form_cut_short" not in {caveat["code"] for caveat in found["caveats"]}


@pytest.mark.real_engine
def test_a_real_engine_answers_by_a_schema_in_one_piece_or_streamed(embedded: RunningEngine, tmp_path: Path) -> None:
    city = {"type": "string", "enum": ["Paris", "Rome"]}
    shape = {"type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": False}
    schema = written(tmp_path / "city.json", shape)
    for form in ([], ["--no-stream"]):
        done = load(
            embedded.url, "--rate", 4, "--requests", 6, "--input-tokens", 60, "--output-tokens", 60, "--json",
            "--schema", schema, *form,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert (found["failed"], found["valid"]["value"], found["valid"]["n"]) == (0, 1.0, 6)
        assert found["metrics"]["e2e_s"]["n"] == 6
        assert found["metrics"]["ttfa_s"]["n"] == (0 if form else 6)


def test_tools_are_offered_and_their_calls_checked(tmp_path: Path) -> None:
    tools = written(tmp_path / "tools.json", [TOOL])
    called = Script(ttft_s=0.02, gap_s=0.001, says='{"city": "Rome"}', channel="tool_calls", tool="weather")
    with FakeEngine(called) as engine:
        chat, bodies = measured(engine, "--tools", tools, "--tool-choice", "weather")
        seen = len(engine.seen)
        responses, _ = measured(engine, "--tools", tools, "--endpoint", "responses")
        flat = json.loads(engine.seen[seen + 1])
    assert bodies[0]["tools"] == [TOOL]
    assert bodies[0]["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert flat["tools"] == [{"type": "function", "name": "weather", "parameters": SCHEMA}]
    assert chat["valid"]["value"] == responses["valid"]["value"] == 1.0
    assert chat["asked"] == {
        "stream": True, "choices": 1, "schemas": 0, "tools": 1, "tool_choice": "weather", "adapters": {},
    }  # fmt: skip


def test_several_choices_are_whole_when_all_have_finished(tmp_path: Path) -> None:
    with FakeEngine(QUICK) as engine:
        found, bodies = measured(engine, "--n", 3)
    assert {body["n"] for body in bodies} == {3}
    assert (found["failed"], found["metrics"]["tpot_s"]["n"], found["metrics"]["itl_s"]["n"]) == (0, 0, 0)
    answers = iter(range(10**6))
    unfinished = Script(ttft_s=0.02, gap_s=0.001, unfinished=1)

    def choose(_: Ask) -> Script:
        return unfinished if next(answers) else QUICK

    records = tmp_path / "records.jsonl"
    with FakeEngine(choose) as engine:
        found, _ = measured(engine, "--n", 3, "--records", records)
    assert found["failures"] == {"cut": COUNT}
    assert {json.loads(line)["choices"] for line in records.read_text().splitlines()} == {3}


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        (["--adapters", "a,b"], lambda counts: counts["a"] > 60 and counts["b"] > 60),
        (["--adapters", "a=9,b=1"], lambda counts: counts["a"] > 4 * counts["b"] > 0),
        (["--adapters", "a,b,c", "--adapters-zipf", "2"], lambda counts: counts["a"] > 2 * counts["b"] > 0),
    ],
)
def test_adapters_are_asked_by_weight(asked: list[str], fits: Callable[[Counter[str]], bool], tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    with FakeEngine(QUICK) as engine:
        few = ("--requests", 200, "--output-tokens", 2, "--seed", 1)
        done = load(engine.url, "--rate", 400, *few, "--json", "--records", records, *asked)
        bodies = [json.loads(body) for body in engine.seen[1:]]
    assert done.returncode in {0, 3}, done.stderr  # void where this machine was too busy to send at that rate
    found = json.loads(done.stdout)
    counts = Counter(body["model"] for body in bodies)
    assert fits(counts), counts
    assert found["models"] == counts
    assert Counter(json.loads(line)["model"] for line in records.read_text().splitlines()) == counts


def test_turns_of_a_session_ask_one_adapter(tmp_path: Path) -> None:
    rows = [
        {"arrival_s": place / 100, "input_tokens": 30, "output_tokens": 2, "session_id": f"s{place % 6}"}
        for place in range(60)
    ]
    log = tmp_path / "log.csv"
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    log.write_text("\n".join(lines) + "\n")
    with FakeEngine(QUICK) as engine:
        done = load(engine.url, "--traffic", log, "--adapters", "a,b,c", "--json", "--records", tmp_path / "out.jsonl")
    assert done.returncode in {0, 3}, done.stderr
    of_session: dict[int, set[str]] = {}
    for line in (tmp_path / "out.jsonl").read_text().splitlines():
        record = json.loads(line)
        of_session.setdefault(record["index"] % 6, set()).add(record["model"])
    assert all(len(asked) == 1 for asked in of_session.values())
    assert len(set.union(*of_session.values())) > 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--n", "2", "--endpoint", "responses"], "the responses endpoint does not know it"),
        (["--tools", "TOOLS", "--endpoint", "completions"], "the completions endpoint does not know it"),
        (["--tool-choice", "auto"], "--tool-choice without --tools"),
        (["--tools", "TOOLS", "--tool-choice", "wether"], "auto, none, required, weather"),
        (["--tools", "SCHEMA"], "not tools"),
        (["--tools", "/nowhere/tools.json"], "cannot be read"),
        (["--schema", "TOOLS"], "no JSON schema"),
        (["--schema", "/nowhere/schema.json"], "cannot be read"),
        (["--schema", "FOLDER"], "not all are schemas"),
        (["--adapters", "a,,b"], "no mix of names"),
        (["--adapters", "a,a"], "no mix of names"),
        (["--adapters", "a=0,b=1"], "no mix of names"),
        (["--adapters", "a=x"], "no mix of names"),
        (["--adapters", "a=2,b=1", "--adapters-zipf", "1"], "no mix of names"),
        (["--adapters-zipf", "1"], "without --adapters"),
        (["--adapters", "a", "--model", "m"], "beside --model"),
    ],
)
def test_what_cannot_be_asked_is_one_clear_error(asked: list[str], said: str, tmp_path: Path) -> None:
    named = {
        "TOOLS": str(written(tmp_path / "tools.json", [TOOL])),
        "SCHEMA": str(written(tmp_path / "schema.json", SCHEMA)),
        "FOLDER": str(tmp_path),
    }
    done = load("http://127.0.0.1:9", *(named.get(word, word) for word in asked))
    assert done.returncode == 2
    assert said in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
