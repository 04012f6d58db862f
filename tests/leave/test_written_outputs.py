"""How models write calls and thinking: read for what is odd, written again, and the table against real parsers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unmoor.engines.surface.load import surface
from unmoor.leave.parsing.choose import choose, families, of_marks, of_name
from unmoor.leave.parsing.parsed import Call, Names
from unmoor.leave.parsing.table import by_table, sources
from unmoor.leave.parsing.written import READERS, write

GOLDEN = [json.loads(line) for line in (Path(__file__).parent / "goldens" / "parsers.jsonl").read_text().splitlines()]
ROME = Call("get_weather", '{"city": "Rome"}')
OSLO = Call("get_weather", '{"city": "Oslo"}')
KNOWN = frozenset(("get_weather",))


@pytest.mark.parametrize("line", GOLDEN[1:], ids=lambda line: f"{line['engine']} {line['case']}")
def test_the_table_says_what_real_parsers_said_or_that_it_cannot_tell(line: dict[str, Any]) -> None:
    asked, told = line["asked"], line["told"]
    side, names = surface(line["engine"]), Names(asked["tool"], asked["reasoning"])
    parsed = by_table(side, names, asked["text"], asked["tools"], asked["template_kwargs"])
    if parsed is None:
        assert line["case"] in {"qwen3_coder: cut off", "qwen3_coder: no arguments"}
        return
    calls = [Call(one["name"], one["arguments"]).meaning for one in told["calls"]]
    assert [one.meaning for one in parsed.calls] == calls
    assert parsed.content.strip() == (told["content"] or "").strip()
    assert parsed.reasoning.strip() == (told["reasoning"] or "").strip()
    assert sources(side, names)


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("calls", [(ROME,), (ROME, OSLO)])
def test_what_is_written_is_read_again_without_anything_odd(form: str, calls: tuple[Call, ...]) -> None:
    if form == "mistral" and len(calls) > 1:
        pytest.skip("each call has a mark of its own")
    text = write(form, "", "", calls)
    assert text is not None
    found = READERS[form](text, KNOWN)
    assert found is not None
    assert [one.meaning for one in found.calls] == [one.meaning for one in calls]
    assert (found.odd, found.found) == (frozenset(), len(calls))


def test_thinking_and_text_are_written_around_calls() -> None:
    assert write("hermes", "hm", "Let me look.", [ROME]) == (
        "<think>\nhm\n</think>\n\nLet me look.\n"
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
    )
    assert write("", "hm", "It is sunny.", []) == "<think>\nhm\n</think>\n\nIt is sunny."
    assert write("", "", "", [ROME]) is None
    assert write("hermes", "", "", [Call("get_weather", "no JSON")]) is None


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" * 5000,
        "<tool_call>" + '{"a":' * 100_000,
        "[TOOL_CALLS]" + "[" * 100_000,
        '{"name"' * 20_000,
        "[f(" + "(" * 20_000 + ")]",
        "<function=f>" + "<parameter=a>" * 5000,
        "\x00\ud800",
    ],
)
def test_hostile_outputs_are_read_as_nothing_good(form: str, text: str) -> None:
    found = READERS[form](text, KNOWN)
    assert found is None or not found.calls or "unknown_function" in found.odd


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Qwen/Qwen3-8B", ("qwen3",)),
        ("qwen2.5-72b-instruct", ("qwen3",)),
        ("Qwen3 0.6B", ("qwen3",)),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", ("qwen3_coder",)),
        ("qwen3.5-9b", ("qwen3_coder",)),
        ("meta-llama/Llama-3.1-70B-Instruct", ("llama3",)),
        ("meta-llama/Llama-4-Scout-17B-16E", ("llama4",)),
        ("mistralai/Mistral-Small-3.2", ("mistral",)),
        ("deepseek-ai/DeepSeek-R1", ("deepseek_r1",)),
        ("deepseek-ai/DeepSeek-V3", ("deepseek_v3",)),
        ("deepseek-ai/DeepSeek-V3.1", ("deepseek_v31",)),
        ("openai/gpt-oss-120b", ("gpt_oss",)),
        ("zai-org/GLM-4.6", ("glm",)),
        ("moonshotai/Kimi-K2-Thinking", ("kimi_k2",)),
        ("my-own-finetune", ()),
    ],
)
def test_a_models_name_says_its_family(name: str, expected: tuple[str, ...]) -> None:
    assert of_name(name) == expected


def test_marks_say_the_family_and_thinking_alone_does_not() -> None:
    assert of_marks('<tool_call>\n{"name"') == ("qwen3",)
    assert of_marks("<tool_call>\n<function=f>") == ("qwen3_coder",)
    assert of_marks("<think>hm</think>") == ()


def test_every_family_is_one_that_surfaces_know() -> None:
    assert set(families()) <= set(surface("vllm").parsers)
    assert {one.form for one in families().values()} <= {"", *READERS}


def test_the_target_runs_the_parser_of_the_same_name_where_it_has_one() -> None:
    (chosen,) = choose(["qwen3"], "log", surface("vllm@0.32.0"), surface("sglang"), None)
    assert chosen.source == Names("hermes", "qwen3")
    assert chosen.target == Names("hermes", "qwen3")
    assert set(chosen.others) == {"qwen25", "qwen"}
    (back,) = choose(["llama3"], "log", surface("sglang"), surface("tensorrt-llm"), None)
    assert (back.source, back.target) == (Names("llama3", None), Names(None, None))
