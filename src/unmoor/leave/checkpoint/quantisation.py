"""How weights are quantised, from each tool's own words for it.

Words as in the engines' readers of these files (vLLM 0.32.0 and SGLang 0.5.23, model_executor/layers/quantization and
srt/layers/quantization, read 2026-12-01) and as the tools write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from unmoor.leave.checkpoint.checkpoint import Quantisation
from unmoor.leave.checkpoint.tensors import Tensor

Tree = Mapping[str, object]

_KV_SCALES = (".k_scale", ".v_scale", ".kv_scale", ".k_proj.output_scale", ".v_proj.output_scale")
_MX_GROUP = 32
"""Values to a scale in the MX formats; NVFP4 has 16."""


def kv_scale_count(names: Iterable[str]) -> int:
    """How many of these tensors are scales for cached keys and values."""
    return sum(1 for name in names if name.endswith(_KV_SCALES))


def sayings(config: Tree, modelopt: Tree | None, *, config_file: str) -> list[Quantisation]:
    """What each file says, in the order in which engines believe them; one that says nothing is left out.

    `config` is config.json; `modelopt` is hf_quant_config.json, None where there is none. Believed first is the
    configuration's own table, then ModelOpt's file, then the table of the language model within the configuration.
    """
    found = []
    told = _table(config, "quantization_config") or _table(config, "compression_config")
    if told is not None:
        found.append(from_config(told, said_in=config_file))
    if modelopt is not None:
        found.append(from_modelopt(modelopt, said_in="hf_quant_config.json"))
    for key in ("text_config", "llm_config"):
        inner = _table(_table(config, key) or {}, "quantization_config")
        if inner is not None:
            found.append(from_config(inner, said_in=f"{config_file}, {key}"))
    return found


def from_config(told: Tree, *, said_in: str) -> Quantisation:
    """From `quantization_config`. A method that is not known is its own scheme, which no table has."""
    method = _word(told, "quant_method") or ("bitsandbytes" if "load_in_4bit" in told else "")
    method = method or ("modelopt" if "quant_algo" in told else "")
    method = method or ("modelopt" if "quantization" in told else "")
    reader = _READERS.get(method, _unknown)
    return reader(told, method, said_in)


def from_modelopt(told: Tree, *, said_in: str) -> Quantisation:
    """From ModelOpt's words, which its own file and `quantization_config` share."""
    return _modelopt(told, "modelopt", said_in)


def from_tensors(tensors: Mapping[str, Tensor]) -> Quantisation:
    """From names and types alone: what nobody said, so that no engine will know it either."""
    found = _guessed(tensors)
    return found if found.scheme == "none" else _with(found, quant_method=UNSAID, forms=(UNSAID,))


UNSAID = "unsaid"
"""The method of weights that are quantised, and no file says by whom; no surface has it."""


def misfit(found: Quantisation, tensors: Mapping[str, Tensor]) -> tuple[str, str]:
    """What tensors of another method than the one that is said look like, and what was expected; empty where it fits.

    Only names and types that belong to one kind of method count: `.qweight` to GPTQ and AWQ, 8-bit floats to FP8.
    """
    packed = [name for name in tensors if name.endswith(".qweight")]
    floats = any(tensor.dtype in _FLOATS_OF_8_BITS for tensor in tensors.values())
    if packed and found.quant_method in _READERS and found.quant_method not in _PACKED_METHODS:
        return f"{len(packed)} tensors named qweight, as of GPTQ and AWQ", f"tensors as of {found.quant_method}"
    if floats and not packed and found.quant_method in {"gptq", "awq"}:
        return "tensors of 8-bit floats, and none named qweight", "tensors named qweight"
    return "", ""


_PACKED_METHODS = frozenset(("gptq", "gptq_marlin", "awq", "auto-round", "intel/auto-round", "inc"))
_FLOATS_OF_8_BITS = frozenset(("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"))


def _guessed(tensors: Mapping[str, Tensor]) -> Quantisation:
    types = {tensor.dtype for tensor in tensors.values()}
    said_in = "tensors"
    if any(name.endswith(".qweight") for name in tensors):
        scheme = "gptq_int4" if any(name.endswith(".g_idx") for name in tensors) else "awq_int4"
        return Quantisation(scheme=scheme, said_in=said_in)
    if types & _FLOATS_OF_8_BITS:
        blocks = any(name.endswith("weight_scale_inv") for name in tensors)
        return Quantisation(scheme="fp8_block" if blocks else "fp8", said_in=said_in)
    if any(name.endswith(("_blocks", ".weight_packed")) for name in tensors) and "U8" in types:
        two_scales = any(name.endswith(("weight_scale_2", "weight_global_scale")) for name in tensors)
        return Quantisation(scheme="nvfp4" if two_scales else "mxfp4", said_in=said_in)
    return Quantisation(scheme="none")


