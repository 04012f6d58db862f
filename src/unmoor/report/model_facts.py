"""What a model's files say of it, and what engines do with its adapters, in words that text and page share."""

from __future__ import annotations

from collections.abc import Iterator

from unmoor.engines.surface.concepts import ADAPTER, CHECKPOINT
from unmoor.leave.adapters.support import AdapterVerdict
from unmoor.leave.checkpoint.bounded import shown
from unmoor.leave.checkpoint.checkpoint import Checkpoint

_GB, _MB = 1e9, 1e6
SERVES = {
    "native": "serves it",
    "fallback": "serves it another way",
    "needs_flag": "serves it when told to",
    "varies": "serves it for some models",
    "ignored": "loads it and disregards a part",
    "refused": "refuses it",
    "unknown": "unknown",
}


def model_facts(one: Checkpoint) -> Iterator[tuple[str, str]]:
    """What the model's files say of it, each with its name."""
    context = f", context {one.context_tokens:,} tokens" if one.context_tokens else ""
    yield "model", f"{shown(one.architecture) or 'not said'}, {shown(one.dtype) or 'type not said'}{context}"
    yield "weights", _quantisation(one)
    if one.quantisation.kv_cache:
        scales = f"{one.kv_scale_tensors} scales" if one.kv_scale_tensors else "no scales"
        yield "KV cache", f"{shown(one.quantisation.kv_cache)}, {scales}"
    yield "tokens", _tokens(one)
    if one.remote_code:
        yield "code", f"wants to run {', '.join(shown(name) for name in one.remote_code)}"


def _quantisation(one: Checkpoint) -> str:
    found = one.quantisation
    if found.scheme == "unknown" and not found.said_in:
        return "not known: they were not opened"
    parts = [CHECKPOINT.get(found.scheme, f"{shown(found.scheme)}, which no surface knows")]
    if found.method or found.said_in:
        parts.append(f"{shown(found.method) or 'by names and types'} ({found.said_in})")
    if found.group_size:
        parts.append(f"groups of {found.group_size}")
    parts += [word for word, there in (("desc_act", found.desc_act), ("asymmetric", found.sym is False)) if there]
    if not one.tensors and found.scheme != "unknown":
        parts.append("no header was read")
    types = ", ".join(f"{count} × {shown(dtype)}" for dtype, count in one.tensors.items())
    return "; ".join(parts) + (f"; tensors: {types}" if types else "")


def _tokens(one: Checkpoint) -> str:
    template = f"chat template in {one.chat_template_from}" if one.chat_template is not None else "no chat template"
    begins = f"begins with {shown(one.bos_token)}" if one.bos_token else "no mark at the beginning"
    ends = {file: ", ".join(str(number) for number in ids) for file, ids in one.eos_in.items()}
    if len(set(ends.values())) <= 1:
        said = f"ends with {next(iter(ends.values()))}" if ends else "no mark at the end"
    else:
        said = "ends differ: " + "; ".join(f"{ids} ({file})" for file, ids in ends.items())
    return f"{template}; {begins}; {said}" + ("" if one.has_tokenizer else "; no tokenizer")


def traits_words(one: AdapterVerdict) -> str:
    """The traits that are the reason: those as bad as the whole; first what is so whatever the traits."""
    if one.note:
        return f": {one.note}"
    traits = [trait for trait in one.traits if trait.serves == one.serves and trait.serves not in {"native", "unknown"}]
    why = ", ".join(
        f"{ADAPTER[trait.trait]}{f' ({trait.flag or trait.note})' if trait.flag or trait.note else ''}"
        for trait in traits
    )
    return f": {why}" if why else ""


def size_words(count: int) -> str:
    """So many bytes in GB or MB."""
    return f"{count / _GB:.2f} GB" if count >= _GB else f"{count / _MB:.1f} MB"
