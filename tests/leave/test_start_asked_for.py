"""The suggested start carries what findings ask for; what one check tells whole, no other tells again."""

from __future__ import annotations

from pathlib import Path

import pytest
from behaviour_log import CALL, TOOL, Record, chat, of_kind, said, uses_of

from unmoor.engines.surface.load import surface
from unmoor.leave.case import Case
from unmoor.leave.check import check_move
from unmoor.leave.finding import MoveReport
from unmoor.leave.launch_flags import read_launch_flags
from unmoor.leave.schemas.ask import ask_schemas

VLLM = "vllm@0.33.0"
CACHED = {**said(), "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}


def moved(folder: Path, options: str, target: str, *log: Record) -> MoveReport:
    file = folder / "start.sh"
    file.write_text(f"vllm serve Q {options}\n")
    uses, here, there = uses_of(log), surface(VLLM), surface(target)
    answers = ask_schemas(uses, here, there, say=lambda _: None)
    return check_move(Case(uses=uses, source=here, target=there, flags=read_launch_flags(file, here), schemas=answers))


def test_options_and_variables_that_findings_ask_for_are_in_the_start(tmp_path: Path) -> None:
    log = [chat(CACHED, seed=1), chat(logprobs=True, temperature=0.5)]
    made = moved(tmp_path, "", "sglang", *log)
    assert made.start_command[:3] == ("env", "SGLANG_RETURN_ORIGINAL_LOGPROB=1", "sglang")
    assert {"--enable-cache-report", "--enable-deterministic-inference"} <= set(made.start_command)
    note = next(note for note in made.start_notes if note.startswith("added because findings ask for it"))
    assert "`--enable-cache-report` (UM122)" in note
    plain = moved(tmp_path, "", "sglang", chat())
    assert not {"env", "--enable-cache-report", "--enable-deterministic-inference"} & set(plain.start_command)


def test_keys_of_the_configuration_file_have_their_value(tmp_path: Path) -> None:
    made = moved(tmp_path, "", "tensorrt-llm", chat(response_format=FORM))
    assert "guided_decoding_backend: xgrammar\n" in made.start_config
    assert made.start_command[-2:] == ("--config", "extra.yaml")


def test_an_option_is_not_passed_twice_and_one_without_a_value_is_left_to_do(tmp_path: Path) -> None:
    tools = chat(said(tool_calls=[CALL]), tools=[TOOL], tool_choice="auto")
    given = moved(tmp_path, "--enable-auto-tool-choice --tool-call-parser hermes", "sglang", tools)
    assert given.start_command.count("--tool-call-parser") == 1
    left = moved(tmp_path, "", "sglang", tools)
    assert "--tool-call-parser" not in left.start_command
    assert any(note.startswith("--tool-call-parser: asked for by UM128") for note in left.start_notes)


def test_limits_do_not_become_a_reservation(tmp_path: Path) -> None:
    made = moved(tmp_path, "--max-num-seqs 256 --max-model-len 131072", "llama-cpp", chat())
    assert not {"--ctx-size", "--parallel"} & set(made.start_command)
    (note,) = [note for note in made.start_notes if note.startswith("--max-model-len")]
    assert "33,554,432 tokens of keys and values: choose" in note


@pytest.mark.parametrize("written", ["$VLLM_API_KEY", "${VLLM_API_KEY}"])
def test_the_users_variable_is_kept(tmp_path: Path, written: str) -> None:
    made = moved(tmp_path, f'--api-key "{written}"', "sglang", chat())
    assert made.start_command[made.start_command.index("--api-key") + 1] == written


@pytest.mark.parametrize("target", ["sglang", "llama-cpp", "tensorrt-llm"])
def test_priorities_are_told_by_one_check(tmp_path: Path, target: str) -> None:
    made = moved(tmp_path, "--scheduling-policy priority", target, chat(priority=0), chat(priority=1))
    told = {one.kind for one in made.findings if {"chat.priority", "flag --scheduling-policy"} & set(one.features)}
    assert told == {"UM102"}


def test_a_flag_for_seeds_and_a_choice_of_tools_are_told_by_one_check(tmp_path: Path) -> None:
    seeds = moved(tmp_path, "", "sglang", chat(seed=1)).findings
    assert {one.kind for one in seeds if "chat.seed" in one.features} == {"UM118"}
    tools = moved(tmp_path, "", "tensorrt-llm", chat(tools=[TOOL], tool_choice="required")).findings
    assert {one.kind for one in tools if "chat.tool_choice" in one.features} == {"UM128"}


def test_a_type_of_keys_and_values_is_told_by_one_check(tmp_path: Path) -> None:
    found = moved(tmp_path, "--kv-cache-dtype fp8", "sglang", chat()).findings
    (told,) = [one for one in found if "flag --kv-cache-dtype" in one.features]
    assert told.kind == "UM126"
    assert "(there: `--kv-cache-dtype fp8_e4m3`)" in told.seen


def test_adapters_named_in_the_start_are_known_without_their_files(tmp_path: Path) -> None:
    options = "--enable-lora --lora-modules support=/lora/support mail=/lora/mail"
    (told,) = of_kind(moved(tmp_path, options, "sglang", chat(model="Q"), chat(model="mail")).findings, "UM131")
    assert (told.features, told.lines) == (("adapter mail",), (2,))
    assert "lora_path" in told.fix
