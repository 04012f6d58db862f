"""An adapter as its files describe it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from unmoor.leave.checkpoint.checkpoint import Problem


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """One adapter's folder, or a GGUF adapter.

    `traits` are the keys of `Surface.adapter` that it has ("use_rslora", "use_dora", "bias", "modules_to_save",
    "rank_pattern", "alpha_pattern", "added_tokens", "moe_experts", "tied_lm_head", "target_prefix", ...), each with
    what its configuration says there.
    """

    name: str
    path: str
    container: Literal["safetensors", "gguf", "pickle", "none"]
    base_model: str
    rank: int | None
    alpha: float | None
    target_modules: tuple[str, ...] = ()
    highest_rank: int | None = None
    traits: Mapping[str, object] = {}
    tensors: int = 0
    shape_of: Mapping[str, tuple[int, ...]] = {}
    pickles: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
