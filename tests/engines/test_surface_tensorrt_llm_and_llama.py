"""What the surfaces of TensorRT-LLM and llama.cpp say where they differ most from the other engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unmoor.engines.surface.load import surface

LLAMA = surface("llama-cpp@11434", strict=True)
TRTLLM = surface("tensorrt-llm@1.3.0rc3", strict=True)
# Schemas that no answer meets, because one keyword contradicts the rest, with what a server answered; null: it refused.
CONTRADICTED = json.loads((Path(__file__).parent / "goldens/surfaces/contradicted_schemas.json").read_text())


def test_llama_ignores_fields_it_does_not_know_and_constraints_under_other_engines_names() -> None:
    assert LLAMA.unknown_fields.value == "ignored"
    assert LLAMA.errors["unknown_field"].status == 200
    for field in ("guided_json", "structured_outputs", "regex", "repetition_penalty", "min_tokens", "stop_token_ids"):
        assert field not in LLAMA.fields["chat"]
    assert LLAMA.spellings["repetition_penalty"].path == "repeat_penalty"


def test_llama_reads_response_format_in_chat_alone() -> None:
    assert "response_format" not in LLAMA.fields["completions"]
    assert LLAMA.spellings["json_schema"].endpoints == ("chat",)
    assert "json_schema" in LLAMA.fields["completions"]


@pytest.mark.parametrize("value", [0, -1, 40])
def test_llama_takes_top_k_off_as_0_and_as_below_0(value: int) -> None:
    assert LLAMA.domains["top_k"].takes(value)


def test_llama_clamps_what_lies_outside_but_refuses_more_answers_than_slots() -> None:
    assert not LLAMA.domains["temperature"].takes(-1)
    assert LLAMA.domains["temperature"].outside == "clamped"
    assert not LLAMA.domains["n"].takes(5)
    assert LLAMA.domains["n"].outside == "refused"


def test_llama_counts_one_choice_of_several_and_divides_its_context_among_slots() -> None:
    assert LLAMA.traits["usage_with_n"].value == "one_choice"
    assert LLAMA.traits["context_per_slot"].value == "yes"
    assert LLAMA.traits["missing_temperature"].value == 0.8
    assert LLAMA.traits["missing_max_tokens_completions"].value == "unlimited"


def test_llama_loads_gguf_alone_and_says_what_its_converter_does_with_the_rest() -> None:
    assert {one.value for name, one in LLAMA.checkpoint["gguf"].items() if name.startswith("nvidia")} == {"native"}
    for scheme in LLAMA.checkpoint.keys() - {"gguf"}:
        assert all(one.value == "refused" and "convert" in one.note for one in LLAMA.checkpoint[scheme].values())


def test_llama_scales_rslora_adapters_too_weakly() -> None:
    assert LLAMA.adapter["use_rslora"].value == "ignored"
    assert LLAMA.adapter["rank_pattern"].value == "native"
    assert LLAMA.adapter["alpha_pattern"].value == "ignored"


def test_llama_has_no_metric_of_times_nor_of_its_cache() -> None:
    for meaning in ("ttft", "e2e", "kv_use", "requests_done"):
        assert LLAMA.metrics[meaning].names == ()
    assert "without" in LLAMA.metrics["prompt_tokens"].note


def test_tensorrt_llm_refuses_every_field_that_it_does_not_name() -> None:
    assert TRTLLM.unknown_fields.value == "refused"
    assert TRTLLM.errors["unknown_field"].status == 400
    for field in ("guided_json", "structured_outputs", "continue_final_message", "parallel_tool_calls", "store"):
        assert field not in TRTLLM.fields["chat"]
    assert "cache_salt" in TRTLLM.fields["chat"]
    assert "cache_salt" not in TRTLLM.fields["completions"]


def test_tensorrt_llm_switches_top_k_off_with_0_alone() -> None:
    assert TRTLLM.domains["top_k"].off == (0,)
    assert not TRTLLM.domains["top_k"].takes(-1)
    assert not TRTLLM.domains["max_tokens"].takes(0)


def test_tensorrt_llm_enforces_no_schema_unless_told_with_what() -> None:
    assert TRTLLM.traits["structured_backends"].value == "none"
    for constraint in ("json_schema", "json_object", "regex", "grammar", "structural_tag"):
        assert TRTLLM.spellings[constraint].needs == "guided_decoding_backend"
    assert TRTLLM.spellings["choice"].absent
    assert TRTLLM.flags["structured_backend"].in_file


def test_tensorrt_llm_reserves_the_context_for_requests_without_max_tokens() -> None:
    assert TRTLLM.traits["missing_max_tokens_chat"].value == "reserves_context"
    assert TRTLLM.source_of(TRTLLM.traits["missing_max_tokens_chat"]).how == "thread"
    assert TRTLLM.traits["preemption"].value == "never"


def test_priorities_go_up_in_tensorrt_llm_and_need_its_configuration_file() -> None:
    assert TRTLLM.traits["priority_order"].value == "higher_first"
    assert not TRTLLM.domains["priority"].takes(2)
    assert TRTLLM.spellings["priority"].needs.startswith("scheduler_config.")


def test_what_is_of_tensorrt_llms_main_says_so() -> None:
    assert "main at 029e223d" in TRTLLM.source_of(TRTLLM.flags["port"]).version
    assert "main at 0076e939" in TRTLLM.source_of(TRTLLM.traits["priority_order"]).version
    assert all(source.how != "run" for name, source in TRTLLM.sources.items() if name != "libraries")


def test_tensorrt_llm_computes_in_4_bits_of_floats_on_blackwell_alone_and_of_whole_numbers_before_it() -> None:
    for scheme in ("nvfp4", "mxfp4"):
        native = {name for name, one in TRTLLM.checkpoint[scheme].items() if one.value == "native"}
        assert native == {"nvidia_blackwell"}
    for scheme in ("awq_int4", "gptq_int4"):
        assert TRTLLM.checkpoint[scheme]["nvidia_blackwell"].value == "refused"
        assert TRTLLM.checkpoint[scheme]["nvidia_ampere"].value == "native"


@pytest.mark.parametrize("asked", ["llama-cpp@11434", "openvino@2026.4.1"])
@pytest.mark.parametrize("feature", CONTRADICTED)
def test_a_schema_that_no_answer_meets_was_answered_where_its_keyword_leaks(asked: str, feature: str) -> None:
    leaks = surface(asked, strict=True).schema[feature].value == "leaks"
    assert leaks == (CONTRADICTED[feature][asked] is not None)
