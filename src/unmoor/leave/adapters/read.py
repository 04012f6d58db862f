"""Reads adapters: PEFT's folders, folders of such folders, and GGUF adapters; headers and configuration only.

Keys of adapter_config.json as PEFT writes them (github.com/huggingface/peft, src/peft/tuners/lora/config.py, 0.18,
seen 2026-12-01).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from unmoor.core.errors import UsageError, WorldError
from unmoor.leave.adapters.adapter import Adapter
from unmoor.leave.checkpoint.bounded import BrokenFileError, json_object, read_whole, shown
from unmoor.leave.checkpoint.checkpoint import Problem
from unmoor.leave.checkpoint.folder import ModelFolder, list_folder
from unmoor.leave.checkpoint.gguf_header import read_gguf
from unmoor.leave.checkpoint.safetensors_header import read_safetensors
from unmoor.leave.checkpoint.tensors import Tensor

Tree = Mapping[str, object]

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
MOST_ADAPTERS = 1000

_PICKLES = ("adapter_model.bin", "adapter_model.pt", "adapter_model.pth")
_LORA_A = re.compile(r"\.lora_A(?:\.[^.]+)?(?:\.weight)?$|\.lora_embedding_A(?:\.[^.]+)?$|\.lora_a$")
_LORA_B = re.compile(r"\.lora_B(?:\.[^.]+)?(?:\.weight)?$|\.lora_embedding_B(?:\.[^.]+)?$|\.lora_b$")
_LORA_BIAS = re.compile(r"\.lora_B(?:\.[^.]+)?\.bias$")
_MAGNITUDE = "lora_magnitude_vector"
_NOT_WHOLE = re.compile(r"lora_|\.base_layer\.|trainable_tokens_delta$|\.bias$")
"""Whatever is none of these is a module that was trained whole. `base_layer` is the base model's own, kept beside."""
_EXPERTS = re.compile(r"(?:^|\.)experts(?:\.|$)")
_PATHLIKE = re.compile(r"^[\w.]+$")
_HARMLESS_INIT = ("gaussian", "eva", "orthogonal", "mica", "lora_ga")
"""These set the adapter's own weights only; every other named one changes the base model's."""
_CLASSIFIER_HEADS = ("classifier", "score")
"""The heads that PEFT itself saves whole for models that classify."""
_VOCABULARY = ("embed_tokens", "lm_head", "token_embd", "output")


def read_adapters(path: Path, *, where: str | None = None) -> tuple[Adapter, ...]:
    """The adapter at `path`, or all adapters in the folders right under it, by name.

    Raises UsageError where there is none, and WorldError where a folder may not be listed.
    """
    where = where or str(path)
    try:
        found = tuple(_found(path))
    except OSError as failure:
        raise WorldError(
            "the adapters cannot be read", where=where, seen=failure.strerror or str(failure), expected="readable files"
        ) from None
    if found:
        return found
    raise UsageError(
        "there is no adapter here" if path.exists() else "there is no such adapter",
        where=where,
        seen=str(path),
        expected=f"a folder with {CONFIG}, a folder of such folders, or a GGUF adapter",
        hint="name the folder that the adapter was saved in",
    )


def _found(path: Path) -> Iterator[Adapter]:
    if path.suffix.lower() == ".gguf" and path.is_file():
        yield _gguf(path)
    elif path.is_dir():
        if _is_adapter(path):
            yield _peft(path)
            return
        inside = sorted(one for one in path.iterdir() if one.is_dir() or one.suffix.lower() == ".gguf")
        for one in inside[:MOST_ADAPTERS]:
            if one.is_dir() and _is_adapter(one):
                yield _peft(one)
            elif one.is_file():
                yield _gguf(one)


def _is_adapter(folder: Path) -> bool:
    return any((folder / name).exists() for name in (CONFIG, WEIGHTS, *_PICKLES))


def _peft(root: Path) -> Adapter:
    folder = list_folder(root)
    problems: list[Problem] = list(folder.problems)
    config = _config(folder, problems)
    tensors = _tensors(folder, problems)
    rank, alpha = _whole(config.get("r")), _figure(config.get("lora_alpha"))
    pickles = folder.pickles
    container: Literal["safetensors", "pickle", "none"] = "safetensors" if WEIGHTS in folder.names else "none"
    if container == "none":
        container = "pickle" if any(name in folder.names for name in _PICKLES) else "none"
    if container == "none":
        problems.append(Problem(file=WEIGHTS, what="is missing", expected="the adapter's weights", fatal=True))
    ranks = _ranks(tensors)
    problems += _wrong_ranks(config, rank, ranks)
    problems += _unpaired(tensors, WEIGHTS)
    problems += _wrong_scale(config)
    base = config.get("base_model_name_or_path")
    return Adapter(
        name=root.resolve().name,
        path=str(root),
        container=container,
        base_model=base if isinstance(base, str) else "",
        rank=rank if rank is not None else max(ranks.values(), default=None),
        alpha=alpha,
        target_modules=_targets(config.get("target_modules")),
        highest_rank=max([*ranks.values(), *_pattern(config, "rank_pattern").values(), *_one(rank)], default=None),
        traits=dict(_traits(config, tensors, folder, container)),
        tensors=len(tensors),
        shape_of={name: tensor.shape for name, tensor in tensors.items()},
        pickles=pickles,
        problems=tuple(problems),
    )