def _fp8(told: Tree, method: str, said_in: str) -> Quantisation:
    blocks = told.get("weight_block_size")
    mxfp8 = _word(told, "scale_fmt") == "ue8m0" and blocks == [1, 32]
    return Quantisation(
        scheme="mxfp8" if mxfp8 else "fp8_block" if blocks else "fp8",
        method=method,
        said_in=said_in,
        bits=8,
        activations=_word(told, "activation_scheme"),
        quant_method=method,
        forms=("mxfp8" if mxfp8 else "blocks" if blocks else _word(told, "activation_scheme") or "dynamic",),
        details=_kept(told, "weight_block_size", "fmt", "scale_fmt"),
    )


def _mxfp8(told: Tree, method: str, said_in: str) -> Quantisation:
    return _with(_fp8(told, method, said_in), scheme="mxfp8", forms=("mxfp8",))


def _gptq(told: Tree, method: str, said_in: str) -> Quantisation:
    """GPTQ: files are in the first format unless they say another; `dynamic` gives modules bits of their own."""
    bits = _number(told, "bits")
    dynamic = _table(told, "dynamic") or {}
    form = "marlin" if told.get("is_marlin_format") is True else _word(told, "checkpoint_format") or "gptq"
    others = [_number(one, "bits") for one in dynamic.values() if isinstance(one, Mapping)]
    widths = sorted({width for width in (bits, *others) if width is not None})
    return Quantisation(
        scheme=f"gptq_int{bits}" if bits else "gptq",
        schemes=tuple(f"gptq_int{width}" for width in widths) if len(widths) > 1 else (),
        quant_method=method,
        forms=(form, "dynamic") if dynamic else (form,),
        method=method,
        said_in=said_in,
        bits=bits,
        group_size=_number(told, "group_size"),
        desc_act=_truth(told, "desc_act"),
        sym=_truth(told, "sym"),
        details=_kept(told, "checkpoint_format", "damp_percent", "static_groups", "lm_head"),
    )


def _awq(told: Tree, method: str, said_in: str) -> Quantisation:
    bits = _number(told, "bits") or _number(told, "w_bit")
    zero_point = _truth(told, "zero_point")
    return Quantisation(
        scheme=f"awq_int{bits}" if bits else "awq",
        method=method,
        said_in=said_in,
        bits=bits,
        group_size=_number(told, "group_size") or _number(told, "q_group_size"),
        quant_method=method,
        forms=(_word(told, "version").casefold() or "gemm",),
        sym=None if zero_point is None else not zero_point,
        details=_kept(told, "version", "zero_point", "backend"),
    )


def _auto_round(told: Tree, method: str, said_in: str) -> Quantisation:
    packing = _word(told, "packing_format") or "auto_round:auto_gptq"
    inner = _awq if "awq" in packing else _gptq
    found = inner(told, method, said_in)
    details = {**found.details, **_kept(told, "packing_format", "autoround_version")}
    return _with(found, details=details, quant_method="auto-round", forms=(packing,))


def _bitsandbytes(told: Tree, method: str, said_in: str) -> Quantisation:
    four = _truth(told, "load_in_4bit") or _truth(told, "_load_in_4bit")
    return Quantisation(
        scheme="bitsandbytes",
        method=method,
        said_in=said_in,
        bits=4 if four else 8,
        details=_kept(told, "bnb_4bit_quant_type", "bnb_4bit_compute_dtype", "bnb_4bit_use_double_quant"),
    )


def _mxfp4(told: Tree, method: str, said_in: str) -> Quantisation:
    return Quantisation(
        scheme="mxfp4",
        method=method,
        said_in=said_in,
        bits=4,
        group_size=32,
        quant_method=method,
        forms=("mxfp4",),
        details=_skipped(told),
    )


