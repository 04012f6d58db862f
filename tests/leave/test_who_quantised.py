"""A verdict is about a scheme and about who wrote it; files that nothing can load are refused by every engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_weights import LLAMA, Q_PROJ, Shapes, gguf, lora, write_adapter, write_model

from unmoor.engines.surface.concepts import HARDWARE
from unmoor.engines.surface.load import known_surfaces, surface
from unmoor.engines.surface.surface import Surface
from unmoor.leave.adapters.read import read_adapters
from unmoor.leave.check_model import ModelReport, check_model
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.checkpoint.read import read_checkpoint
from unmoor.leave.checkpoint.support import forms_on, verdicts
from unmoor.leave.checks.checkpoints import format_hits
from unmoor.report.model_words import summary

VLLM, SGLANG, TRT = (surface(one) for one in ("vllm@0.32.0", "sglang@0.5.23", "tensorrt-llm@1.3.0rc3"))
ENGINES = [surface(one) for one in known_surfaces()]
PACKED: Shapes = {
    "model.layers.0.self_attn.q_proj.qweight": ("I32", (8, 8)),
    "model.layers.0.self_attn.q_proj.scales": ("F16", (8, 8)),
}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
ROUND = {"quant_method": "auto-round"}
INT4 = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128}
FLOAT8 = {"num_bits": 8, "type": "float", "strategy": "channel"}


def quantised(root: Path, told: dict[str, Any], dtype: str = "float16", **files: Any) -> Checkpoint:  # noqa: ANN401 - JSON
    tensors = PACKED if told.get("quant_method") in {"gptq", "awq", "auto-round"} else {**LLAMA, "w": ("U8", (8, 8))}
    config = {"torch_dtype": dtype, **({"quantization_config": told} if told else {})}
    return read_checkpoint(write_model(root, config=config, tensors=tensors, **files))


def modelopt(root: Path, algorithm: str, **more: Any) -> Checkpoint:  # noqa: ANN401 - JSON
    told = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": algorithm, **more}}
    return quantised(root, {}, hf_quant_config=told)


def loads(model: Checkpoint, of: Surface, hardware: str = "nvidia_hopper") -> str:
    (one,) = verdicts(model, of, [hardware])
    return one.loads


def compressed(form: str, *weights: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    groups = {
        str(number): {
            "targets": ["Linear"],
            "weights": one,
            "input_activations": {"num_bits": 8, "type": "float", "dynamic": True} if one is FLOAT8 else None,
        }
        for number, one in enumerate(weights)
    }
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": groups, **more}


def test_modelopt_is_read_in_the_algorithms_that_an_engine_names(tmp_path: Path) -> None:
    awq, fp8 = modelopt(tmp_path / "a", "W4A16_AWQ", group_size=128), modelopt(tmp_path / "f", "FP8")
    assert [loads(awq, one) for one in (VLLM, SGLANG, TRT)] == ["refused", "unknown", "native"]
    assert [loads(fp8, one) for one in (VLLM, SGLANG, TRT)] == ["native", "native", "native"]
    assert loads(modelopt(tmp_path / "o", "W4A8_AWQ"), VLLM) == "refused"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (GPTQ, ["native", "native", "unknown"]),
        (AWQ, ["native", "native", "unknown"]),
        (
            {**GPTQ, "quant_method": "auto-round", "packing_format": "auto_round:auto_gptq"},
            ["native"] * 2 + ["unknown"],
        ),
        ({**GPTQ, **ROUND, "packing_format": "auto_round:own"}, ["refused"] * 2 + ["unknown"]),
        ({**GPTQ, "checkpoint_format": "marlin"}, ["unknown"] * 3),
        ({**GPTQ, "is_marlin_format": True}, ["unknown"] * 3),
        ({**AWQ, "version": "gemv"}, ["unknown"] * 3),
        ({**GPTQ, "dynamic": {"+:.*down.*": {"bits": 8}}}, ["native", "native", "unknown"]),
        ({"quant_method": "fbgemm_fp8"}, ["refused", "refused", "unknown"]),
        ({"quant_method": "fp8", "activation_scheme": "static"}, ["native", "native", "unknown"]),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, ["native", "native", "unknown"]),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ["native", "native", "native"]),
        (compressed("pack-quantized", INT4), ["native", "native", "unknown"]),
        (compressed("marlin-24", INT4), ["refused", "refused", "unknown"]),
        ({"quant_method": "mxfp4"}, ["fallback", "fallback", "fallback"]),
        ({"quant_method": "none"}, ["unknown"] * 3),
    ],
)
def test_one_scheme_of_two_tools_is_two_things(tmp_path: Path, told: dict[str, Any], expected: list[str]) -> None:
    model = quantised(tmp_path / "m", told)
    assert not [one for one in model.problems if one.fatal]
    assert [loads(model, one) for one in (VLLM, SGLANG, TRT)] == expected


def test_what_nobody_says_of_its_quantisation_is_known_to_no_engine(tmp_path: Path) -> None:
    model = read_checkpoint(write_model(tmp_path / "m", tensors=PACKED))
    assert model.quantisation.scheme == "awq_int4"
    assert loads(model, VLLM) == "unknown"


def test_of_mixed_weights_each_scheme_is_judged_and_said(tmp_path: Path) -> None:
    layers = {"a": {"quant_algo": "FP8"}, "b": {"quant_algo": "NVFP4"}}
    mixed = modelopt(tmp_path / "m", "MIXED_PRECISION", quantized_layers=layers)
    assert mixed.quantisation.schemes == ("nvfp4", "fp8")
    assert [loads(mixed, one) for one in (VLLM, SGLANG, TRT)] == ["fallback", "fallback", "refused"]
    assert loads(mixed, VLLM, "nvidia_blackwell") == "native"
    (one,) = verdicts(mixed, VLLM, ["nvidia_hopper"])
    assert [note.partition(" (")[0] for note in one.notes] == ["NVFP4: fallback", "FP8"]
    fp8_too = quantised(tmp_path / "c", compressed("mixed-precision", INT4, FLOAT8))
    assert fp8_too.quantisation.schemes == ("int4_w4a16", "fp8")
    assert loads(fp8_too, VLLM, "nvidia_ampere") == "fallback"  # FP8 there is; 4 bits alone would be native


def test_a_scheme_whose_name_says_who_wrote_it_is_looked_up_alone(tmp_path: Path) -> None:
    model = quantised(tmp_path / "m", {"quant_method": "bitsandbytes", "load_in_4bit": True})
    assert not list(forms_on(model, SGLANG))
    assert loads(model, SGLANG) == "native"


def report(model: Checkpoint, *adapters: Path) -> ModelReport:
    found = [one for path in adapters for one in read_adapters(path)]
    return check_model(model, found, ENGINES, ["nvidia_hopper", "cpu_arm"], all_wanted=False)


def test_tensors_of_another_method_than_the_one_that_is_named_are_refused_everywhere(tmp_path: Path) -> None:
    told = {"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}}
    found = report(read_checkpoint(write_model(tmp_path / "m", config=told, tensors=PACKED)))
    assert {one.loads for one in found.verdicts} == {"refused"}
    assert [(one.kind, one.outcome) for one in found.findings] == [("UM133", "lost")]
    assert len(found.lost) == 1
    floats: Shapes = {"model.layers.0.self_attn.q_proj.weight": ("F8_E4M3", (8, 8))}
    other = read_checkpoint(write_model(tmp_path / "o", config={"quantization_config": GPTQ}, tensors=floats))
    assert [one.fatal for one in other.problems] == [True]


def test_an_index_that_names_no_tensor_is_broken(tmp_path: Path) -> None:
    root = write_model(tmp_path / "m")
    (root / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {}}))
    found = report(read_checkpoint(root))
    assert found.checkpoint.tensors
    assert {one.loads for one in found.verdicts} == {"refused"}


@pytest.mark.parametrize(
    ("metadata", "tensors"),
    [
        ({"general.architecture": "llama", "split.count": 60000, "split.no": 5}, None),
        ({"general.architecture": 7}, None),
        ({"general.architecture": "\N{ESCAPE}[31m"}, None),
        ({"general.architecture": "llama"}, {}),
    ],
)
def test_a_gguf_model_that_lacks_parts_or_an_architecture_is_broken(
    tmp_path: Path, metadata: dict[str, Any], tensors: dict[str, Any] | None
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(metadata, tensors))
    found = report(read_checkpoint(path))
    assert {one.loads for one in found.verdicts} == {"refused"}
    assert found.broken


def served(tmp_path: Path, **config: Any) -> set[str]:  # noqa: ANN401 - PEFT's keys
    base = read_checkpoint(write_model(tmp_path / "base"))
    return {one.serves for one in report(base, write_adapter(tmp_path / "adapter", **config)).adapter_verdicts}


HALF = {name: shape for name, shape in lora(Q_PROJ).items() if "lora_A" in name}


@pytest.mark.parametrize(
    "config",
    [
        {"tensors": HALF},
        {"lora_alpha": float("nan")},
        {"lora_alpha": float("inf")},
        {"r": 0},
        {"tensors": lora(Q_PROJ, 8)},
        {"tensors": lora({"model.layers.7.self_attn.q_proj": (8, 8)})},
    ],
    ids=["half", "nan", "infinite", "no rank", "another rank", "no such layer"],
)
def test_an_adapter_that_is_broken_or_does_not_fit_is_served_by_no_engine(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    assert served(tmp_path, **config) == {"refused"}


def test_an_adapter_that_does_nothing_is_told(tmp_path: Path) -> None:
    (found,) = read_adapters(write_adapter(tmp_path / "a", lora_alpha=0))
    assert [(one.what, one.fatal) for one in found.problems] == [("makes the adapter do nothing", False)]


def test_a_bias_counts_whatever_the_configuration_says_of_it(tmp_path: Path) -> None:
    bias: Shapes = {"base_model.model.model.layers.0.self_attn.q_proj.bias": ("BF16", (8,))}
    (found,) = read_adapters(write_adapter(tmp_path / "b", tensors={**lora(Q_PROJ), **bias}))
    assert "bias" in found.traits
    head: Shapes = {"base_model.model.score.weight": ("BF16", (2, 8)), "base_model.model.score.bias": ("BF16", (2,))}
    whole = write_adapter(tmp_path / "h", tensors={**lora(Q_PROJ), **head}, modules_to_save=["score"])
    (found,) = read_adapters(whole)
    assert ("bias" in found.traits, "classifier_head" in found.traits, "modules_to_save" in found.traits) == (
        False,
        True,
        False,
    )


def test_a_classifiers_head_is_no_error_to_vllm_and_other_whole_modules_are(tmp_path: Path) -> None:
    base = read_checkpoint(write_model(tmp_path / "base"))
    for modules, expected in ((["score"], "varies"), (["classifier"], "varies"), (["embed_tokens"], "refused")):
        (adapter,) = read_adapters(write_adapter(tmp_path / modules[0], modules_to_save=modules))
        (one,) = check_model(base, [adapter], [VLLM], ["cpu_x86"], all_wanted=True).adapter_verdicts
        assert one.serves == expected


def test_a_trait_that_nobody_looked_at_is_worse_than_one_that_works_another_way(tmp_path: Path) -> None:
    base = read_checkpoint(write_model(tmp_path / "base"))
    (adapter,) = read_adapters(write_adapter(tmp_path / "a", init_lora_weights="pissa"))
    (one,) = check_model(base, [adapter], [surface("llama-cpp@11434")], ["cpu_x86"], all_wanted=True).adapter_verdicts
    assert {trait.serves for trait in one.traits} == {"fallback", "unknown"}
    assert one.serves == "unknown"


def test_what_may_load_is_not_counted_as_lost(tmp_path: Path) -> None:
    model = quantised(tmp_path / "m", GPTQ)
    found = check_model(model, [], [TRT], ["nvidia_hopper", "nvidia_turing", "amd_cdna3"], all_wanted=True)
    assert [(one.loads, one.unsaid) for one in found.verdicts] == [
        ("unknown", ("gptq",)),
        ("refused", ()),
        ("refused", ()),
    ]
    assert not found.lost
    blocks = check_model(modelopt(tmp_path / "b", "FP8_BLOCK_SCALES"), [], [VLLM], list(HARDWARE), all_wanted=True)
    assert {one.loads for one in blocks.verdicts} == {"refused", "unknown"}
    assert not blocks.lost
    assert not [one for one in format_hits(model, VLLM, TRT) if one.finding.outcome == "lost"]


def test_the_summary_calls_no_engine_refusing_whose_surface_does_not_know_the_tool(tmp_path: Path) -> None:
    model = quantised(tmp_path, GPTQ)
    told = summary(check_model(model, [], [VLLM, TRT], list(HARDWARE), all_wanted=False))
    assert "Unknown: TensorRT-LLM 1.3.0rc3." in told
    assert "Refused" not in told
