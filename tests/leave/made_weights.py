"""Writes small real files of weights, right or wrong in one chosen way, and folders of models and adapters."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SIZES = {"F32": 4, "F16": 2, "BF16": 2, "U8": 1, "I8": 1, "I32": 4, "F8_E4M3": 1, "I64": 8}
Shapes = Mapping[str, tuple[str, tuple[int, ...]]]

LLAMA: Shapes = {
    "model.embed_tokens.weight": ("BF16", (32, 8)),
    "model.layers.0.self_attn.q_proj.weight": ("BF16", (8, 8)),
    "model.layers.0.self_attn.v_proj.weight": ("BF16", (4, 8)),
    "model.layers.0.mlp.down_proj.weight": ("BF16", (8, 16)),
    "lm_head.weight": ("BF16", (32, 8)),
}
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "vocab_size": 32,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def header_of(tensors: Shapes) -> tuple[dict[str, Any], int]:
    """A right header, and how many bytes of tensors follow it."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + SIZES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    return header, end


def safetensors(header: Mapping[str, Any] | bytes, data_bytes: int) -> bytes:
    """A whole file with this header, right or not."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data_bytes)


def write_safetensors(path: Path, tensors: Shapes = LLAMA) -> None:
    path.write_bytes(safetensors(*header_of(tensors)))


def write_model(
    root: Path, *, config: Mapping[str, Any] | None = None, tensors: Shapes = LLAMA, **files: Mapping[str, Any]
) -> Path:
    """A folder with config.json, weights and other JSON files (`generation_config={...}`)."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
    write_safetensors(root / "model.safetensors", tensors)
    for name, content in files.items():
        (root / f"{name}.json").write_text(json.dumps(content))
    return root


def write_shards(root: Path, shards: Mapping[str, Shapes]) -> Path:
    """A folder with several files of weights and their index."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "config.json").write_text(json.dumps(CONFIG))
    for file, tensors in shards.items():
        write_safetensors(root / file, tensors)
    weight_map = {name: file for file, tensors in shards.items() for name in tensors}
    (root / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return root


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str, value: Any) -> bytes:  # noqa: ANN401 - what GGUF holds
    """One pair of a GGUF file's metadata."""
    return text(key) + _typed(value)


def _typed(value: Any) -> bytes:  # noqa: ANN401 - what GGUF holds
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + text(value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(one) for one in value)
        case list():
            return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)
        case _:
            raise TypeError(type(value).__name__)


GGUF_PAIRS: dict[str, Any] = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "general.file_type": 2,
    "llama.context_length": 512,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "a"],
    "tokenizer.ggml.token_type": [1] * 100,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.chat_template": "{{ messages }}",
}
GGUF_TENSORS = {"token_embd.weight": (0, (4, 32)), "blk.0.attn_q.weight": (2, (32, 32))}
_BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18)}


def gguf(
    pairs: Mapping[str, Any] | None = None,
    tensors: Mapping[str, tuple[int, tuple[int, ...]]] | None = None,
    *,
    version: int = 3,
    pair_count: int | None = None,
    tensor_count: int | None = None,
) -> bytes:
    """A GGUF file: `tensors` maps names to the number of their type and their shape, outermost first."""
    pairs = GGUF_PAIRS if pairs is None else pairs
    tensors = GGUF_TENSORS if tensors is None else tensors
    head = b"GGUF" + struct.pack(
        "<IQQ",
        version,
        len(tensors) if tensor_count is None else tensor_count,
        len(pairs) if pair_count is None else pair_count,
    )
    head += b"".join(pair(key, value) for key, value in pairs.items())
    offset = 0
    for name, (kind, shape) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", one) for one in reversed(shape))
        head += struct.pack("<IQ", kind, offset)
        block, size = _BLOCKS[kind]
        offset += -(-math.prod(shape) // block * size // 32) * 32
    return head + bytes(-len(head) % 32) + bytes(offset)


def lora(modules: Mapping[str, tuple[int, int]], rank: int = 4) -> Shapes:
    """An adapter's tensors: each module with its (outputs, inputs)."""
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    for module, (outputs, inputs) in modules.items():
        found[f"base_model.model.{module}.lora_A.weight"] = ("F32", (rank, inputs))
        found[f"base_model.model.{module}.lora_B.weight"] = ("F32", (outputs, rank))
    return found


Q_PROJ: dict[str, tuple[int, int]] = {"model.layers.0.self_attn.q_proj": (8, 8)}


def write_adapter(root: Path, *, tensors: Shapes | None = None, drop: Sequence[str] = (), **config: Any) -> Path:  # noqa: ANN401 - PEFT's keys
    """A folder as PEFT writes it: rank 4, alpha 8, q_proj of layer 0, unless `config` says otherwise."""
    root.mkdir(parents=True, exist_ok=True)
    told = {
        "peft_type": "LORA",
        "r": 4,
        "lora_alpha": 8,
        "target_modules": ["q_proj"],
        "bias": "none",
        "use_rslora": False,
        "use_dora": False,
        "modules_to_save": None,
        "rank_pattern": {},
        "alpha_pattern": {},
        "init_lora_weights": True,
        "base_model_name_or_path": "org/Tiny",
        **config,
    }
    (root / "adapter_config.json").write_text(json.dumps({key: one for key, one in told.items() if key not in drop}))
    write_safetensors(root / "adapter_model.safetensors", lora(Q_PROJ, told["r"]) if tensors is None else tensors)
    return root
