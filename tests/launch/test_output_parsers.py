"""Engines' own parsers, run for real over the texts of the golden, and what hostile questions cost."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from unmoor.engines.output_parsers import parser_environments
from unmoor.launch.output_parsers import ask_parsers, parsers_environment
from unmoor.launch.probe import run_probe

GOLDEN = Path(__file__).parent.parent / "leave" / "goldens" / "parsers.jsonl"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
PACKAGE = """
import time
class ToolParserManager:
    @classmethod
    def list_registered(cls): return ["slow", "rude", "wide", "plain"]
class ReasoningParserManager:
    @classmethod
    def list_registered(cls): return []
class ChatCompletionRequest:
    def __init__(self, **fields): self.tools = fields["tools"]
class ParserManager:
    @classmethod
    def get_parser(cls, *, tool_parser_name, reasoning_parser_name, enable_auto_tools):
        class Parser:
            def __init__(self, *told, **more): pass
            def parse(self, text, request, **more):
                if tool_parser_name == "slow": time.sleep(600)
                if tool_parser_name == "rude": __import__("os")._exit(3)
                if tool_parser_name == "wide": raise ValueError(text)
                return None, text, None
        return Parser
"""


def question(name: str, tool: str | None = None, reasoning: str | None = None, text: str = HERMES) -> dict[str, Any]:
    return {
        "id": name, "tool": tool, "reasoning": reasoning, "text": text, "tools": [WEATHER], "template_kwargs": {},
    }  # fmt: skip


def golden(engine: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in GOLDEN.read_text().splitlines()[1:]]
    return [line for line in lines if line["engine"] == engine]


@pytest.mark.real_engine
@pytest.mark.parametrize("named", ["vllm@0.32.0", "sglang@0.5.23"])
def test_installed_parsers_say_what_they_said_when_the_golden_was_made(named: str) -> None:
    engine, _, version = named.partition("@")
    if parsers_environment(engine) is None:
        pytest.skip(f"needs the parsers of {engine}")
    kept = golden(named)
    asked = [
        {"id": str(at), **line["asked"], "tools": [WEATHER] if line["asked"]["tools"] else []}
        for at, line in enumerate(kept)
    ]
    replies = ask_parsers(engine, asked)
    assert replies is not None
    assert replies.version == version
    assert replies.toy_tokenizer
    told = [{key: value for key, value in replies.answers[str(at)].items() if key != "id"} for at in range(len(kept))]
    assert told == [line["told"] for line in kept]


@pytest.mark.real_engine
def test_a_name_that_the_version_has_not_is_told_and_the_rest_answered() -> None:
    if parsers_environment("sglang") is None:
        pytest.skip("needs the parsers of sglang")
    replies = ask_parsers("sglang", [question("a", "no_such"), question("b", "hermes")])
    assert replies is not None
    assert replies.answers["a"] == {"id": "a", "error": "no_such_parser"}
    assert replies.answers["b"]["calls"] == [{"name": "get_weather", "arguments": '{"city": "Rome"}'}]
    assert "hermes" in replies.names["tool"]


@pytest.mark.real_engine
def test_a_chat_template_decides_whether_output_begins_with_thinking() -> None:
    if parsers_environment("sglang") is None:
        pytest.skip("needs the parsers of sglang")
    asked = [question("a", None, "qwen3", "Hello.")]
    switch = "{% if not enable_thinking is defined %}{% set enable_thinking = false %}{% endif %}"
    without, by_switch = ask_parsers("sglang", asked), ask_parsers("sglang", asked, template=switch)
    assert without is not None
    assert by_switch is not None
    assert (without.answers["a"]["reasoning"], without.answers["a"]["content"]) == ("Hello.", "")
    assert (by_switch.answers["a"]["reasoning"], by_switch.answers["a"]["content"]) == (None, "Hello.")


@pytest.mark.real_engine
def test_a_models_own_tokenizer_may_lack_what_a_parser_needs(tmp_path: Path) -> None:
    if parsers_environment("vllm") is None:
        pytest.skip("needs the parsers of vllm")
    (tmp_path / "tokenizer.json").write_text(
        json.dumps(
            {
                "version": "1.0",
                "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"},
                "pre_tokenizer": {"type": "Whitespace"},
                "added_tokens": [],
            }
        )
    )
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    replies = ask_parsers("vllm", [question("a", None, "deepseek_r1", "<think>a</think>b")], tokenizer=tmp_path)
    assert replies is not None
    assert not replies.toy_tokenizer
    assert replies.answers["a"] == {"id": "a", "error": "RuntimeError"}


@pytest.mark.real_engine
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_folder_whose_tokenizer_does_not_load_gets_a_toy_which_is_told(engine: str, tmp_path: Path) -> None:
    if parsers_environment(engine) is None:
        pytest.skip(f"needs the parsers of {engine}")
    (tmp_path / "tokenizer.json").write_text("{")
    replies = ask_parsers(engine, [question("a", "hermes")], tokenizer=tmp_path)
    assert replies is not None
    assert replies.toy_tokenizer
    assert replies.answers["a"]["calls"] == [{"name": "get_weather", "arguments": '{"city": "Rome"}'}]


def test_an_engine_that_is_not_here_has_no_answers() -> None:
    assert ask_parsers("no-such-engine", [question("a", "hermes")]) is None


def test_what_is_no_engine_says_so() -> None:
    head = {"package": "json", "tokenizer": None, "template": None, "item_s": 1, "budget_s": 1}
    told = run_probe(sys.executable, "parser_probe", [head, question("a", "hermes")], timeout_s=60)
    assert told == [{"package": "json", "version": None, "error": "ImportError"}]


def test_a_parser_that_hangs_dies_or_raises_costs_its_own_answer(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("")
    (tmp_path / "engine" / "entrypoints").mkdir()
    (tmp_path / "engine" / "entrypoints" / "parser.py").write_text(PACKAGE)
    (tmp_path / "tokenizers.py").write_text("")
    made = tmp_path / "engine-1.2.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: engine\nVersion: 1.2+cpu\n")
    (made / "top_level.txt").write_text("engine\n")
    (tmp_path / "transformers.py").write_text(
        "class AutoTokenizer:\n    @classmethod\n    def from_pretrained(cls, *a, **k): return cls()\n"
        "    def encode(self, text, **k): return []\n"
    )
    script = str(files("unmoor") / "launch" / "probes" / "parser_probe.py")
    head = {"package": "engine", "tokenizer": "here", "template": None, "item_s": 1, "budget_s": 60}
    names = ("plain", "slow", "rude", "wide", "plain")
    asked = [{**question(f"{name} {at}", name), "tools": []} for at, name in enumerate(names)]
    done = subprocess.run(
        [sys.executable, script], input="\n".join(map(json.dumps, [head, *asked])), capture_output=True, text=True,
        check=True, env={"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    first, *told = [json.loads(line) for line in done.stdout.splitlines()]
    assert first["version"] == "1.2"
    assert [one.get("error") for one in told] == [None, "too_slow", "crashed", "ValueError", None]
    assert HERMES not in json.dumps(told[1:4])


def test_environments_of_parsers_name_their_engine() -> None:
    assert all(name.endswith("-parsers") and spec.exact for name, spec in parser_environments().items())
