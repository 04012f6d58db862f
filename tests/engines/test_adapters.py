"""Each engine's command line, flags and last words, against goldens: recorded surfaces and logs of the real engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unmoor.core.errors import UsageError
from unmoor.core.plan import Setting
from unmoor.engines.contract import Engine, LaunchSpec, Settings
from unmoor.engines.registry import engine, engine_names

GOLDENS = Path(__file__).parent / "goldens"
SPEC = LaunchSpec(
    python="PYTHON",
    model_dir="MODEL_DIR",
    served_name="demo",
    host="127.0.0.1",
    port=8123,
    threads=2,
    context_tokens=2048,
)
COMMAND = json.loads((GOLDENS / "commands.json").read_text())

# What each recorded log must be told as.
LOGS = {
    "vllm/option-unknown": ("refuses an option", "unrecognized arguments: --disable-prefix-caching"),
    "vllm/option-ambiguous": ("refuses an option", "ambiguous option: --device could match"),
    "vllm/port-taken": ("found its port taken", "Address already in use"),
    "vllm/no-model": ("does not find the model's files", "Repo id must be in the form"),
    "vllm/long-context": ("the model's own is shorter", "max_model_len (100000) is greater"),
    "vllm/small-batch": ("refuses so small a max_batch_tokens", "max_num_batched_tokens (256) is smaller"),
    "vllm/memory": ("too little memory for its KV cache", "less than requested memory for kv (400.0 GiB)"),
    "vllm/module": ("misses a module", "No module named 'vllm'"),
    "openvino/option": ("refuses an option", "unrecognized arguments: --max-num-seqs 4"),
    "openvino/port-taken": ("found its port taken", "cannot listen on 127.0.0.1:18802"),
    "openvino/no-model": ("does not find the model's file", "no model file at"),
    "openvino/bad-model": ("cannot read it", "Failed to open 'bad.gguf'"),
    "openvino/long-context": ("the model's own is shorter", "more than the model's own 8192"),
    "openvino/memory": ("ran out of memory", "larger than available memory size"),
    "openvino/module": ("misses a module", "No module named 'openvino_genai'"),
}


def every_engine() -> list[Engine]:
    return [engine(name) for name in engine_names()]


def all_settings(one: Engine) -> Settings:
    chosen = {knob.name: knob.try_values[0] for knob in one.knobs}
    # One flag carries both on one engine; that they clash is a test of its own.
    return {name: value for name, value in chosen.items() if (one.name, name) != ("sglang", "chunked_prefill")}


@pytest.mark.parametrize("one", every_engine(), ids=lambda one: one.name)
def test_the_command_line_is_exactly_the_golden_one(one: Engine) -> None:
    command = one.command(SPEC, all_settings(one))
    seen = {"argv": list(command.argv), "env": dict(command.env), "files": dict(command.files)}
    for word in seen["argv"]:
        if str(word).endswith("server.py"):
            assert Path(str(word)).is_file()
    seen["argv"] = [("SERVER" if word.endswith("server.py") else word) for word in command.argv]
    assert seen == COMMAND[one.name]


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_every_flag_is_a_full_name_that_the_recorded_parser_has(name: str) -> None:
    flags = set(json.loads((GOLDENS / name / "flags.json").read_text()))
    passed = [word for word in engine(name).command(SPEC, all_settings(engine(name))).argv if word.startswith("--")]
    assert passed
    assert set(passed) <= flags


@pytest.mark.parametrize("one", every_engine(), ids=lambda one: one.name)
def test_an_engine_starts_offline_and_silent(one: Engine) -> None:
    env = one.command(SPEC, {}).env
    assert env["DO_NOT_TRACK"] == "1"
    if one.model_format == "hf":
        assert env["HF_HUB_OFFLINE"] == env["TRANSFORMERS_OFFLINE"] == "1"


@pytest.mark.parametrize("one", every_engine(), ids=lambda one: one.name)
def test_an_unknown_knob_is_refused_with_the_nearest_one(one: Engine) -> None:
    with pytest.raises(UsageError) as raised:
        one.command(SPEC, {"max_runing": 4})
    assert raised.value.hint == "did you mean 'max_running'?"


@pytest.mark.parametrize("value", [True, 0, -1, "4", 1.5])
def test_a_knob_of_another_type_is_refused(value: Setting) -> None:
    with pytest.raises(UsageError, match="cannot be"):
        engine("vllm").command(SPEC, {"max_running": value})


@pytest.mark.parametrize("one", every_engine(), ids=lambda one: one.name)
def test_what_is_tried_differs_from_the_default_and_is_accepted(one: Engine) -> None:
    for knob in one.knobs:
        for value in knob.try_values:
            assert value != knob.default
            assert (
                one.command(SPEC, {knob.name: value}).argv != one.command(SPEC, {}).argv
                or one.command(SPEC, {knob.name: value}).files != one.command(SPEC, {}).files
            )


def test_sglang_refuses_a_batch_size_without_chunks_since_one_flag_carries_both() -> None:
    with pytest.raises(UsageError, match="one flag"):
        engine("sglang").command(SPEC, {"max_batch_tokens": 256, "chunked_prefill": False})


@pytest.mark.parametrize("log", LOGS)
def test_the_real_last_words_of_an_engine_are_understood(log: str) -> None:
    message, seen = LOGS[log]
    found = engine(log.partition("/")[0]).diagnose((GOLDENS / f"{log}.log").read_text())
    assert found is not None
    assert message in found.message
    assert seen in found.seen
    assert found.hint


def test_every_recorded_log_is_tested() -> None:
    assert {str(path.relative_to(GOLDENS).with_suffix("")) for path in GOLDENS.rglob("*.log")} == set(LOGS)


@pytest.mark.parametrize("one", every_engine(), ids=lambda one: one.name)
def test_words_nobody_knows_are_not_guessed_at(one: Engine) -> None:
    assert one.diagnose("INFO all is well\n") is None
    assert one.diagnose("") is None


def test_a_torch_for_an_accelerator_is_told_apart_from_a_missing_module() -> None:
    words = "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"
    found = engine("vllm").diagnose(words)
    assert found is not None
    assert "--torch-index" in found.hint


def test_schedulers_are_those_of_a_data_centre_gpu() -> None:
    models = {one.name: one.scheduler({}) for one in every_engine()}
    assert (models["vllm"].policy, models["vllm"].max_batch_tokens, models["vllm"].max_running) == ("mixed", 8192, 1024)
    assert (models["sglang"].policy, models["sglang"].kv_block_tokens) == ("prefill_first", 1)
    assert (models["tensorrt-llm"].reserve_output, models["tensorrt-llm"].chunked_prefill) == (True, False)


@pytest.mark.parametrize("one", every_engine(), ids=lambda one: one.name)
def test_a_scheduler_follows_the_settings(one: Engine) -> None:
    model = one.scheduler({"max_running": 7, "max_batch_tokens": 99, "prefix_caching": False, "chunked_prefill": True})
    assert (model.max_running, model.max_batch_tokens, model.prefix_caching, model.chunked_prefill) == (
        7,
        99,
        False,
        True,
    )


@pytest.mark.parametrize("one", every_engine(), ids=lambda one: one.name)
def test_an_engine_is_either_installable_or_says_why_not(one: Engine) -> None:
    assert (one.install is None) == bool(one.absent_reason)
