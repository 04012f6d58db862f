"""Adapters' folders read as they are, what engines do with each trait, and whether they belong to a model."""

from __future__ import annotations

import json
import struct
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_weights import LLAMA, Q_PROJ, gguf, lora, write_adapter, write_model

from unmoor.core.errors import UsageError
from unmoor.engines.surface.surface import Flag, Option, Source, Support, Surface, Trait
from unmoor.leave.adapters.adapter import Adapter
from unmoor.leave.adapters.base_model import fit, with_model
from unmoor.leave.adapters.read import read_adapters
from unmoor.leave.adapters.support import adapter_verdict
from unmoor.leave.checkpoint.read import read_checkpoint
from unmoor.leave.checks.adapters import adapter_file_hits, adapter_hits, base_hits

SOURCE = Source(how="source", what="its package", version="1", seen=date(2026, 12, 1))


def engine(name: str = "far", *, max_rank: str = "", choices: tuple[str, ...] | None = None, **adapter: str) -> Surface:
    """A surface that says what becomes of each trait."""
    said = {"peft_safetensors": "native", **adapter}
    return Surface(
        engine=name,
        title=name.title(),
        version="1.0",
        as_of=date(2026, 12, 1),
        sources={"code": SOURCE},
        unknown_fields=Trait(value="ignored", source="code"),
        fields={},
        adapter={trait: Support(value=value, source="code") for trait, value in said.items()},  # type: ignore[arg-type]
        flags={"lora_max_rank": Flag(names=("--max-rank",), source="code", default=max_rank)} if max_rank else {},
        options={"max_rank": Option(flags=("--max-rank",), default=max_rank, choices=choices)} if max_rank else {},
    )


def one(path: Path, **config: Any) -> Adapter:  # noqa: ANN401 - PEFT's keys
    (found,) = read_adapters(write_adapter(path, **config))
    return found


def test_a_plain_adapter(tmp_path: Path) -> None:
    found = one(tmp_path / "plain")
    assert (found.name, found.container, found.base_model) == ("plain", "safetensors", "org/Tiny")
    assert (found.rank, found.alpha, found.highest_rank, found.target_modules) == (4, 8.0, 4, ("q_proj",))
    assert (dict(found.traits), found.problems, found.tensors) == (
        {"peft_safetensors": "adapter_model.safetensors"},
        (),
        2,
    )


MAGNITUDES = {**lora(Q_PROJ), "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector": ("F32", (8,))}
BIASES = {**lora(Q_PROJ), "base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias": ("F32", (8,))}


# Names as PEFT 0.21.2 writes them, taken from adapters that it made of a small Llama on 2026-12-01.
WHOLE = {**lora(Q_PROJ), "base_model.model.lm_head.weight": ("F32", (32, 8))}
DELTA = {**lora(Q_PROJ), "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta": ("F32", (2, 8))}
EMBEDDING = {
    "base_model.model.model.embed_tokens.base_layer.weight": ("F32", (32, 8)),
    "base_model.model.model.embed_tokens.lora_embedding_A": ("F32", (4, 32)),
    "base_model.model.model.embed_tokens.lora_embedding_B": ("F32", (8, 4)),
}