def _modelopt(told: Tree, method: str, said_in: str) -> Quantisation:
    """ModelOpt: its own file has a table within a table, a configuration the same without."""
    told = _table(told, "quantization") or told
    algorithm = _word(told, "quant_algo").upper()
    layers = [one for one in (_table(told, "quantized_layers") or {}).values() if isinstance(one, Mapping)]
    algorithms = list(dict.fromkeys(_word(one, "quant_algo").upper() for one in layers))
    schemes = sorted(dict.fromkeys(_modelopt_scheme(one) for one in algorithms), key=_modelopt_bits)
    mixed = algorithm == "MIXED_PRECISION" and schemes
    scheme = schemes[0] if mixed else _modelopt_scheme(algorithm)
    return Quantisation(
        scheme=scheme,
        method=f"{method} {algorithm}".strip(),
        said_in=said_in,
        bits=None if _modelopt_bits(scheme) == _UNKNOWN_BITS else _modelopt_bits(scheme),
        group_size=_number(told, "group_size"),
        kv_cache=_modelopt_kv(told),
        schemes=tuple(schemes) if mixed and len(schemes) > 1 else (),
        quant_method="modelopt",
        forms=(algorithm, *algorithms) if mixed else (algorithm,),
        details={**_skipped(told), **({"schemes": schemes} if mixed else {})},
    )


def _modelopt_scheme(algorithm: str) -> str:
    return _MODELOPT.get(algorithm) or f"modelopt_{algorithm.lower()}".rstrip("_")


def _modelopt_bits(scheme: str) -> int:
    if scheme in {"nvfp4", "mxfp4", "awq_int4"}:
        return 4
    return 8 if scheme in _MODELOPT.values() else _UNKNOWN_BITS


_UNKNOWN_BITS = 99
_MODELOPT = {
    "FP8": "fp8",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "FP8_PB_WO": "fp8_block",
    "FP8_BLOCK_SCALES": "fp8_block",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
    "MXFP4": "mxfp4",
    "MXFP8": "mxfp8",
    "W4A16_AWQ": "awq_int4",
    "INT8_SQ": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8",
}


def _modelopt_kv(told: Tree) -> str:
    """Of the older word, an algorithm, or of the newer, a table as compressed-tensors writes it."""
    return _word(told, "kv_cache_quant_algo").lower() or _kv_scheme(_table(told, "kv_cache_scheme"))


def _compressed(told: Tree, method: str, said_in: str) -> Quantisation:
    """compressed-tensors: groups of modules, each with its weights and activations; the narrowest names the scheme."""
    groups = [
        group
        for group in (_table(told, "config_groups") or {}).values()
        if isinstance(group, Mapping) and _table(group, "weights")
    ]
    forms = [_word(group, "format") or _word(told, "format") for group in groups]
    kinds = [_group(group, form) for group, form in zip(groups, forms, strict=True)]
    kinds.sort(key=lambda kind: kind.bits or _UNKNOWN_BITS)
    first = kinds[0] if kinds else Quantisation(scheme="none")
    schemes = list(dict.fromkeys(kind.scheme for kind in kinds))
    details = {**_kept(told, "format", "quantization_status"), **_skipped(told)}
    if len(schemes) > 1:
        details["schemes"] = schemes
    if _table(told, "sparsity_config"):
        details["sparsity"] = (_table(told, "sparsity_config") or {}).get("sparsity_structure")
    return _with(
        first,
        schemes=tuple(schemes) if len(schemes) > 1 else (),
        quant_method=method,
        forms=tuple(dict.fromkeys((_word(told, "format"), *forms))),
        method=f"{method} {_word(told, 'format')}".strip(),
        said_in=said_in,
        kv_cache=_kv_scheme(_table(told, "kv_cache_scheme")),
        details=details,
    )


def _group(group: Tree, form: str) -> Quantisation:
    weights, activations = _table(group, "weights") or {}, _table(group, "input_activations") or {}
    bits, kind = _number(weights, "num_bits"), _word(weights, "type")
    return Quantisation(
        scheme=_compressed_scheme(weights, activations, form),
        bits=bits,
        group_size=_number(weights, "group_size"),
        sym=_truth(weights, "symmetric"),
        desc_act=None if weights.get("actorder") is None else True,
        activations=f"{_word(activations, 'type')}{_number(activations, 'num_bits') or ''}",
        details={"weights": f"{kind}{bits or ''}", "strategy": _word(weights, "strategy")},
    )


def _compressed_scheme(weights: Tree, activations: Tree, form: str) -> str:
    bits, kind = _number(weights, "num_bits"), _word(weights, "type")
    match kind, bits:
        case "float", 4:
            return "mxfp4" if form.startswith("mxfp4") or weights.get("group_size") == _MX_GROUP else "nvfp4"
        case "float", 8 if form.startswith("mxfp8") or weights.get("group_size") == _MX_GROUP:
            return "mxfp8"
        case "float", 8:
            return "fp8_block" if _word(weights, "strategy") == "block" else "fp8"
        case "int", 8 if activations:
            return "int8"
        case "int", 4 if not activations:
            return "int4_w4a16"
    floats = "fp" if _word(activations, "type") == "float" else ""
    behind = f"a{floats}{_number(activations, 'num_bits') or ''}" if activations else "a16"
    return f"{kind or 'compressed'}_w{bits or ''}{behind}"


