"""Checks of behaviour: each kind fires on a small real log for a named pair of engines, and not on its clean twin."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from behaviour_log import CALL, ENGINES, TOOL, USER, Record, case_of, chat, completion, everything, of_kind, said
from made_weights import write_model

from unmoor.leave.adapters.adapter import Adapter
from unmoor.leave.check import check_move
from unmoor.leave.checks.registry import checks, kinds
from unmoor.leave.finding import Finding
from unmoor.leave.launch_flags import read_launch_flags

Files = dict[str, Any]

BEHAVIOUR = sorted(
    {
        *("UM102", "UM103", "UM107", "UM109", "UM110", "UM111", "UM112", "UM118", "UM119", "UM120", "UM122", "UM123"),
        *("UM125", "UM127", "UM128", "UM129", "UM130", "UM131", "UM150", "UM151", "UM152", "UM153"),
    }
)


class Example(NamedTuple):
    """A move on which a kind fires, and the twin of its log on which it does not; `model` are files beside weights."""

    kind: str
    source: str
    target: str
    outcome: str
    fires: Sequence[Record]
    clean: Sequence[Record]
    lines: tuple[int, ...] = (1,)
    model: Files | None = None
    clean_model: Files | None = None


def audio(**part: Any) -> Record:  # noqa: ANN401 - JSON
    return chat(messages=[{"role": "user", "content": [{"type": "text", "text": "hear"}, part]}])


def ended(**fields: Any) -> Record:  # noqa: ANN401 - JSON
    return {"choices": [{"message": {"content": "it"}, "finish_reason": "stop", **fields}]}


WAV = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
USAGE = {"prompt_tokens": 9, "completion_tokens": 2}
UNCACHED = {**said(), "usage": USAGE}
CACHED = {**said(), "usage": {**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}}
NO_MODEL = {"error": {"message": "The model does not exist.", "type": "NotFoundError", "code": 404}}
GIVEN_UP = {**chat(), "status": 499}
LAST = [USER, {"role": "assistant", "content": "it is"}]
GOES_ON: Files = {"continue_final_message": True}
THOUGHT = [USER, {"role": "assistant", "content": "high", "reasoning": "well"}, USER]
TEMPLATE = "{{ bos_token }}{% if enable_thinking %}<think>{% endif %}"
EFFORT = "{{ reasoning_effort }}"
DRAWS: Files = {"generation_config": {"temperature": 0.6, "top_p": 0.95, "top_k": 20}}
SPLIT: Files = {"generation_config": {"eos_token_id": [7]}, "tokenizer_config": {}}


EXAMPLES = (
    Example("UM102", "vllm", "sglang", "translated", [chat(priority=1), chat(priority=2)], [chat(priority=1)], (1, 2)),
    Example("UM102", "vllm", "llama-cpp", "lost", [chat(priority=1), chat()], [chat(), chat()]),
    Example("UM102", "llama-cpp", "vllm", "translated", [chat(priority=1), chat()], [chat(), chat()]),
    Example("UM103", "vllm", "tensorrt-llm", "translated", [chat(max_tokens=None)], [chat()]),
    Example("UM107", "vllm", "sglang", "translated", [chat(said(reasoning="well"))], [chat(said())]),
    Example("UM107", "sglang", "vllm", "translated", [chat(said(reasoning_content="well"))], [chat(said())]),
    Example(
        "UM107",
        "vllm",
        "llama-cpp",
        "translated",
        [chat(chat_template_kwargs={"enable_thinking": True})],
        [chat(chat_template_kwargs={"enable_thinking": False})],
    ),
    Example(
        "UM109",
        "vllm",
        "sglang",
        "translated",
        [completion(prompt="<s>[INST] how high", add_special_tokens=False)],
        [completion(prompt="[INST] how high", add_special_tokens=False)],
    ),
    Example("UM109", "vllm", "llama-cpp", "same", [completion(prompt="<s>how high")], [completion(prompt="how high")]),
    Example(
        "UM109",
        "vllm",
        "llama-cpp",
        "same",
        [completion(prompt="<s>how high")],
        [completion(prompt="<s>how high")],
        model={"tokenizer_config": {"bos_token": "<s>", "add_bos_token": True}},
        clean_model={"tokenizer_config": {"bos_token": "<s>", "add_bos_token": False}},
    ),
    Example(
        "UM109",
        "vllm",
        "llama-cpp",
        "same",
        [completion(prompt="<s>how high")],
        [completion(prompt="<s>how high")],
        model={"tokenizer_config": {"bos_token": "<s>"}},
        clean_model={"tokenizer_config": {"bos_token": "<bos>"}},
    ),
    Example(
        "UM110",
        "vllm",
        "sglang",
        "translated",
        [chat(add_special_tokens=True)],
        [chat(add_special_tokens=False)],
    ),
    Example(
        "UM110",
        "vllm",
        "sglang",
        "translated",
        [chat()],
        [chat()],
        model={"tokenizer_config": {"chat_template": TEMPLATE}, "chat_template": {"chat_template": EFFORT}},
        clean_model={"tokenizer_config": {"chat_template": TEMPLATE}, "chat_template": {"chat_template": TEMPLATE}},
    ),
    Example("UM111", "vllm", "tensorrt-llm", "translated", [chat(temperature=None)], [chat()]),
    Example("UM111", "llama-cpp", "sglang", "translated", [chat(top_p=None)], [chat(top_p=None, temperature=0)]),
    Example(
        "UM111",
        "vllm",
        "sglang",
        "translated",
        [completion(temperature=None)],
        [chat(temperature=None)],
        model=DRAWS,
        clean_model=DRAWS,
    ),
    Example(
        "UM111",
        "vllm",
        "tensorrt-llm",
        "translated",
        [chat(top_k=None)],
        [chat(top_k=None)],
        model=DRAWS,
        clean_model={"generation_config": {"temperature": 0.6}},
    ),
    Example("UM112", "vllm", "sglang", "translated", [chat(logprobs=True)], [chat(logprobs=True, temperature=1)]),
    Example("UM112", "sglang", "tensorrt-llm", "lost", [chat(logprobs=True)], [chat(logprobs=True, temperature=0)]),
    Example(
        "UM112",
        "llama-cpp",
        "vllm",
        "translated",
        [chat(logprobs=True, top_logprobs=30)],
        [chat(logprobs=True, top_logprobs=20)],
    ),
    Example("UM112", "vllm", "llama-cpp", "translated", [completion(logprobs=3, temperature=1)], [completion()]),
    Example("UM118", "vllm", "sglang", "translated", [chat(seed=7)], [chat(seed=7, temperature=0)]),
    Example("UM118", "vllm", "llama-cpp", "same", [chat(seed=7)], [chat()]),
    Example(
        "UM119",
        "vllm",
        "sglang",
        "translated",
        [chat()],
        [chat(chat_template_kwargs={"enable_thinking": True})],
        model={"tokenizer_config": {"chat_template": TEMPLATE}},
        clean_model={"tokenizer_config": {"chat_template": TEMPLATE}},
    ),
    Example(
        "UM119",
        "vllm",
        "llama-cpp",
        "translated",
        [chat(), chat(said(reasoning="well"))],
        [chat(), chat(said())],
        (1, 2),
    ),
    Example("UM120", "llama-cpp", "vllm", "translated", [completion(max_tokens=None)], [completion()]),
    Example("UM120", "vllm", "tensorrt-llm", "translated", [completion(max_tokens=None)], [chat(max_tokens=None)]),
    Example(
        "UM120",
        "llama-cpp",
        "sglang",
        "translated",
        [completion(max_tokens=None, max_completion_tokens=99)],
        [chat(max_tokens=None, max_completion_tokens=99)],
    ),
    Example(
        "UM120",
        "sglang",
        "tensorrt-llm",
        "translated",
        [completion(max_tokens=None, max_completion_tokens=99)],
        [completion(max_completion_tokens=None)],
    ),
    Example(
        "UM120",
        "llama-cpp",
        "vllm",
        "translated",
        [chat(max_tokens=513)],
        [chat(max_tokens=511)],
        model={},
        clean_model={},
    ),
    Example("UM122", "llama-cpp", "sglang", "translated", [chat(CACHED)], [chat(UNCACHED)]),
    Example("UM122", "llama-cpp", "tensorrt-llm", "same", [chat(CACHED)], [chat(UNCACHED)]),
    Example("UM123", "vllm", "sglang", "translated", [chat(ended(stop_reason="\n"))], [chat(ended(stop_reason=None))]),
    Example("UM123", "sglang", "llama-cpp", "lost", [chat(ended(matched_stop=2))], [chat(ended())]),
    Example("UM123", "vllm", "llama-cpp", "lost", [chat(skip_special_tokens=False)], [chat(skip_special_tokens=True)]),
    Example(
        "UM123",
        "sglang",
        "vllm",
        "translated",
        [chat()],
        [chat()],
        (),
        model=SPLIT,
        clean_model={"generation_config": {"eos_token_id": [2]}},
    ),
    Example("UM125", "vllm", "llama-cpp", "translated", [GIVEN_UP], [{**chat(stream=True), "status": 499}]),
    Example("UM125", "sglang", "llama-cpp", "same", [chat()], [chat(stream=True)]),
    Example("UM127", "vllm", "llama-cpp", "translated", [chat(n=3)], [chat(n=1)]),
    Example("UM127", "llama-cpp", "sglang", "translated", [completion(n=2)], [completion()]),
    Example("UM128", "vllm", "tensorrt-llm", "lost", [chat(tools=[TOOL], tool_choice="required")], [chat()]),
    Example("UM128", "llama-cpp", "vllm", "translated", [chat(tools=[TOOL])], [chat(tools=[TOOL], tool_choice="none")]),
    Example(
        "UM128",
        "vllm",
        "llama-cpp",
        "translated",
        [chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "look"}})],
        [chat(tools=[TOOL], tool_choice="required")],
    ),
    Example("UM129", "sglang", "llama-cpp", "lost", [audio(type="thinking", thinking="well")], [chat()]),
    Example("UM129", "vllm", "llama-cpp", "translated", [audio(**WAV)], [audio(type="text", text="hear")]),
    Example("UM129", "vllm", "llama-cpp", "translated", [chat(messages=LAST)], [chat(messages=[USER])]),
    Example("UM129", "vllm", "sglang", "lost", [chat(messages=LAST)], [chat(messages=LAST, **GOES_ON)]),
    Example(
        "UM129", "vllm", "llama-cpp", "translated", [chat(messages=LAST, **GOES_ON)], [chat(messages=[*LAST, USER])]
    ),
    Example("UM129", "vllm", "sglang", "translated", [chat(messages=THOUGHT)], [chat(messages=[USER, USER])]),
    Example(
        "UM129",
        "llama-cpp",
        "vllm",
        "translated",
        [chat(messages=[{"role": "developer", "content": "be brief"}, USER])],
        [chat(messages=[{"role": "system", "content": "be brief"}, USER])],
    ),
    Example(
        "UM130",
        "llama-cpp",
        "vllm",
        "translated",
        [completion(stream=True)],
        [completion(stream=True, stream_options={"include_usage": True})],
    ),
    Example("UM130", "vllm", "llama-cpp", "same", [completion(stream=True)], [chat(stream=True)]),
    Example(
        "UM130",
        "sglang",
        "vllm",
        "translated",
        [chat(stream_options={"include_usage": True})],
        [chat(stream=True, stream_options={"include_usage": True})],
    ),
    Example("UM131", "sglang", "vllm", "translated", [chat()], [completion(model=None)]),
    Example("UM131", "vllm", "sglang", "translated", [chat(model="b"), chat(), chat()], [chat(), chat()]),
    Example(
        "UM150",
        "vllm",
        "tensorrt-llm",
        "translated",
        [chat()],
        [chat(reasoning_effort="medium")],
        model={"tokenizer_config": {"chat_template": EFFORT}},
        clean_model={"tokenizer_config": {"chat_template": EFFORT}},
    ),
    Example(
        "UM150",
        "sglang",
        "tensorrt-llm",
        "translated",
        [chat()],
        [chat()],
        model={"tokenizer_config": {"chat_template": EFFORT}},
        clean_model={"tokenizer_config": {"chat_template": "{{ messages }}"}},
    ),
    Example(
        "UM151",
        "vllm",
        "sglang",
        "translated",
        [chat(said(content=None, tool_calls=[CALL]), tools=[TOOL])],
        [chat(said(content="I look", tool_calls=[CALL]), tools=[TOOL])],
    ),
    Example("UM152", "vllm", "llama-cpp", "translated", [chat(ended(finish_reason="abort"))], [chat(ended())]),
    Example("UM152", "llama-cpp", "sglang", "translated", [GIVEN_UP], [{**chat(said()), "status": 200}]),
    Example("UM153", "vllm", "sglang", "translated", [chat(NO_MODEL)], [chat(said())]),
    Example(
        "UM153",
        "sglang",
        "vllm",
        "translated",
        [chat({"object": "error", "message": "The input (9 tokens) is longer than 8", "code": 400})],
        [chat(said())],
    ),
)


def named(example: Example) -> str:
    return f"{example.kind} {example.source} to {example.target}"


def found(example: Example, records: Sequence[Record], files: Files | None, root: Path) -> list[Finding]:
    model = None if files is None else write_model(root / "model", **files)
    return of_kind(check_move(case_of(example.source, example.target, records, model)).findings, example.kind)


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_a_kind_fires_on_its_example_and_names_the_requests(example: Example, tmp_path: Path) -> None:
    findings = found(example, example.fires, example.model, tmp_path)
    assert {(finding.outcome, finding.lines) for finding in findings} >= {(example.outcome, example.lines)}
    for finding in findings:
        assert finding.seen.endswith(".")
        assert finding.fix.endswith(".")
        assert finding.sources or finding.by != "table"
        assert "tower" not in f"{finding.seen}{finding.fix}"


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_a_kind_says_nothing_of_the_clean_twin(example: Example, tmp_path: Path) -> None:
    assert found(example, example.clean, example.clean_model, tmp_path) == []


def test_every_kind_of_behaviour_has_an_example() -> None:
    assert {example.kind for example in EXAMPLES} == set(BEHAVIOUR)
    assert set(BEHAVIOUR) <= set(kinds())


@pytest.mark.parametrize("engine", [*ENGINES, "vllm@0.32.0"])
def test_nothing_is_found_where_the_engine_stays_whatever_the_log_does(engine: str) -> None:
    case = case_of(engine, engine, everything())
    assert check_move(case).findings == ()
    behaviour = [check for check in checks() if {kind.id for kind in check.kinds} & set(BEHAVIOUR)]
    assert [hit.finding for check in behaviour for hit in check.look(case)] == []
    assert not any("is not known" in told for told in case.not_looked_at)


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(ENGINES, 2)))
def test_every_pair_is_checked_in_both_directions_on_a_log_of_everything(source: str, target: str) -> None:
    report = check_move(case_of(source, target, everything()))
    behaviour = {finding.kind for finding in report.findings} & set(BEHAVIOUR)
    assert len(behaviour) >= 9
    assert all(line <= len(everything()) for finding in report.findings for line in finding.lines)
    assert "tower" not in msgspec.json.encode(report).decode()


def test_between_versions_of_one_engine_only_what_changed_is_found() -> None:
    for source, target in itertools.permutations(("vllm@0.32.0", "vllm@0.33.0")):
        findings = check_move(case_of(source, target, everything())).findings
        assert {finding.outcome for finding in findings} <= {"same"}
        assert {finding.kind for finding in findings} & set(BEHAVIOUR) == set()


def test_an_engine_without_probabilities_of_tokens_says_so() -> None:
    report = check_move(case_of("vllm", "openvino", [chat(logprobs=True)]))
    (finding,) = of_kind(report.findings, "UM112")
    assert (finding.outcome, finding.lines) == ("lost", (1,))


def test_a_name_that_the_start_gives_the_model_is_served(tmp_path: Path) -> None:
    start = tmp_path / "start.sh"
    start.write_text("sglang serve --model-path big/model --served-model-name m\n")
    case = case_of("sglang", "vllm", [chat(), chat(model="other")])
    (finding,) = of_kind(check_move(case).findings, "UM131")
    assert finding.lines == (1, 2)
    (finding,) = of_kind(check_move(replace(case, flags=read_launch_flags(start, case.source))).findings, "UM131")
    assert finding.lines == (2,)


def test_only_the_requests_to_a_model_that_thinks_are_due_an_evaluation() -> None:
    log = [chat(said(), model="plain"), chat(said(reasoning="well"), model="thinker"), chat(model="thinker")]
    (finding,) = of_kind(check_move(case_of("vllm", "sglang", log)).findings, "UM119")
    assert finding.lines == (2, 3)


def test_what_is_unknown_of_one_side_is_told_and_not_taken_for_the_same() -> None:
    case = case_of("vllm", "tensorrt-llm", [chat(seed=7)])
    report = check_move(case)
    assert of_kind(report.findings, "UM118") == []
    assert "seeds: what TensorRT-LLM does is not known" in report.not_looked_at
    assert not any("seeds" in told for told in check_move(case_of("vllm", "tensorrt-llm", [chat()])).not_looked_at)


def test_a_priority_turned_round_by_a_flag_is_the_same_again(tmp_path: Path) -> None:
    case = case_of("sglang", "vllm", [chat(priority=1), chat(priority=2)])
    assert of_kind(check_move(case).findings, "UM102")
    start = tmp_path / "start.sh"
    start.write_text("sglang serve --model-path m --schedule-low-priority-values-first\n")
    flags = read_launch_flags(start, case.source)
    assert of_kind(check_move(replace(case, flags=flags)).findings, "UM102") == []


def test_an_adapter_chosen_as_the_model_is_told_how_the_target_wants_it() -> None:
    adapter = Adapter(name="legal", path="legal", container="safetensors", base_model="m", rank=8, alpha=16)
    case = case_of("vllm", "sglang", [chat(), chat(model="legal")])
    told = of_kind(check_move(replace(case, adapters=(adapter,))).findings, "UM131")
    (finding,) = [one for one in told if "adapter legal" in one.features]
    assert finding.lines == (2,)
    assert "answers with the base model" in finding.seen
    assert "lora_path" in finding.fix


def test_adapters_chosen_after_a_colon_are_named_alone_and_not_served_as_models() -> None:
    log = [chat(), chat(model="m:legal"), chat(model="qwen3:8b")]
    colon, refused = of_kind(check_move(case_of("sglang", "vllm", log)).findings, "UM131")
    assert (colon.features, colon.lines) == (("adapter legal",), (2,))
    assert "Name the adapter alone, in `model`" in colon.fix
    assert refused.lines == (1, 3)
    (plain,) = of_kind(check_move(case_of("sglang", "vllm", [chat(), chat(model="qwen3:8b")])).findings, "UM131")
    assert plain.features == ("model name",)


def test_the_values_to_send_are_those_of_the_model(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", **DRAWS)
    record = chat(temperature=None, top_p=None, top_k=None)
    (finding,) = of_kind(check_move(case_of("vllm", "tensorrt-llm", [record], model)).findings, "UM111")
    assert "temperature = 0.6, top_p = 0.95, top_k = 20" in finding.fix
    assert "--generation-config auto" in finding.fix


def test_an_engines_own_log_says_what_could_be_looked_at() -> None:
    log = [{"timestamp": 1, "prompt_tokens": 9, "completion_tokens": 2, "model": "m"}]
    case = case_of("vllm", "llama-cpp", log)
    report = check_move(case)
    assert report.bodies == 0
    assert any("body" in told for told in report.not_looked_at)
    assert {finding.kind for finding in report.findings} & set(BEHAVIOUR) <= {"UM131"}