@pytest.mark.parametrize(
    ("config", "trait", "said"),
    [
        ({"tensors": WHOLE}, "modules_to_save", ["base_model.model.lm_head.weight"]),
        ({"tensors": DELTA}, "added_tokens", "trainable_token_indices"),
        ({"tensors": EMBEDDING}, "embedding", ["embed_tokens"]),
        ({"use_rslora": True}, "use_rslora", True),
        ({"use_dora": True}, "use_dora", True),
        ({"tensors": MAGNITUDES}, "use_dora", "1 magnitude vectors"),
        ({"bias": "lora_only"}, "bias", "lora_only"),
        ({"tensors": BIASES}, "bias", "1 tensors"),
        ({"lora_bias": True}, "bias", "lora_bias"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save", ["lm_head"]),
        ({"rank_pattern": {"q_proj": 4}}, "rank_pattern", {"q_proj": 4}),
        ({"alpha_pattern": {"q_proj": 2}}, "alpha_pattern", {"q_proj": 2}),
        ({"target_modules": ["model.layers.0.self_attn.q_proj"]}, "target_prefix", "model.layers.0.self_attn.q_proj"),
        ({"target_modules": ["q_proj", "experts.0.w1"]}, "moe_experts", "experts.0.w1"),
        ({"target_parameters": ["mlp.experts.gate_up_proj"]}, "moe_experts", "target_parameters"),
        ({"target_modules": ["q_proj", "lm_head"]}, "embedding", ["lm_head"]),
        ({"trainable_token_indices": [1, 2]}, "added_tokens", "trainable_token_indices"),
        ({"init_lora_weights": "pissa_niter_16"}, "base_changing_init", "pissa_niter_16"),
        ({"peft_type": "IA3"}, "not_lora", "IA3"),
        ({"layer_replication": [[0, 1]]}, "layer_replication", [[0, 1]]),
        ({"r": 12}, "rank_choices", 12),
    ],
)
def test_each_trait_by_its_own_word_or_tensors(
    tmp_path: Path, config: dict[str, Any], trait: str, said: object
) -> None:
    assert one(tmp_path / "a", **config).traits[trait] == said


def test_settings_that_change_nothing_are_no_traits(tmp_path: Path) -> None:
    plain = one(tmp_path / "a", init_lora_weights="gaussian", target_modules="all-linear", rank_pattern=None, r=16)
    assert set(plain.traits) == {"peft_safetensors"}
    assert "modules_to_save" not in one(tmp_path / "b", tensors=EMBEDDING).traits


def test_several_adapters_in_a_folder_and_none(tmp_path: Path) -> None:
    write_adapter(tmp_path / "all" / "b")
    write_adapter(tmp_path / "all" / "a")
    (tmp_path / "all" / "notes").mkdir()
    assert [found.name for found in read_adapters(tmp_path / "all")] == ["a", "b"]
    for path in (tmp_path / "all" / "notes", tmp_path / "gone"):
        with pytest.raises(UsageError):
            read_adapters(path)


def test_another_rank_in_the_tensors_than_in_the_configuration_is_fatal(tmp_path: Path) -> None:
    wrong = one(tmp_path / "a", tensors=lora(Q_PROJ, 8))
    assert [(problem.fatal, problem.expected) for problem in wrong.problems] == [
        (True, "r = 4, or a rank of rank_pattern")
    ]
    right = one(tmp_path / "b", tensors=lora(Q_PROJ, 8), rank_pattern={"q_proj": 8})
    assert (right.problems, right.highest_rank) == ((), 8)


@pytest.mark.parametrize(
    ("config", "weights"),
    [(b"[" * 100_000, None), (b"{}", None), (b'{"r": "4"}', None), (None, b""), (None, (2**60).to_bytes(8, "little"))],
)
def test_broken_files_are_fatal_problems(tmp_path: Path, config: bytes | None, weights: bytes | None) -> None:
    root = write_adapter(tmp_path / "a")
    if config is not None:
        (root / "adapter_config.json").write_bytes(config)
    if weights is not None:
        (root / "adapter_model.safetensors").write_bytes(weights)
    (found,) = read_adapters(root)
    assert [problem.fatal for problem in found.problems] == [True]
    assert [hit.finding.kind for hit in adapter_file_hits(found)] == ["UM133"]


def test_pickled_adapters_are_named_and_never_opened(tmp_path: Path) -> None:
    root = write_adapter(tmp_path / "a")
    (root / "adapter_model.safetensors").unlink()
    (root / "adapter_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    (found,) = read_adapters(root)
    assert (found.container, found.pickles, found.problems) == ("pickle", ("adapter_model.bin",), ())
    assert found.traits["pickle"] == ["adapter_model.bin"]
    assert [hit.finding.kind for hit in adapter_file_hits(found)] == ["UM132"]


def test_a_gguf_adapter(tmp_path: Path) -> None:
    tensors = {"blk.0.attn_q.weight.lora_a": (0, (4, 8)), "blk.0.attn_q.weight.lora_b": (0, (8, 4))}
    pairs = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 8.0}
    (tmp_path / "a.gguf").write_bytes(gguf(pairs, tensors))
    (found,) = read_adapters(tmp_path / "a.gguf")
    assert (found.container, found.rank, found.alpha, found.problems) == ("gguf", 4, 8.0, ())
    assert not fit(found, read_checkpoint(write_model(tmp_path / "m"))).wrong
    (tmp_path / "model.gguf").write_bytes(gguf())
    (no_adapter,) = read_adapters(tmp_path / "model.gguf")
    assert [problem.what for problem in no_adapter.problems] == ["is no adapter"]


def kinds(adapter: Adapter, target: Surface, source: Surface | None = None) -> list[tuple[str, str]]:
    return [(hit.finding.kind, hit.finding.outcome) for hit in adapter_hits(adapter, source, target)]


def test_an_rslora_adapter_whose_scale_is_ignored_gets_the_same_scale_in_plain_words(tmp_path: Path) -> None:
    adapter = one(tmp_path / "a", use_rslora=True, r=16, lora_alpha=8)
    (hit,) = adapter_hits(adapter, engine("near", use_rslora="native"), engine(use_rslora="ignored"))
    assert (hit.finding.kind, hit.finding.outcome, hit.finding.severity) == ("UM101", "translated", "error")
    assert hit.finding.fix == "Write lora_alpha 32 and use_rslora false: the same scale as plain LoRA."
    assert 8 / 16**0.5 == 32 / 16  # the rule itself
    assert "√16 = 4 times too weakly" in hit.finding.seen
    assert hit.finding.sources == (SOURCE,)
    assert not kinds(adapter, engine(use_rslora="native"))
    assert not kinds(one(tmp_path / "plain"), engine(use_rslora="ignored"))
    assert kinds(adapter, engine(use_rslora="ignored"), engine("near", use_rslora="ignored")) == [("UM101", "same")]


def test_what_the_target_refuses_or_disregards_is_lost_or_translated(tmp_path: Path) -> None:
    dora, patterns = one(tmp_path / "a", use_dora=True), one(tmp_path / "b", alpha_pattern={"q_proj": 2})
    assert kinds(dora, engine(use_dora="refused")) == [("UM117", "lost")]
    assert kinds(dora, engine(use_dora="native")) == []
    assert kinds(dora, engine(use_dora="refused"), engine("near", use_dora="refused")) == [("UM117", "same")]
    assert kinds(patterns, engine(alpha_pattern="ignored")) == [("UM117", "translated")]
    assert kinds(dora, engine()) == [("UM117", "same")]
    assert kinds(one(tmp_path / "c"), engine(use_dora="refused", alpha_pattern="ignored", bias="refused")) == []


@pytest.mark.parametrize(
    ("rank", "choices", "serves", "flag"),
    [
        (16, None, "native", ""),
        (24, None, "needs_flag", "--max-rank 24"),
        (24, ("16", "32", "64"), "needs_flag", "--max-rank 32"),
    ],
)
def test_ranks_over_the_servers_bound(
    tmp_path: Path, rank: int, choices: tuple[str, ...] | None, serves: str, flag: str
) -> None:
    target = engine(max_rank="16", choices=choices, rank_choices="native")
    verdict = adapter_verdict(one(tmp_path / "a", r=rank), target)
    assert verdict.serves == serves
    assert [trait.flag for trait in verdict.traits if trait.flag] == ([flag] if flag else [])


def test_a_rank_beyond_every_choice_is_refused(tmp_path: Path) -> None:
    target = engine(max_rank="16", choices=("16", "32"))
    assert kinds(one(tmp_path / "a", r=64), target) == [("UM117", "lost")]


def test_an_engine_that_converts_or_serves_none(tmp_path: Path) -> None:
    plain = one(tmp_path / "a", use_dora=True)
    converts, none = (
        engine(peft_safetensors="fallback", use_dora="native"),
        engine(peft_safetensors="refused", gguf_adapter="refused"),
    )
    assert kinds(plain, converts) == [("UM117", "translated")]
    assert kinds(plain, none) == [("UM117", "lost")]
    assert kinds(plain, none, none) == [("UM117", "same")]


def test_an_adapted_head_that_is_tied_is_a_trait_of_both(tmp_path: Path) -> None:
    adapter = one(tmp_path / "a", target_modules=["q_proj", "lm_head"])
    tied = read_checkpoint(write_model(tmp_path / "m", config={"tie_word_embeddings": True}))
    untied = read_checkpoint(write_model(tmp_path / "n"))
    assert "tied_lm_head" in with_model(adapter, tied).traits
    assert "tied_lm_head" not in with_model(adapter, untied).traits
    assert "tied_lm_head" not in with_model(one(tmp_path / "b"), tied).traits
    refuses = engine(tied_lm_head="refused")
    assert ("UM117", "lost") in kinds(with_model(adapter, tied), refuses)
    assert ("UM117", "lost") not in kinds(with_model(adapter, untied), refuses)


def test_an_adapter_of_another_model_is_told_by_its_shapes(tmp_path: Path) -> None:
    model = read_checkpoint(write_model(tmp_path / "m", config={"_name_or_path": "org/Tiny"}))
    fitting = one(tmp_path / "a")
    assert fit(fitting, model).compared == 1
    assert list(base_hits(fitting, model)) == []
    wide = one(tmp_path / "b", tensors=lora({"model.layers.0.self_attn.q_proj": (8, 16)}))
    (hit,) = base_hits(wide, model)
    assert (hit.finding.kind, hit.finding.outcome) == ("UM134", "lost")
    assert (
        "0.self_attn.q_proj is 8 × 16 in the adapter, 8 × 8 in the model; it was trained for org/Tiny"
        in hit.finding.seen
    )
    deeper = one(tmp_path / "c", tensors=lora({"model.layers.7.self_attn.q_proj": (8, 8)}))
    assert [hit.finding.outcome for hit in base_hits(deeper, model)] == ["lost"]


def test_repeated_layers_are_not_missing_ones(tmp_path: Path) -> None:
    model = read_checkpoint(write_model(tmp_path / "m"))
    deeper = lora({"model.layers.3.self_attn.q_proj": (8, 8)})
    assert fit(one(tmp_path / "a", tensors=deeper, layer_replication=[[0, 1]]), model).missing == ()
    assert fit(one(tmp_path / "b", tensors=deeper), model).missing == ("3.self_attn.q_proj",)


def test_another_name_with_the_same_shapes_is_a_note(tmp_path: Path) -> None:
    model = read_checkpoint(write_model(tmp_path / "m", config={"_name_or_path": "org/tiny-v2"}))
    (hit,) = base_hits(one(tmp_path / "a"), model)
    assert (hit.finding.outcome, hit.finding.severity) == ("same", "note")
    nameless = read_checkpoint(write_model(tmp_path / "n"))
    assert list(base_hits(one(tmp_path / "b"), nameless)) == []


def test_packed_weights_have_names_but_no_shapes_to_compare(tmp_path: Path) -> None:
    packed = {
        "model.layers.0.self_attn.q_proj.qweight": ("I32", (1, 8)),
        "model.layers.0.self_attn.q_proj.qzeros": ("I32", (1, 1)),
    }
    told = {"quant_method": "gptq", "bits": 4}
    model = read_checkpoint(write_model(tmp_path / "m", tensors=packed, config={"quantization_config": told}))
    found = fit(one(tmp_path / "a"), model)
    assert (found.compared, found.wrong, found.missing) == (0, (), ())


def test_a_vision_tower_with_the_same_layers_is_not_mixed_up(tmp_path: Path) -> None:
    tower = {"vision_model.encoder.layers.0.self_attn.q_proj.weight": ("F16", (2, 2))}
    model = read_checkpoint(write_model(tmp_path / "m", tensors={**LLAMA, **tower}))
    assert fit(one(tmp_path / "a"), model).wrong == ()


def test_a_peft_adapter_fits_a_gguf_model_by_its_own_names(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf(tensors={"blk.0.attn_q.weight": (0, (8, 16))}))
    model = read_checkpoint(tmp_path / "m.gguf")
    wrong = fit(one(tmp_path / "a"), model).wrong
    assert [(found.adapter, found.model) for found in wrong] == [((8, 8), (8, 16))]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "r",
        "lora_alpha",
        "target_modules",
        "bias",
        "use_rslora",
        "use_dora",
        "modules_to_save",
        "rank_pattern",
        "alpha_pattern",
        "peft_type",
        "init_lora_weights",
        "base_model_name_or_path",
        "target_parameters",
        "trainable_token_indices",
        "layer_replication",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(KEYS, JSON, max_size=8))
def test_any_configuration_is_read_and_judged(tmp_path_factory: pytest.TempPathFactory, config: dict[str, Any]) -> None:
    root = tmp_path_factory.getbasetemp() / "any-adapter"
    write_adapter(root)
    (root / "adapter_config.json").write_text(json.dumps(config))
    (found,) = read_adapters(root)
    assert adapter_verdict(found, engine(max_rank="16", use_dora="refused")).adapter == "any-adapter"
    assert all(hit.finding.seen for hit in adapter_hits(found, None, engine(use_rslora="ignored")))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_weights_are_read_or_a_problem(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    root = write_adapter(tmp_path_factory.getbasetemp() / "any-weights")
    (root / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(content)) + content)
    (found,) = read_adapters(root)
    assert found.problems or found.tensors == 0
