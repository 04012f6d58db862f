"""A checkpoint as its files describe it: format, quantisation, tensors, template, default sampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec


class Quantisation(msgspec.Struct, frozen=True, kw_only=True):
    """How weights were quantised.

    `scheme` is the key of `Surface.checkpoint`: "none", "fp8", "fp8_block", "nvfp4", "mxfp4", "gptq_int4", "awq_int4",
    "gguf", "bitsandbytes", ... `method` is the word of the file that says so (`said_in`). `kv_cache` is the type that
    the checkpoint asks for keys and values; `kv_scales` whether it has their scales (None: no such type is asked for).

    `schemes` are all of them where layers differ, `scheme` being the narrowest. `quant_method` is the key of
    `Surface.quant_methods`, who wrote the files, and `forms` in which of its forms, in its own words ("NVFP4",
    "pack-quantized"); both are empty where the scheme's name says who wrote it, or nothing is known but the scheme.
    """

    scheme: str
    method: str = ""
    said_in: str = ""
    bits: int | None = None
    group_size: int | None = None
    desc_act: bool | None = None
    sym: bool | None = None
    activations: str = ""
    kv_cache: str = ""
    kv_scales: bool | None = None
    details: Mapping[str, object] = {}
    schemes: tuple[str, ...] = ()
    quant_method: str = ""
    forms: tuple[str, ...] = ()

    @property
    def all_schemes(self) -> tuple[str, ...]:
        """Every scheme that some layer has, the narrowest first."""
        return self.schemes or (self.scheme,)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong with a file: which, what was seen, and what was expected. `fatal`: nothing can load it so."""

    file: str
    what: str
    seen: str = ""
    expected: str = ""
    fatal: bool = False


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of weights, or one GGUF file, as its headers describe it.

    `pickles` are files that run code when loaded; they were not. `remote_code` are the Python files that the
    configuration names. `tensors` counts tensors by their dtype, `weight_bytes` is what they take. `eos_ids`, and the
    template's and tokenizer's marks, are None or empty where the files do not say.

    `chat_templates` has the SHA-256 of every file's chat template, by the file, to tell whether they are the same.
    `eos_in` has the ids that end an answer by the file that says so, `eos_ids` those of all. `hashes` are SHA-256 of
    the files that were read whole, by name. `name` is what the files call the model, `file_type` a GGUF file's
    ("Q4_K_M"). `kv_scale_tensors` counts scales for keys and values, asked for or not. `shape_of` has the tensors'
    shapes, outermost first.
    """

    path: str
    container: Literal["safetensors", "gguf", "pickle", "none"]
    architecture: str
    dtype: str
    quantisation: Quantisation
    tensors: Mapping[str, int] = {}
    weight_bytes: int = 0
    shards: int = 0
    pickles: tuple[str, ...] = ()
    remote_code: tuple[str, ...] = ()
    chat_template: str | None = None
    chat_template_from: str = ""
    chat_templates: Mapping[str, str] = {}
    bos_token: str | None = None
    bos_id: int | None = None
    adds_bos: bool | None = None
    eos_ids: tuple[int, ...] = ()
    eos_in: Mapping[str, tuple[int, ...]] = {}
    vocab_size: int | None = None
    context_tokens: int | None = None
    generation: Mapping[str, object] = {}
    has_tokenizer: bool = False
    hashes: Mapping[str, str] = {}
    name: str = ""
    file_type: str = ""
    kv_scale_tensors: int = 0
    ties_embeddings: bool | None = None
    shape_of: Mapping[str, tuple[int, ...]] = {}
    problems: tuple[Problem, ...] = ()