def _kv_scheme(scheme: Tree | None) -> str:
    """The type that a `kv_cache_scheme` asks for keys and values; empty where there is none."""
    if not scheme:
        return ""
    bits, kind = _number(scheme, "num_bits"), _word(scheme, "type")
    return {("float", 8): "fp8", ("float", 4): "nvfp4", ("int", 8): "int8"}.get(
        (kind, bits or 0), f"{kind}{bits or ''}"
    )


def _quark(told: Tree, method: str, said_in: str) -> Quantisation:
    whole = _table(told, "global_quant_config") or {}
    weight = whole.get("weight")
    parts = weight if isinstance(weight, list) else [weight]
    types = {_word(part, "dtype") for part in parts if isinstance(part, Mapping)}
    if types & {"fp4", "mxfp4"}:
        scheme, bits = "quark_mxfp4", 4
    elif any(word.startswith("fp8") for word in types):
        scheme, bits = "quark_fp8", 8
    else:
        scheme, bits = f"quark_{'_'.join(sorted(types))}".rstrip("_"), None
    outputs = [part for part in (_table(told, "layer_quant_config") or {}).values() if isinstance(part, Mapping)]
    kv = any(_word(_table(part, "output_tensors") or {}, "dtype").startswith("fp8") for part in outputs)
    return Quantisation(
        scheme=scheme, method=method, said_in=said_in, bits=bits, kv_cache="fp8" if kv else "", details=_skipped(told)
    )


def _fbgemm(told: Tree, method: str, said_in: str) -> Quantisation:
    return Quantisation(
        scheme="fp8",
        method=method,
        said_in=said_in,
        bits=8,
        activations="dynamic",
        quant_method=method,
        forms=(method,),
        details=_skipped(told),
    )


def _torchao(told: Tree, method: str, said_in: str) -> Quantisation:
    kind = told.get("quant_type")
    inner = kind.get("default") if isinstance(kind, Mapping) else kind
    name = inner.get("_type", "") if isinstance(inner, Mapping) else inner
    return Quantisation(scheme="torchao", method=f"{method} {name or ''}".strip(), said_in=said_in)


def _hqq(told: Tree, method: str, said_in: str) -> Quantisation:
    weights = _table(_table(told, "quant_config") or {}, "weight_quant_params") or {}
    return Quantisation(
        scheme="hqq",
        method=method,
        said_in=said_in,
        bits=_number(weights, "nbits") or _number(told, "nbits"),
        group_size=_number(weights, "group_size") or _number(told, "group_size"),
    )


def _unknown(told: Tree, method: str, said_in: str) -> Quantisation:
    return Quantisation(
        scheme=method or "unknown",
        method=method,
        said_in=said_in,
        bits=_number(told, "bits"),
        quant_method=method or "unknown",
        forms=(method or "unknown",),
    )


_READERS: Mapping[str, Callable[[Tree, str, str], Quantisation]] = {
    "fp8": _fp8,
    "mxfp8": _mxfp8,
    "gptq": _gptq,
    "gptq_marlin": _gptq,
    "awq": _awq,
    "auto-round": _auto_round,
    "intel/auto-round": _auto_round,
    "inc": _auto_round,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_fp8": _modelopt,
    "modelopt_mixed": _modelopt,
    "modelopt_mxfp8": _modelopt,
    "compressed-tensors": _compressed,
    "quark": _quark,
    "fbgemm_fp8": _fbgemm,
    "torchao": _torchao,
    "hqq": _hqq,
}


def _with(found: Quantisation, **changes: object) -> Quantisation:
    return msgspec.structs.replace(found, **changes)


def _table(tree: Tree, key: str) -> Tree | None:
    value = tree.get(key)
    return value if isinstance(value, Mapping) else None


def _word(tree: Tree, key: str) -> str:
    value = tree.get(key)
    return value if isinstance(value, str) else ""


def _number(tree: Tree, key: str) -> int | None:
    value = tree.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _truth(tree: Tree, key: str) -> bool | None:
    value = tree.get(key)
    return value if isinstance(value, bool) else None


def _kept(tree: Tree, *keys: str) -> dict[str, object]:
    return {key: tree[key] for key in keys if tree.get(key) is not None}


def _skipped(tree: Tree) -> dict[str, object]:
    """How many modules were left as they were: lists of names under each tool's own word."""
    for key in ("exclude_modules", "ignore", "modules_to_not_convert", "exclude"):
        names = tree.get(key)
        if isinstance(names, list) and names:
            return {"modules_left": len(names)}
    return {}
