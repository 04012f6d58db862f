"""Every tool's words for how weights are quantised, as its own files write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_weights import LLAMA, Shapes, write_model

from unmoor.leave.checkpoint.quantisation import from_config, from_modelopt
from unmoor.leave.checkpoint.read import read_checkpoint


def group(bits: int, kind: str, activations: dict[str, Any] | None = None, **weights: Any) -> dict[str, Any]:  # noqa: ANN401
    told = {"num_bits": bits, "type": kind, "symmetric": True, **weights}
    return {"targets": ["Linear"], "weights": told, "input_activations": activations}


def compressed(form: str, *groups: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401
    named = {f"group_{number}": one for number, one in enumerate(groups)}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": named, **more}


FLOAT8 = {"num_bits": 8, "type": "float", "dynamic": True}
INT8 = {"num_bits": 8, "type": "int", "dynamic": True}


@pytest.mark.parametrize(
    ("told", "scheme", "bits"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8", 8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block", 8),
        ({"quant_method": "fp8", "weight_block_size": [1, 32], "scale_fmt": "ue8m0"}, "mxfp8", 8),
        ({"quant_method": "fbgemm_fp8"}, "fp8", 8),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}, "gptq_int4", 4),
        ({"quant_method": "gptq", "bits": 8}, "gptq_int8", 8),
        ({"quant_method": "gptq", "bits": 3}, "gptq_int3", 3),
        ({"quant_method": "awq", "bits": 4, "version": "gemm", "zero_point": True}, "awq_int4", 4),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, "awq_int4", 4),
        ({"quant_method": "auto-round", "bits": 4, "packing_format": "auto_round:auto_gptq"}, "gptq_int4", 4),
        ({"quant_method": "auto-round", "bits": 4, "packing_format": "auto_round:auto_awq"}, "awq_int4", 4),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes", 4),
        ({"_load_in_8bit": True, "load_in_8bit": True, "load_in_4bit": False}, "bitsandbytes", 8),
        ({"quant_method": "mxfp4"}, "mxfp4", 4),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 4),
        ({"quant_algo": "FP8"}, "fp8", 8),
        ({"quantization": {"quant_algo": "NVFP4"}}, "nvfp4", 4),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"}, "nvfp4", 4),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "modelopt_mixed_precision", None),
        (
            {
                "quant_algo": "MIXED_PRECISION",
                "quantized_layers": {"a": {"quant_algo": "FP8"}, "b": {"quant_algo": "NVFP4"}},
            },
            "nvfp4",
            4,
        ),
        (compressed("float-quantized", group(8, "float", FLOAT8, strategy="channel")), "fp8", 8),
        (compressed("float-quantized", group(8, "float", FLOAT8, strategy="block")), "fp8_block", 8),
        (compressed("nvfp4-pack-quantized", group(4, "float", group_size=16)), "nvfp4", 4),
        (compressed("mxfp4-pack-quantized", group(4, "float", group_size=32)), "mxfp4", 4),
        (compressed("mxfp8-quantized", group(8, "float", group_size=32)), "mxfp8", 8),
        (compressed("pack-quantized", group(4, "int", group_size=128)), "int4_w4a16", 4),
        (compressed("int-quantized", group(8, "int", INT8)), "int8", 8),
        (compressed("pack-quantized", group(8, "int")), "int_w8a16", 8),
        (compressed("pack-quantized", group(4, "int", INT8)), "int_w4a8", 4),
        (compressed("float-quantized", group(8, "float", FLOAT8, group_size=32)), "mxfp8", 8),
        (compressed("pack-quantized", group(4, "int", FLOAT8)), "int_w4afp8", 4),
        (compressed("dense", {"targets": ["Linear"], "weights": None}), "none", None),
        (compressed("mixed", group(8, "float", FLOAT8), group(4, "float", group_size=16)), "nvfp4", 4),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}, "quark_fp8", 8),
        ({"quant_method": "quark", "global_quant_config": {"weight": [{"dtype": "fp4"}]}}, "quark_mxfp4", 4),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}}, "torchao", None),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}}, "hqq", 4),
        ({"quant_method": "aqlm", "bits": 2}, "aqlm", 2),
        ({}, "unknown", None),
    ],
)
def test_each_tools_words(told: dict[str, Any], scheme: str, bits: int | None) -> None:
    found = from_config(told, said_in="config.json")
    assert (found.scheme, found.bits, found.said_in) == (scheme, bits, "config.json")


def test_what_decides_between_kernels_is_kept() -> None:
    gptq = from_config(
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": False}, said_in="c"
    )
    assert (gptq.group_size, gptq.desc_act, gptq.sym) == (128, True, False)
    awq = from_config({"quant_method": "awq", "bits": 4, "zero_point": True, "version": "gemv"}, said_in="c")
    assert (awq.sym, awq.details["version"]) == (False, "gemv")
    mixed = from_config(compressed("mixed", group(8, "float", FLOAT8), group(4, "float", group_size=16)), said_in="c")
    assert mixed.details["schemes"] == ["nvfp4", "fp8"]


@pytest.mark.parametrize(
    ("told", "kv_cache"),
    [
        (compressed("float-quantized", group(8, "float"), kv_cache_scheme={"num_bits": 8, "type": "float"}), "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": None}, ""),
        (compressed("float-quantized", group(8, "float"), kv_cache_scheme=None), ""),
    ],
)
def test_the_type_asked_for_keys_and_values(told: dict[str, Any], kv_cache: str) -> None:
    assert from_config(told, said_in="c").kv_cache == kv_cache


def test_modelopts_own_file(tmp_path: Path) -> None:
    told = {
        "producer": {"name": "modelopt"},
        "quantization": {
            "quant_algo": "NVFP4",
            "kv_cache_quant_algo": "FP8",
            "group_size": 16,
            "exclude_modules": ["lm_head"],
        },
    }
    found = read_checkpoint(write_model(tmp_path, hf_quant_config=told)).quantisation
    assert (found.scheme, found.method, found.said_in) == ("nvfp4", "modelopt NVFP4", "hf_quant_config.json")
    assert (found.group_size, found.kv_cache, found.kv_scales, found.details) == (16, "fp8", False, {"modules_left": 1})
    scaled = {**LLAMA, "model.layers.0.self_attn.k_proj.k_scale": ("F32", ())}
    found = read_checkpoint(write_model(tmp_path, hf_quant_config=told, tensors=scaled)).quantisation
    assert found.kv_scales is True


@pytest.mark.parametrize(
    ("tensors", "scheme"),
    [
        ({"a.qweight": ("I32", (1, 8)), "a.g_idx": ("I32", (8,))}, "gptq_int4"),
        ({"a.qweight": ("I32", (8, 1)), "a.qzeros": ("I32", (1, 1))}, "awq_int4"),
        ({"a.weight": ("F8_E4M3", (8, 8)), "a.weight_scale": ("F32", ())}, "fp8"),
        ({"a.weight": ("F8_E4M3", (8, 8)), "a.weight_scale_inv": ("F32", (1, 1))}, "fp8_block"),
        ({"a.weight_packed": ("U8", (8, 4)), "a.weight_global_scale": ("F32", (1,))}, "nvfp4"),
        ({"a.gate_up_proj_blocks": ("U8", (8, 4)), "a.gate_up_proj_scales": ("U8", (8,))}, "mxfp4"),
        ({"a.weight": ("F16", (8, 8))}, "none"),
    ],
)
def test_what_nobody_said_is_told_by_names_and_types(tmp_path: Path, tensors: Shapes, scheme: str) -> None:
    assert read_checkpoint(write_model(tmp_path, tensors=tensors)).quantisation.scheme == scheme


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(
    [
        "fp8",
        "gptq",
        "awq",
        "auto-round",
        "bitsandbytes",
        "mxfp4",
        "modelopt",
        "compressed-tensors",
        "quark",
        "torchao",
        "hqq",
    ]
)
KEYS = st.sampled_from(
    [
        "bits",
        "group_size",
        "config_groups",
        "kv_cache_scheme",
        "global_quant_config",
        "layer_quant_config",
        "quant_type",
        "quant_config",
        "weight_block_size",
        "format",
        "quant_algo",
        "ignore",
        "version",
        "zero_point",
        "sparsity_config",
    ]
)


@settings(max_examples=300, deadline=None)
@given(METHODS, st.dictionaries(KEYS, JSON, max_size=6))
def test_any_configuration_gives_a_scheme(method: str, told: dict[str, Any]) -> None:
    for found in (from_config({"quant_method": method, **told}, said_in="c"), from_modelopt(told, said_in="c")):
        assert found.scheme
        json.dumps(dict(found.details))


def test_a_configuration_and_tensors_that_say_different_things_are_told(tmp_path: Path) -> None:
    told = {"quant_method": "gptq", "bits": 4}
    packed: Shapes = {"a.qweight": ("I32", (1, 8)), "a.scales": ("F16", (1, 8))}
    (problem,) = read_checkpoint(write_model(tmp_path, config={"quantization_config": told})).problems
    assert (problem.what, problem.fatal) == ("says that weights are quantised (gptq_int4), and no tensor is", False)
    (problem,) = read_checkpoint(write_model(tmp_path, tensors=packed)).problems
    assert (problem.file, problem.what) == ("config.json", "no file says how the weights are quantised")
    agreeing = write_model(tmp_path, config={"quantization_config": told}, tensors=packed)
    on_loading = write_model(tmp_path / "b", config={"quantization_config": {"quant_method": "bitsandbytes"}})
    for root in (agreeing, on_loading):
        assert read_checkpoint(root).problems == ()


def test_what_is_left_of_the_original_within_a_requantised_model_is_not_believed(tmp_path: Path) -> None:
    # As of nvidia/Kimi-K2.5-NVFP4, whose text_config keeps the original's INT4 (github.com/ai-dynamo/aiconfigurator,
    # src/aiconfigurator/model_configs, 202f06a, seen 2026-12-01).
    inner = compressed("pack-quantized", group(4, "int", group_size=32))
    told = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None, "group_size": 16}}
    packed: Shapes = {"a.weight": ("U8", (8, 4)), "a.weight_scale_2": ("F32", ())}
    config = {"text_config": {"quantization_config": inner}}
    found = read_checkpoint(write_model(tmp_path, config=config, tensors=packed, hf_quant_config=told))
    assert (found.quantisation.scheme, found.quantisation.said_in) == ("nvfp4", "hf_quant_config.json")
    (problem,) = found.problems
    assert problem.seen == "hf_quant_config.json: nvfp4; config.json, text_config: int4_w4a16"
    assert not problem.fatal
