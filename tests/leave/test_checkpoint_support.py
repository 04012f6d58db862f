"""Which engines load a checkpoint on which hardware: from surfaces written here, and from the known ones."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_weights import LLAMA, write_model

from unmoor.core.errors import UsageError
from unmoor.engines.surface.concepts import ADAPTER, CHECKPOINT, HARDWARE
from unmoor.engines.surface.load import known_surfaces, surface
from unmoor.engines.surface.surface import Flag, Source, Support, Surface, Trait
from unmoor.leave.checkpoint.checkpoint import Checkpoint, Quantisation
from unmoor.leave.checkpoint.devices import hardware_kind
from unmoor.leave.checkpoint.read import read_checkpoint
from unmoor.leave.checkpoint.support import variants, verdicts, ways
from unmoor.leave.checks.checkpoints import format_hits, kv_scale_hits, variant_hits
from unmoor.leave.launch_flags import LaunchFlags

SOURCE = Source(how="source", what="its package", version="1", seen=date(2026, 12, 1))


def engine(name: str, **checkpoint: dict[str, str]) -> Surface:
    """A surface that says, of each scheme, what each kind of hardware does with it."""
    return Surface(
        engine=name,
        title=name.title(),
        version="1.0",
        as_of=date(2026, 12, 1),
        sources={"code": SOURCE},
        unknown_fields=Trait(value="ignored", source="code"),
        fields={},
        checkpoint={
            scheme: {place: Support(value=value, source="code") for place, value in table.items()}  # type: ignore[arg-type]
            for scheme, table in checkpoint.items()
        },
    )


def model(scheme: str, **more: Any) -> Checkpoint:  # noqa: ANN401 - fields of a checkpoint
    quantisation = Quantisation(scheme=scheme, **more.pop("quantisation", {}))
    fields = {"container": "safetensors", "architecture": "A", "dtype": "float16", "tensors": {"F16": 1}, **more}
    return Checkpoint(path="m", quantisation=quantisation, **fields)


NEAR = engine(
    "near",
    none={"nvidia_hopper": "native", "amd_cdna4": "native"},
    nvfp4={"nvidia_hopper": "fallback", "nvidia_blackwell": "native", "amd_cdna4": "refused"},
    mxfp4={"nvidia_hopper": "fallback", "nvidia_blackwell": "native", "amd_cdna4": "native"},
    fp8={"nvidia_hopper": "native", "nvidia_blackwell": "native"},
    fp8_kv={"nvidia_hopper": "native", "amd_cdna4": "refused"},
)


def loads(checkpoint: Checkpoint, of: Surface, hardware: str) -> str:
    (one,) = verdicts(checkpoint, of, [hardware])
    return one.loads


def test_native_fallback_refused_and_unknown() -> None:
    nvfp4 = model("nvfp4")
    places = ("nvidia_blackwell", "nvidia_hopper", "amd_cdna4", "cpu_arm")
    assert [loads(nvfp4, NEAR, one) for one in places] == ["native", "fallback", "refused", "unknown"]
    assert loads(model("aqlm"), NEAR, "nvidia_hopper") == "unknown"


def test_a_verdict_names_its_source_and_the_ways_on_that_hardware() -> None:
    (refused,) = verdicts(model("nvfp4"), NEAR, ["amd_cdna4"])
    assert (refused.sources, refused.ways) == ((SOURCE,), ("mxfp4", "none"))
    (fallback,) = verdicts(model("nvfp4"), NEAR, ["nvidia_hopper"])
    assert fallback.ways == ("fp8", "none")
    (native,) = verdicts(model("nvfp4"), NEAR, ["nvidia_blackwell"])
    assert native.ways == ()


def test_eight_bits_are_not_replaced_by_four() -> None:
    of = engine("e", mxfp4={"cpu_x86": "native"}, int8={"cpu_x86": "native"}, none={"cpu_x86": "native"})
    assert ways("fp8", of, "cpu_x86") == ("int8", "none")


def test_the_type_of_keys_and_values_counts_too() -> None:
    asked = model("none", quantisation={"kv_cache": "fp8", "kv_scales": True})
    assert loads(asked, NEAR, "nvidia_hopper") == "native"
    assert loads(asked, NEAR, "amd_cdna4") == "refused"


@pytest.mark.parametrize(
    ("scheme", "told", "dtype", "expected"),
    [
        ("gptq_int4", {"desc_act": True, "sym": True}, "float16", ("gptq_desc_act",)),
        ("gptq_int4", {"desc_act": False, "sym": False}, "bfloat16", ("gptq_asymmetric", "gptq_bfloat16")),
        ("gptq_int4", {"details": {"checkpoint_format": "gptq_v2"}}, "float16", ("gptq_v2",)),
        ("awq_int4", {"sym": False}, "bfloat16", ("awq_bfloat16",)),
        ("awq_int4", {"details": {"version": "GEMV"}, "sym": True}, "float16", ("awq_gemv", "awq_symmetric")),
        ("gptq_int4", {"desc_act": False, "sym": True}, "float16", ()),
        ("gptq_int4", {"desc_act": True, "sym": True, "group_size": -1}, "float16", ()),
        ("fp8", {}, "bfloat16", ()),
    ],
)
def test_variants(scheme: str, told: dict[str, Any], dtype: str, expected: tuple[str, ...]) -> None:
    assert variants(model(scheme, quantisation=told, dtype=dtype)) == expected


def test_variant_findings_fire_where_the_target_differs_and_only_there() -> None:
    asymmetric = model("gptq_int4", quantisation={"sym": False})
    plain = model("gptq_int4", quantisation={"sym": True})
    takes = engine("takes", gptq_asymmetric={"nvidia_hopper": "native"})
    refuses = engine("refuses", gptq_asymmetric={"nvidia_hopper": "refused"})
    varies = engine("varies", gptq_asymmetric={"nvidia_hopper": "native", "cpu_x86": "varies"})
    assert [one.finding.outcome for one in variant_hits(asymmetric, takes, refuses)] == ["lost"]
    assert [one.finding.outcome for one in variant_hits(asymmetric, takes, varies)] == ["translated"]
    assert [one.finding.outcome for one in variant_hits(asymmetric, takes, engine("silent"))] == ["same"]
    assert not list(variant_hits(asymmetric, refuses, refuses))
    assert not list(variant_hits(asymmetric, refuses, takes))
    assert not list(variant_hits(plain, takes, refuses))
    assert not list(variant_hits(asymmetric, None, varies, ["nvidia_hopper"]))
    (hit,) = variant_hits(asymmetric, None, varies)
    assert hit.finding.seen == "GPTQ with zero points on Varies: varies on x86-64 CPU."


@pytest.mark.parametrize(
    ("dtype", "names", "loads", "note"),
    [
        (
            "bfloat16",
            ("--type",),
            "fallback",
            "slow, and the model is bfloat16, which is an error: start it with --type float16",
        ),
        ("bfloat16", (), "refused", "slow, and the model is bfloat16, which is an error"),
        ("float16", ("--type",), "fallback", "slow"),
        ("", ("--type",), "fallback", "slow"),
    ],
)
def test_kernels_of_one_type_beside_a_model_of_another(
    dtype: str, names: tuple[str, ...], loads: str, note: str
) -> None:
    slow = Support(value="fallback", source="code", note="slow", only_dtype="float16")
    fast = Support(value="native", source="code", note="fast")
    of = msgspec.structs.replace(
        engine("e", gptq_int4={"nvidia_hopper": "native"}),
        flags={"dtype": Flag(names=names, source="code")},
    )
    table = {"gptq_asymmetric": {"nvidia_hopper": slow}, "gptq_bfloat16": {"nvidia_hopper": fast}}
    of = msgspec.structs.replace(of, checkpoint={**of.checkpoint, **table})
    (found,) = verdicts(model("gptq_int4", quantisation={"sym": False}, dtype=dtype), of, ["nvidia_hopper"])
    assert (found.loads, found.notes) == (loads, (f"GPTQ with zero points: {note}",))
    assert found.without == ("gptq_asymmetric",)


def test_a_variant_of_which_nothing_is_known_is_said_and_changes_nothing() -> None:
    of = engine("e", gptq_int4={"nvidia_hopper": "native", "amd_cdna3": "refused"})
    asymmetric = model("gptq_int4", quantisation={"sym": False})
    (native, refused) = verdicts(asymmetric, of, ["nvidia_hopper", "amd_cdna3"])
    assert (native.loads, native.notes) == ("native", ("GPTQ with zero points: not known",))
    assert (refused.loads, refused.notes) == ("refused", ())


def test_format_findings_fire_where_hardware_is_lost_or_worse() -> None:
    far = engine("far", nvfp4={"nvidia_hopper": "refused", "nvidia_blackwell": "native", "amd_cdna4": "refused"})
    (lost,) = format_hits(model("nvfp4"), NEAR, far)
    assert (lost.finding.outcome, lost.finding.kind) == ("translated", "UM113")
    assert "refused by Far on NVIDIA Hopper (9.0)" in lost.finding.seen
    (worse,) = format_hits(model("fp8"), NEAR, engine("far", fp8={"nvidia_hopper": "fallback"}))
    assert "not as it is stored" in worse.finding.seen
    (nowhere,) = format_hits(model("fp8"), NEAR, engine("far", fp8={"nvidia_hopper": "refused"}))
    assert (nowhere.finding.outcome, nowhere.finding.severity) == ("lost", "error")
    assert not list(format_hits(model("fp8"), NEAR, NEAR))


def test_scales_for_keys_and_values_are_missed_only_where_they_are_asked_for(tmp_path: Path) -> None:
    def flags(kv_dtype: str) -> LaunchFlags:
        return LaunchFlags(where="start", given={}, concepts={"kv_dtype": kv_dtype})

    asked = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
    bare = read_checkpoint(write_model(tmp_path / "a", config={"quantization_config": asked}))
    plain = read_checkpoint(write_model(tmp_path / "b"))
    scale = {**LLAMA, "model.layers.0.self_attn.attn.k_scale": ("F32", ())}
    scaled = read_checkpoint(write_model(tmp_path / "c", config={"quantization_config": asked}, tensors=scale))
    assert [one.finding.kind for one in kv_scale_hits(bare, None)] == ["UM114"]
    assert [one.finding.kind for one in kv_scale_hits(plain, flags("fp8_e4m3"))] == ["UM114"]
    for clean, start in ((scaled, flags("fp8")), (plain, None), (plain, flags("auto")), (plain, flags("fp8_e5m2"))):
        assert not list(kv_scale_hits(clean, start))


def test_devices_by_their_names() -> None:
    names = {"H200": "nvidia_hopper", "l40s": "nvidia_ada", "a100_sxm": "nvidia_ampere", "A10": "nvidia_ampere"}
    names |= {"MI300X": "amd_cdna3", "mi355x": "amd_cdna4", "gb200": "nvidia_blackwell", "cpu_arm": "cpu_arm"}
    names |= {"NVIDIA H100": "nvidia_hopper", "rtx-4090": "nvidia_ada", "gaudi3": "intel_gaudi", "cpu": "cpu_x86"}
    assert {name: hardware_kind(name) for name in names} == names
    with pytest.raises(UsageError) as caught:
        hardware_kind("abacus", where="--hardware")
    assert caught.value.where == "--hardware"


@pytest.mark.parametrize("asked", [f"{name}@{one}" for name, versions in known_surfaces().items() for one in versions])
def test_known_surfaces_speak_of_known_schemes_hardware_and_traits(asked: str) -> None:
    known = surface(asked)
    assert set(known.checkpoint) <= set(CHECKPOINT)
    assert {place for table in known.checkpoint.values() for place in table} <= set(HARDWARE)
    assert set(known.adapter) <= set(ADAPTER)
    said = [one for table in known.checkpoint.values() for one in table.values()]
    assert all(one.source in known.sources for one in [*said, *known.adapter.values()])
    assert msgspec.json.encode(verdicts(model("nvfp4"), known))


@pytest.mark.parametrize("slip", ["h201", "b2000", "mi300zz", "a1000", "t40"])
def test_a_device_that_only_begins_like_another_is_unknown(slip: str) -> None:
    with pytest.raises(UsageError, match="unknown hardware"):
        hardware_kind(slip)