def _config(folder: ModelFolder, problems: list[Problem]) -> Tree:
    if CONFIG not in folder.names:
        problems.append(Problem(file=CONFIG, what="is missing", expected="the adapter's configuration", fatal=True))
        return {}
    try:
        config = json_object(read_whole(folder.path(CONFIG), CONFIG), CONFIG)
    except BrokenFileError as error:
        problems.append(error.problem)
        return {}
    rank = config.get("r")
    if _is_lora(config) and (_whole(rank) is None or rank <= 0):  # type: ignore[operator]  # it is a whole number here
        problems.append(
            Problem(
                file=CONFIG, what="has no rank", seen=f"r: {shown(rank)}", expected="a whole number above 0", fatal=True
            )
        )
    return config


def _tensors(folder: ModelFolder, problems: list[Problem]) -> Mapping[str, Tensor]:
    if WEIGHTS not in folder.names:
        return {}
    try:
        return read_safetensors(folder.path(WEIGHTS), WEIGHTS).tensors
    except BrokenFileError as error:
        problems.append(error.problem)
        return {}


def _is_lora(config: Tree) -> bool:
    return str(config.get("peft_type", "LORA")).upper() == "LORA"


def _ranks(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Each adapted module's rank by the shapes of its tensors: A is (rank, in), as embeddings' A is; experts aside."""
    found: dict[str, int] = {}
    for name, tensor in tensors.items():
        match = _LORA_A.search(name)
        if match and len(tensor.shape) == 2:  # noqa: PLR2004 - a matrix
            found[name[: match.start()]] = tensor.shape[0]
    return found


def _wrong_ranks(config: Tree, rank: int | None, ranks: Mapping[str, int]) -> list[Problem]:
    """A problem where the tensors have another rank than the configuration says."""
    if rank is None or not ranks or not _is_lora(config) or (config.get("target_parameters")):
        return []
    allowed = {rank, *_pattern(config, "rank_pattern").values()}
    wrong = [(module, seen) for module, seen in ranks.items() if seen not in allowed]
    if not wrong:
        return []
    module, seen = wrong[0]
    return [
        Problem(
            file=WEIGHTS,
            what=f"{len(wrong)} of {len(ranks)} adapted modules have another rank than {CONFIG} says",
            seen=f"{shown(module)}: {seen}",
            expected=f"r = {rank}, or a rank of rank_pattern",
            fatal=True,
        )
    ]


def _unpaired(tensors: Mapping[str, Tensor], file: str) -> list[Problem]:
    """A problem where a module has only one of the two matrices whose product is added to it."""
    firsts = {name[: match.start()] for name in tensors if (match := _LORA_A.search(name))}
    seconds = {name[: match.start()] for name in tensors if (match := _LORA_B.search(name))}
    alone = sorted(firsts ^ seconds)
    if not alone:
        return []
    there, gone = ("lora_A", "lora_B") if alone[0] in firsts else ("lora_B", "lora_A")
    return [
        Problem(
            file=file,
            what=f"{len(alone)} of {len(firsts | seconds)} adapted modules have one matrix of two",
            seen=f"{shown(alone[0])}: {there} without {gone}",
            expected="lora_A and lora_B",
            fatal=True,
        )
    ]


def _wrong_scale(config: Tree) -> list[Problem]:
    """A problem where the adapter's scale is no number, or makes the adapter do nothing."""
    alpha = config.get("lora_alpha")
    if not _is_lora(config) or alpha is None:
        return []
    figure = _figure(alpha)
    if figure is not None and math.isfinite(figure) and figure:
        return []
    nothing = figure == 0
    return [
        Problem(
            file=CONFIG,
            what="makes the adapter do nothing" if nothing else "has a scale that is no number",
            seen=f"lora_alpha: {shown(alpha)}",
            expected="a number other than 0" if nothing else "a finite number",
            fatal=not nothing,
        )
    ]


def _traits(
    config: Tree, tensors: Mapping[str, Tensor], folder: ModelFolder, container: str
) -> Iterator[tuple[str, object]]:
    """What the adapter has beyond a plain one: each trait with what says so."""
    yield from _told_traits(config)
    yield from _seen_traits(tensors, config)
    if container == "pickle":
        yield "pickle", [name for name in folder.pickles if name in _PICKLES]
    elif container == "safetensors":
        yield "peft_safetensors", WEIGHTS
    if "added_tokens.json" in folder.names:
        yield "added_tokens", "added_tokens.json"
    elif config.get("trainable_token_indices") or any(name.endswith("trainable_tokens_delta") for name in tensors):
        yield "added_tokens", "trainable_token_indices"


def _told_traits(config: Tree) -> Iterator[tuple[str, object]]:
    for key in ("use_rslora", "use_dora", "rank_pattern", "alpha_pattern", "layer_replication"):
        if config.get(key):
            yield key, config[key]
    yield from _trained_whole(config.get("modules_to_save"))
    if config.get("use_qalora"):
        yield "qalora", True
    if config.get("alora_invocation_tokens"):
        yield "activated_lora", True
    if not _is_lora(config):
        yield "not_lora", shown(config.get("peft_type"))
    bias = config.get("bias", "none")
    if bias != "none" or config.get("lora_bias"):
        yield "bias", bias if bias != "none" else "lora_bias"
    init = config.get("init_lora_weights")
    if isinstance(init, str) and init.casefold() not in _HARMLESS_INIT:
        yield "base_changing_init", shown(init)
    prefixed = [name for name in _targets(config.get("target_modules")) if "." in name and _PATHLIKE.match(name)]
    if prefixed:
        yield "target_prefix", prefixed[0]
    rank = _whole(config.get("r"))
    if rank is not None and rank > 0 and rank & (rank - 1):
        yield "rank_choices", rank


def _trained_whole(modules: object) -> Iterator[tuple[str, object]]:
    if modules:
        heads = isinstance(modules, list) and all(one in _CLASSIFIER_HEADS for one in modules)
        yield ("classifier_head" if heads else "modules_to_save"), modules


def _seen_traits(tensors: Mapping[str, Tensor], config: Tree) -> Iterator[tuple[str, object]]:
    """What the tensors' names tell, whatever the configuration says; a trait that it names already comes from there."""
    targets = _targets(config.get("target_modules"))
    if not config.get("use_dora") and (magnitudes := [name for name in tensors if _MAGNITUDE in name]):
        yield "use_dora", f"{len(magnitudes)} magnitude vectors"
    if config.get("bias", "none") == "none" and not config.get("lora_bias"):
        biases = [name for name in tensors if _LORA_BIAS.search(name) or _is_bare_bias(name, tensors)]
        if biases:
            yield "bias", f"{len(biases)} tensors"
    if not config.get("modules_to_save") and (whole := [name for name in tensors if not _NOT_WHOLE.search(name)]):
        yield "modules_to_save", [shown(name) for name in whole]
    expert = next((name for name in (*targets, *tensors) if _EXPERTS.search(name)), None)
    if expert is not None or config.get("target_parameters"):
        yield "moe_experts", shown(expert) if expert is not None else "target_parameters"
    adapted = [*targets, *(module for module in _ranks(tensors))]
    vocabulary = sorted({last for name in adapted if (last := name.rsplit(".", 1)[-1]) in _VOCABULARY[:3]})
    if vocabulary:
        yield "embedding", vocabulary


def _is_bare_bias(name: str, tensors: Mapping[str, Tensor]) -> bool:
    """Whether it is the bias of a module of the base model: one trained whole has its weight beside it."""
    module = name.removesuffix(".bias")
    return module != name and "lora_" not in name and f"{module}.weight" not in tensors


def _gguf(path: Path) -> Adapter:
    """A GGUF adapter (`general.type` is "adapter"); the rank is that of the tensors, the scale that of its metadata."""
    problems: list[Problem] = []
    tensors: Mapping[str, Tensor] = {}
    metadata: Mapping[str, object] = {}
    try:
        header = read_gguf(path, path.name)
        tensors, metadata = header.tensors, header.metadata
        if metadata.get("general.type") != "adapter":
            problems.append(
                Problem(
                    file=path.name,
                    what="is no adapter",
                    seen=f"general.type: {shown(metadata.get('general.type'))}",
                    expected="adapter",
                    fatal=True,
                )
            )
    except BrokenFileError as error:
        problems.append(error.problem)
    problems += _unpaired(tensors, path.name)
    ranks = _ranks(tensors)
    base = metadata.get("general.base_model.0.name") or metadata.get("general.base_model.0.repo_url")
    return Adapter(
        name=path.stem,
        path=str(path),
        container="gguf",
        base_model=base if isinstance(base, str) else "",
        rank=max(ranks.values(), default=None),
        alpha=_figure(metadata.get("adapter.lora.alpha")),
        target_modules=tuple(sorted({module.split(".")[-2] for module in ranks if "." in module})),
        highest_rank=max(ranks.values(), default=None),
        traits=dict(_seen_traits(tensors, {})),
        tensors=len(tensors),
        shape_of={name: tensor.shape for name, tensor in tensors.items()},
        problems=tuple(problems),
    )


def _targets(value: object) -> tuple[str, ...]:
    """The target modules; one text is a pattern, or "all-linear"."""
    values: Iterable[object] = value if isinstance(value, list) else [value]
    return tuple(one for one in values if isinstance(one, str))


def _pattern(config: Tree, key: str) -> dict[str, int]:
    value = config.get(key)
    ranks = value.items() if isinstance(value, Mapping) else ()
    return {name: rank for name, rank in ranks if isinstance(rank, int) and not isinstance(rank, bool)}


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _figure(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _one(value: int | None) -> tuple[int, ...]:
    return () if value is None else (value,)
