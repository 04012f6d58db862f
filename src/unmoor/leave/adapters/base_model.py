"""Whether an adapter belongs to a model: the shapes of what it adapts against the model's own, and their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from unmoor.leave.adapters.adapter import Adapter
from unmoor.leave.checkpoint.checkpoint import Checkpoint

_UNPACKED = frozenset(("none", "fp8", "fp8_block", "quark_fp8", "mxfp8", "int8", "gguf"))
"""Schemes whose tensors have the shapes of the layers they stand for; others pack several values into one."""

_LORA = re.compile(r"\.lora_(?P<side>[AB])(?:\.[^.]+)?\.weight$|\.lora_(?P<gguf_side>[ab])$")
_LAYER = re.compile(r"(?:^|\.)(?:layers|blk|h|blocks)\.(?P<rest>\d+\..+)$")
_TOWER = re.compile(r"vision|visual|audio|image")
"""What is not the language model has layers of its own, with the same numbers."""
_GGUF_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class WrongShape(NamedTuple):
    """A module whose inputs or outputs the adapter and the model have in another number: (outputs, inputs)."""

    module: str
    adapter: tuple[int, int]
    model: tuple[int, int]


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How an adapter fits a model.

    `compared` modules were found in the model with their shape; `missing` are not in the model at all. `named` and
    `given` are the base model's name in the adapter and the model's own; `same_name` is None where either is unknown.
    """

    compared: int
    wrong: tuple[WrongShape, ...] = ()
    missing: tuple[str, ...] = ()
    named: str = ""
    given: str = ""
    same_name: bool | None = None


def fit(adapter: Adapter, model: Checkpoint) -> Fit:
    """Compares what the headers of both allow to compare; packed weights have no shapes to compare, only names."""
    modules = _modules(model.shape_of)
    compared, wrong, missing = 0, [], []
    for module, shape in _adapted(adapter.shape_of).items():
        if module not in modules:
            missing.append(module)
            continue
        own = modules[module]
        if own is None or model.quantisation.scheme not in _UNPACKED:
            continue
        compared += 1
        if own != shape:
            wrong.append(WrongShape(module, shape, own))
    given = _last(model.name) or _last(Path(model.path).resolve().name)
    named = _last(adapter.base_model)
    return Fit(
        compared=compared,
        wrong=tuple(wrong),
        missing=tuple(missing) if modules and "layer_replication" not in adapter.traits else (),
        named=adapter.base_model,
        given=given,
        same_name=_alike(named, given) if named and _last(model.name) else None,
    )


def with_model(adapter: Adapter, model: Checkpoint | None) -> Adapter:
    """The adapter with the trait that it has only beside its model: it adapts a head that is tied to the embedding."""
    vocabulary = adapter.traits.get("embedding")
    if model is None or not model.ties_embeddings or not isinstance(vocabulary, list) or "lm_head" not in vocabulary:
        return adapter
    return msgspec.structs.replace(adapter, traits={**adapter.traits, "tied_lm_head": True})


def _adapted(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, int]]:
    """Each adapted linear module's (outputs, inputs): B is (outputs, rank), A (rank, inputs). Experts are left out."""
    sides: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        match = _LORA.search(name)
        if match and len(shape) == 2 and "experts" not in name:  # noqa: PLR2004 - a matrix
            side = (match["side"] or match["gguf_side"]).upper()
            sides.setdefault(_module(name[: match.start()]), {})[side] = shape
    return {
        module: (both["B"][0], both["A"][1]) for module, both in sides.items() if "A" in both and "B" in both and module
    }


def _modules(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, int] | None]:
    """The model's modules within layers, each with its weight's (outputs, inputs); None where that is no matrix."""
    found: dict[str, tuple[int, int] | None] = {}
    for name, shape in shapes.items():
        path, _, last = name.rpartition(".")
        module = _module(path)
        if not module:
            continue
        found.setdefault(module, None)
        if last == "weight" and len(shape) == 2:  # noqa: PLR2004 - a matrix
            found[module] = (shape[0], shape[1])
    return found


def _module(name: str) -> str:
    """A module by its layer and what follows, the same in every container; empty for one that is in no layer."""
    match = _LAYER.search(name)
    if match is None:
        return ""
    layer, _, rest = match["rest"].removesuffix(".weight").partition(".")
    tower = _TOWER.search(name[: match.start()])
    return f"{tower[0] if tower else ''}{layer}.{_GGUF_NAMES.get(rest, rest)}"


def _last(name: str) -> str:
    return name.rstrip("/").rsplit("/", 1)[-1]


def _alike(one: str, other: str) -> bool:
    """Whether two names mean one model, as far as names tell: without case, separators and a format's ending."""
    return _plain(one) == _plain(other)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold().removesuffix(".gguf"))
