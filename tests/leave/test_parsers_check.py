"""Recorded outputs through both sides' parsers: each kind fires on a small log, and not on its clean twin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from unmoor.launch.output_parsers import parsers_environment

KINDS = {"UM108", "UM154", "UM155"}
QWEN, LLAMA = "Qwen/Qwen3-8B", "llama-3.1-8b-instruct"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zanzibar"}}\n</tool_call>'
JSON_CALL = '{"name": "get_weather", "parameters": {"city": "Zanzibar"}}'
OFF = {"enable_thinking": False}


def exchange(content: str | None, *, model: str = QWEN, tools: bool = True, **more: object) -> dict[str, Any]:
    """A request, and the answer that the log has of it."""
    request: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "Zanzibar?"}]}
    if tools:
        request["tools"] = [WEATHER]
    for name in ("chat_template_kwargs", "tool_choice"):
        if name in more:
            request[name] = more.pop(name)
    message = {"role": "assistant", "content": content, **more}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    return {"timestamp": 1_700_000_000, "request": request, "response": {"choices": choices}}


def recorded(name: str, city: str = "Zanzibar") -> list[dict[str, Any]]:
    return [{"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps({"city": city})}}]


def check(
    home: Path, log: Path, lines: Sequence[dict[str, Any]], *more: str, to: str = "sglang", source: str = "vllm@0.32.0"
) -> dict[str, Any]:
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    argv = [sys.executable, "-m", "unmoor.cli", "move", "check", "--from", source, "--to", to]
    env = {**os.environ, "UNMOOR_HOME": str(home)}
    done = subprocess.run(
        [*argv, "--traffic", str(log), "--json", *more], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode in {0, 3}, done.stderr
    assert "Zanzibar" not in done.stdout + done.stderr
    assert "secret_tool" not in done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def told(report: dict[str, Any]) -> list[tuple[str, str, tuple[int, ...]]]:
    """Each finding of these checks: its kind, its outcome, its lines."""
    found = [(one["kind"], one["outcome"], tuple(one["lines"])) for one in report["findings"]]
    return sorted(one for one in found if one[0] in KINDS)


ODD = [
    exchange(CALL.replace("get_weather", "secret_tool")),  # 1: a function that is not among the tools
    exchange('<tool_call>\n{"name": "get_weather"}\n</tool_call>'),  # 2: no arguments
    exchange(CALL.replace("\n</tool_call>", "")),  # 3: cut off, which one of the target's parsers loses
    exchange(f"Sure: {JSON_CALL}", model=LLAMA),  # 4: text before a call
    exchange(None, tool_calls=recorded("secret_tool")),  # 5: the same as 1, parsed by the source
    exchange("<think>hm</think>Yes.", tools=False, chat_template_kwargs=OFF),  # 6: thinking switched off
]
FOUND = [
    ("UM108", "lost", (1,)),
    ("UM108", "lost", (4,)),
    ("UM108", "lost", (5,)),
    ("UM108", "translated", (2,)),
    ("UM108", "translated", (3,)),
    ("UM154", "translated", (6,)),
]
CLEAN = [
    exchange(CALL),
    exchange(f"<think>\nhm\n</think>\n\n{CALL}"),
    exchange("<think>\nhm\n</think>\n\nYes."),
    exchange("Yes."),
    exchange("Yes.", reasoning="hm"),
    exchange(None, tool_calls=recorded("get_weather")),
    exchange("Let me look.", tool_calls=recorded("get_weather")),
    exchange(JSON_CALL, model=LLAMA),
    exchange(f"{CALL}\n{CALL.replace('Zanzibar', 'Oslo')}"),
    exchange("<tool_call> is how I would call.", tools=False, tool_choice="none"),
    exchange('[{"name": "get_weather"}]', tool_choice="required"),
]


def test_the_table_finds_what_is_read_otherwise(tmp_path: Path) -> None:
    report = check(tmp_path, tmp_path / "log.jsonl", ODD)
    assert told(report) == FOUND
    found = [one for one in report["findings"] if one["kind"] in KINDS]
    assert {one["by"] for one in found} == {"table"}
    assert all(one["sources"] for one in found)
    assert all("parser_assumed" in {caveat["code"] for caveat in one["caveats"]} for one in found)
    (rebuilt,) = [one for one in found if "output_rebuilt" in {caveat["code"] for caveat in one["caveats"]}]
    assert rebuilt["lines"] == [5]
    hermes = next(one for one in found if one["lines"] == [3])
    assert "--tool-call-parser hermes" in hermes["fix"]
    assert "`qwen25`" in hermes["seen"]
    assert any("the table answered" in why for why in report["not_looked_at"])


@pytest.mark.real_engine
@pytest.mark.parametrize(("lines", "expected"), [(ODD, FOUND), (CLEAN, [])], ids=["odd", "clean"])
def test_the_engines_own_parsers_find_the_same(
    tmp_path: Path, lines: list[dict[str, Any]], expected: list[tuple[str, str, tuple[int, ...]]]
) -> None:
    if parsers_environment("vllm") is None or parsers_environment("sglang") is None:
        pytest.skip("needs the parsers of vllm and of sglang")
    report = check(Path(os.environ["UNMOOR_HOME"]), tmp_path / "log.jsonl", lines)
    assert told(report) == expected
    for one in report["findings"]:
        if one["kind"] in KINDS:
            assert one["by"] == "the parsers of vLLM 0.32.0; the parsers of SGLang 0.5.23"
    assert not any("the table answered" in why for why in report["not_looked_at"] if why.startswith("parsers"))


@pytest.mark.parametrize("to", ["sglang", "vllm@0.32.0"])
def test_a_clean_log_has_no_finding(tmp_path: Path, to: str) -> None:
    assert told(check(tmp_path, tmp_path / "log.jsonl", CLEAN, to=to)) == []


def test_the_flags_of_the_source_say_its_parsers(tmp_path: Path) -> None:
    start = tmp_path / "start.sh"
    start.write_text("vllm serve my-model --enable-auto-tool-choice --tool-call-parser hermes\n")
    lines = [exchange(CALL.replace("get_weather", "secret_tool"), model="my-model")]
    report = check(tmp_path, tmp_path / "log.jsonl", lines, "--start", str(start))
    assert told(report) == [("UM108", "lost", (1,))]
    (found,) = [one for one in report["findings"] if one["kind"] == "UM108"]
    assert "`hermes` on vLLM" in found["seen"]
    assert "parser_assumed" not in {caveat["code"] for caveat in found["caveats"]}
    start.write_text("vllm serve my-model\n")
    assert told(check(tmp_path, tmp_path / "log.jsonl", lines, "--start", str(start))) == []


def test_a_family_that_the_target_has_no_parser_for_is_told_with_its_requests_alone(tmp_path: Path) -> None:
    lines = [exchange("Yes.", model=LLAMA), exchange("Yes."), exchange("Yes.", model=LLAMA, tools=False)]
    assert told(check(tmp_path, tmp_path / "log.jsonl", lines, to="tensorrt-llm")) == [("UM155", "lost", (1,))]
    assert told(check(tmp_path, tmp_path / "log.jsonl", lines, to="sglang")) == []


def test_how_a_model_writes_is_stronger_than_its_name(tmp_path: Path) -> None:
    lines = [exchange(CALL.replace("get_weather", "secret_tool"), model="hermes-made-of-llama-3.1")]
    report = check(tmp_path, tmp_path / "log.jsonl", lines)
    (found,) = [one for one in report["findings"] if one["kind"] == "UM108"]
    assert "Qwen" in found["seen"]
    assert "marks in its outputs alone" in found["caveats"][-1]["text"]


@pytest.mark.real_engine
def test_another_version_than_the_one_that_is_meant_is_named(tmp_path: Path) -> None:
    if parsers_environment("vllm") is None or parsers_environment("sglang") is None:
        pytest.skip("needs the parsers of vllm and of sglang")
    home = Path(os.environ["UNMOOR_HOME"])
    report = check(home, tmp_path / "log.jsonl", ODD[:1], source="vllm@0.33.0")
    (found,) = [one for one in report["findings"] if one["kind"] == "UM108"]
    assert found["by"].startswith("the parsers of vLLM 0.32.0 (0.33.0 is meant)")


def test_where_nothing_says_the_family_that_is_told_and_nothing_is_guessed(tmp_path: Path) -> None:
    lines = [exchange("<think>hm</think>Yes.", model="my-model", tools=False)]
    report = check(tmp_path, tmp_path / "log.jsonl", lines)
    assert told(report) == []
    assert any("of which family the model of 1 output is" in why for why in report["not_looked_at"])
