"""Writes a Hugging Face folder with the weights, tokenizer and chat template of a GGUF file of the llama architecture.

Run in an environment of its own (gguf, numpy, safetensors, tokenizers): `python gguf_to_hf.py MODEL.gguf FOLDER`.

Weights are written as float32. A 4-bit block's weight is `scale * q + minimum` with both in float16, which needs more
digits than float16 or bfloat16 keep: in float32 the folder holds exactly the numbers the GGUF stands for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, dequantize
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONTROL = 3  # the token type of special tokens, as the GGUF specification numbers it

WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def main(source: Path, folder: Path) -> None:
    """Writes `folder` from `source`."""
    reader = GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    refuse_unknown(fields)
    folder.mkdir(parents=True)
    weights = dict(named_weight(tensor, fields) for tensor in reader.tensors)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", config(fields, tied="lm_head.weight" not in weights))
    write_json(folder / "generation_config.json", {name: fields[f"tokenizer.ggml.{name}"] for name in ids(fields)})
    write_json(folder / "tokenizer_config.json", tokenizer_config(fields))
    tokenizer(fields).save(str(folder / "tokenizer.json"))


def refuse_unknown(fields: dict[str, Any]) -> None:
    """Ends the program for a model whose layout or tokenizer this script does not know: a guess would be silent."""
    for name, known in {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
    }.items():
        if fields.get(name) != known:
            sys.exit(f"{name} is {fields.get(name)!r}; only {known!r} can be converted")


def named_weight(tensor: Any, fields: dict[str, Any]) -> tuple[str, np.ndarray]:
    """A tensor's name in the Hugging Face layout, and its weights in float32."""
    shape = tuple(int(size) for size in reversed(tensor.shape))
    weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
    if tensor.name in WHOLE:
        return WHOLE[tensor.name], np.ascontiguousarray(weight)
    _, layer, rest = tensor.name.split(".", 2)
    part, suffix = rest.rsplit(".", 1)
    heads = {"attn_q": "llama.attention.head_count", "attn_k": "llama.attention.head_count_kv"}
    if part in heads:
        weight = halves(weight, fields[heads[part]])
    return f"model.layers.{layer}.{IN_LAYER[part]}.{suffix}", np.ascontiguousarray(weight)


def halves(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows in the order of rotary halves: GGUF keeps a llama's query and key rows in interleaved pairs."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def ids(fields: dict[str, Any]) -> list[str]:
    """The special ids that the file names, under the names both formats share."""
    return [name for name in ("bos_token_id", "eos_token_id") if f"tokenizer.ggml.{name}" in fields]


def config(fields: dict[str, Any], *, tied: bool) -> dict[str, Any]:
    """What config.json says of the architecture."""
    heads, width = fields["llama.attention.head_count"], fields["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "hidden_size": width,
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "head_dim": fields.get("llama.attention.key_length", width // heads),
        "max_position_embeddings": fields["llama.context_length"],
        # Kept as float32 in the file: 9.999999747378752e-06 was written as 1e-05.
        "rms_norm_eps": float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_theta": fields["llama.rope.freq_base"],
        "rope_scaling": None,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "dtype": "float32",
        "use_cache": True,
        **{name: fields[f"tokenizer.ggml.{name}"] for name in ids(fields)},
    }


def tokenizer(fields: dict[str, Any]) -> Tokenizer:
    """Byte-level BPE in which every digit stands alone, as the file's pre-tokenizer "smollm" has it."""
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE(vocab={token: at for at, token in enumerate(tokens)}, merges=merges, fuse_unk=False))
    digits = pre_tokenizers.Digits(individual_digits=True)
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [digits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    made.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, types, strict=True) if kind == CONTROL]
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return made


def tokenizer_config(fields: dict[str, Any]) -> dict[str, Any]:
    """What tokenizer_config.json says: special tokens, and the chat template as the file has it."""
    tokens = fields["tokenizer.ggml.tokens"]
    ids_of = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    keys = {token: f"tokenizer.ggml.{name}_token_id" for token, name in ids_of.items()}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": fields["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "add_prefix_space": False,
        "chat_template": fields["tokenizer.chat_template"],
        **{token: tokens[fields[key]] for token, key in keys.items() if key in fields},
    }


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Writes one JSON file."""
    path.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
