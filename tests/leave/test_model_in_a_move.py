"""The model and adapters as a part of a move: each kind fires on a small real case, and not on its clean twin."""

from __future__ import annotations

import dataclasses
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from made_weights import LLAMA, lora, write_adapter, write_model

from unmoor.engines.surface.surface import Source, Support, Surface, Trait
from unmoor.leave.adapters.read import read_adapters
from unmoor.leave.case import Case
from unmoor.leave.checkpoint.read import read_checkpoint
from unmoor.leave.checks import adapters as adapter_checks
from unmoor.leave.checks import checkpoints as checkpoint_checks
from unmoor.leave.uses import Uses

SOURCE = Source(how="source", what="its package", version="1", seen=date(2026, 12, 1))
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}
PACKED = {"model.layers.0.self_attn.q_proj.qweight": ("I32", (1, 8))}
FP8: dict[str, Any] = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
EIGHT = {"model.layers.0.self_attn.q_proj.weight": ("F8_E4M3", (8, 8))}
SCALED = {**EIGHT, "model.layers.0.self_attn.k_proj.k_scale": ("F32", ())}


def engine(name: str, *, fp8: str, desc_act: str, **adapter: str) -> Surface:
    said = {"none": "native", "fp8": fp8, "gptq_int4": "native", "gptq_desc_act": desc_act, "fp8_kv": "native"}
    return Surface(
        engine=name,
        title=name,
        version="1.0",
        as_of=date(2026, 12, 1),
        sources={"code": SOURCE},
        unknown_fields=Trait(value="ignored", source="code"),
        fields={},
        checkpoint={
            scheme: {"nvidia_hopper": Support(value=value, source="code")}  # type: ignore[arg-type]
            for scheme, value in said.items()
        },
        adapter={
            trait: Support(value=value, source="code")  # type: ignore[arg-type]
            for trait, value in {"peft_safetensors": "native", **adapter}.items()
        },
    )


NEAR = engine("near", fp8="native", desc_act="native", use_rslora="native", use_dora="native")
FAR = engine("far", fp8="refused", desc_act="refused", use_rslora="ignored", use_dora="refused")


def found(case: Case) -> set[str]:
    """The kinds that say that something is lost or must be translated."""
    hits = [*checkpoint_checks.CHECK.look(case), *adapter_checks.CHECK.look(case)]
    return {one.finding.kind for one in hits if one.finding.outcome != "same"}


def case(root: Path, *, model: dict[str, Any] | None = None, adapter: dict[str, Any] | None = None) -> Case:
    own = read_checkpoint(write_model(root / "m", **model)) if model is not None else None
    adapters = read_adapters(write_adapter(root / "a", **adapter)) if adapter is not None else ()
    return Case(uses=Uses(), source=NEAR, target=FAR, model=own, adapters=adapters)


@pytest.mark.parametrize(
    ("kind", "brought", "clean"),
    [
        ("UM113", {"model": {"config": {"quantization_config": FP8}, "tensors": SCALED}}, {"model": {}}),
        (
            "UM114",
            {"model": {"config": {"quantization_config": FP8}, "tensors": EIGHT}},
            {"model": {"config": {"quantization_config": FP8}, "tensors": SCALED}},
        ),
        (
            "UM115",
            {"model": {"config": {"quantization_config": GPTQ}, "tensors": PACKED}},
            {"model": {"config": {"quantization_config": {**GPTQ, "desc_act": False}}, "tensors": PACKED}},
        ),
        ("UM101", {"adapter": {"use_rslora": True}}, {"adapter": {}}),
        ("UM117", {"adapter": {"use_dora": True}}, {"adapter": {}}),
        (
            "UM134",
            {"model": {}, "adapter": {"tensors": lora({"model.layers.0.self_attn.q_proj": (8, 16)})}},
            {"model": {}, "adapter": {}},
        ),
    ],
)
def test_each_kind_fires_and_its_clean_twin_does_not(
    tmp_path: Path, kind: str, brought: dict[str, Any], clean: dict[str, Any]
) -> None:
    assert kind in found(case(tmp_path / "fires", **brought))
    assert kind not in found(case(tmp_path / "clean", **clean))


def test_files_that_are_broken_or_pickled_fire_and_whole_ones_do_not(tmp_path: Path) -> None:
    whole = case(tmp_path / "whole", model={}, adapter={})
    assert found(whole) == set()
    root = write_model(tmp_path / "broken")
    (root / "model.safetensors").write_bytes((2**60).to_bytes(8, "little"))
    assert found(dataclasses.replace(whole, model=read_checkpoint(root), adapters=())) == {"UM133"}
    (root / "model.safetensors").rename(root / "pytorch_model.bin")
    assert found(dataclasses.replace(whole, model=read_checkpoint(root), adapters=())) == {"UM132"}


def test_a_move_back_to_the_same_engine_loses_nothing(tmp_path: Path) -> None:
    everything = case(
        tmp_path,
        model={"config": {"quantization_config": FP8}, "tensors": {**LLAMA, **SCALED}},
        adapter={"use_rslora": True, "use_dora": True},
    )
    assert found(everything) == {"UM101", "UM113", "UM117"}
    for one in (NEAR, FAR):
        assert "UM101" not in found(dataclasses.replace(everything, source=one, target=one))
    assert found(dataclasses.replace(everything, target=NEAR)) == set()


def test_what_was_not_brought_is_said(tmp_path: Path) -> None:
    nothing = case(tmp_path)
    assert found(nothing) == set()
    assert len(nothing.not_looked_at) == 2
    unknown = case(
        tmp_path / "u", model={"config": {"quantization_config": {"quant_method": "aqlm"}}, "tensors": PACKED}
    )
    assert found(unknown) == set()
    assert "its surface says nothing of it" in unknown.not_looked_at[0]
