"""Which engines load a checkpoint on which hardware, by their surfaces, and what a move to one of them would need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from unmoor.engines.surface.concepts import CHECKPOINT, HARDWARE
from unmoor.engines.surface.surface import Source, Support, Surface
from unmoor.leave.checkpoint.bounded import shown
from unmoor.leave.checkpoint.checkpoint import Checkpoint

Loads = Literal["native", "fallback", "refused", "unknown"]

_FOUR_BITS = ("nvfp4", "mxfp4", "quark_mxfp4", "awq_int4", "gptq_int4", "int4_w4a16")
_EIGHT_BITS = ("fp8", "fp8_block", "quark_fp8", "mxfp8", "int8", "gptq_int8")
_MOST_WAYS = 2
CONVERT = "convert it: "
"""How surfaces begin a note that names the tool which makes a checkpoint the engine's own."""
START = "start it with "
"""How a note goes on that names the option with which an engine takes a checkpoint."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one engine loads the checkpoint on one kind of hardware.

    "native": computed with as it is stored. "fallback": it works, otherwise than stored (unpacked, emulated), slower or
    in more memory. "refused": an error. "unknown": the engine's surface does not say. `ways` are schemes that this
    engine takes natively there, nearest first; empty where none is needed. `without` are the variants (`variants`) that
    alone stand in the way: the same scheme, quantised without them, is taken natively there. `unsaid` are who
    quantised, each with its form, of whom the surface says nothing where it does take the scheme: it may load, or not.
    """

    engine: str
    title: str
    version: str
    hardware: str
    loads: Loads
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    ways: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()


def variants(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The keys of `Surface.checkpoint` that this checkpoint's variant of GPTQ or AWQ has."""
    found, dtype = checkpoint.quantisation, checkpoint.dtype
    if found.scheme.startswith("gptq"):
        has = {
            "gptq_desc_act": bool(found.desc_act) and found.group_size != -1,  # one group a channel has no order
            "gptq_asymmetric": found.sym is False,
            "gptq_v2": found.details.get("checkpoint_format") == "gptq_v2",
            "gptq_bfloat16": dtype == "bfloat16",
        }
    elif found.scheme.startswith("awq"):
        has = {
            "awq_bfloat16": dtype == "bfloat16",
            "awq_gemv": str(found.details.get("version", "")).casefold().startswith("gemv"),
            "awq_symmetric": found.sym is True,
        }
    else:
        has = {}
    return tuple(name for name, there in has.items() if there)


def kv_scheme(checkpoint: Checkpoint) -> str:
    """The key of `Surface.checkpoint` for the keys and values that the checkpoint asks for; empty where for none."""
    asked = checkpoint.quantisation.kv_cache
    return f"{asked}_kv" if f"{asked}_kv" in CHECKPOINT else ""


def verdicts(
    checkpoint: Checkpoint, surface: Surface, hardware: Iterable[str] = tuple(HARDWARE)
) -> tuple[Verdict, ...]:
    """One verdict for each kind of hardware (keys of `concepts.HARDWARE`)."""
    return tuple(_verdict(checkpoint, surface, one) for one in hardware)


def _verdict(checkpoint: Checkpoint, surface: Surface, hardware: str) -> Verdict:
    scheme = checkpoint.quantisation.scheme
    each = {one: surface.checkpoint.get(one, {}).get(hardware) for one in checkpoint.quantisation.all_schemes}
    forms = dict(forms_on(checkpoint, surface))
    besides = dict(_besides(checkpoint, surface, hardware))
    said = [*each.values(), *forms.values(), *besides.values()]
    loads = _worst((*each.values(), *forms.values()), [one for one in besides.values() if one is not None])
    weights = each.get(scheme)
    taken = any(one is not None and _loads(one) in {"native", "fallback"} for one in each.values())
    return Verdict(
        engine=surface.engine,
        title=surface.title,
        version=surface.version,
        hardware=hardware,
        loads=loads,
        notes=tuple(_notes(each, forms, besides)),
        sources=tuple(dict.fromkeys(surface.source_of(one) for one in said if one is not None)),
        ways=() if loads in {"native", "unknown"} else ways(scheme, surface, hardware),
        without=tuple(_in_the_way(weights, besides)),
        unsaid=tuple(_unsaid(forms)) if loads == "unknown" and taken else (),
    )


def forms_on(checkpoint: Checkpoint, surface: Surface) -> Iterator[tuple[str, Support | None]]:
    """What the surface says of who quantised the weights, form by form; None where nothing.

    Nothing comes where the scheme's own name says who it was.
    """
    found = checkpoint.quantisation
    said = surface.quant_methods.get(found.quant_method, {})
    for form in found.forms:
        yield container_words(found.quant_method, form), said.get(form) or said.get("other")


def _unsaid(forms: Mapping[str, Support | None]) -> Iterator[str]:
    yield from (words for words, one in forms.items() if one is None or _loads(one) == "unknown")


def container_words(quant_method: str, form: str) -> str:
    """Who quantised and in which form, each word once: "modelopt NVFP4", "mxfp4"."""
    return shown(quant_method if form == quant_method else f"{quant_method} {form}".strip())


def refused_for_all(verdict: Verdict, why: str) -> Verdict:
    """The verdict on files that nothing can load, whatever the engine takes of such weights otherwise."""
    return msgspec.structs.replace(verdict, loads="refused", notes=(why,), sources=(), ways=(), without=(), unsaid=())


def _in_the_way(weights: Support | None, besides: Mapping[str, Support | None]) -> Iterator[str]:
    """The variants but for which the weights are taken natively."""
    if weights is not None and _loads(weights) == "native":
        for key, support in besides.items():
            if support is not None and _loads(support) in {"fallback", "refused"}:
                yield key


def ways(scheme: str, surface: Surface, hardware: str) -> tuple[str, ...]:
    """Schemes that the engine takes natively on this hardware, of as many bits where there are some, else of more.

    What is quantised cannot be turned into another scheme without loss: each of them starts from the original weights.
    """
    first = _EIGHT_BITS if scheme in _EIGHT_BITS or scheme == "none" else (*_FOUR_BITS, *_EIGHT_BITS)
    native = [one for one in (*first, "none") if _natively(surface, one, hardware) and one != scheme]
    if scheme == "gguf" or not native:
        native = [one for one in ("none", "gguf") if _natively(surface, one, hardware) and one != scheme]
    return tuple(native[:_MOST_WAYS])


def _natively(surface: Surface, scheme: str, hardware: str) -> bool:
    support = surface.checkpoint.get(scheme, {}).get(hardware)
    return support is not None and _loads(support) == "native"


def _besides(checkpoint: Checkpoint, surface: Surface, hardware: str) -> Iterator[tuple[str, Support | None]]:
    """What the surface says of the variant, and of the keys and values that are asked for; None where nothing."""
    yield from variants_on(checkpoint, surface, hardware).items()
    if key := kv_scheme(checkpoint):
        support = surface.checkpoint.get(key, {}).get(hardware)
        if checkpoint.quantisation.kv_scales and support is not None:
            support = msgspec.structs.replace(support, note="")  # notes there are about scales that are missing
        yield key, support


def variants_on(checkpoint: Checkpoint, surface: Surface, hardware: str) -> dict[str, Support | None]:
    """What the surface says of each variant that the checkpoint has; None where nothing.

    Kernels that compute in one type alone, beside a model of another, are one statement: it loads when it is started
    in that type. What is said of the model's own type holds for other kernels, and is left out then.
    """
    found = {key: surface.checkpoint.get(key, {}).get(hardware) for key in variants(checkpoint)}
    bound = {key: one for key, one in found.items() if one is not None and one.only_dtype not in {"", checkpoint.dtype}}
    if not bound or not checkpoint.dtype:
        return found
    by_type = f"_{checkpoint.dtype}"
    if any(not key.endswith(by_type) for key in bound):
        found = {key: one for key, one in found.items() if not key.endswith(by_type)}
        bound = {key: one for key, one in bound.items() if key in found}
    return {**found, **{key: _started_in(one, surface, checkpoint.dtype) for key, one in bound.items()}}


def _started_in(support: Support, surface: Surface, dtype: str) -> Support:
    """The same for a model of `dtype`: a fallback where the engine can be told the type, else an error."""
    flag = surface.flags.get("dtype")
    option = flag.names[0] if flag is not None and flag.names else ""
    how = f": {START}{option} {support.only_dtype}" if option else ""
    return msgspec.structs.replace(
        support,
        value="fallback" if option else "refused",
        note=f"{support.note}, and the model is {shown(dtype)}, which is an error{how}",
    )


def plainly(key: str) -> str:
    """A scheme or a variant in words: "AWQ (4 bits)"."""
    what, parted, more = CHECKPOINT.get(key, key).removesuffix(", a variant").partition(", ")
    return f"{what} ({more})" if parted else what


def _worst(weights: Sequence[Support | None], besides: Iterable[Support]) -> Loads:
    """The worst of all. What is not known of a variant changes nothing; of a scheme or a method it is not known."""
    found: list[Loads] = [_loads(one) for one in (*weights, *besides) if one is not None]
    if "refused" in found:
        return "refused"
    if None in weights or "unknown" in found:
        return "unknown"
    return "fallback" if "fallback" in found else "native"


def _said(support: Support | None) -> str:
    if support is None:
        return "not known"
    return f"{_loads(support)}{f' ({support.note})' if support.note else ''}"


def _loads(support: Support) -> Loads:
    match support.value:
        case "native" | "enforced":
            return "native"
        case "refused" | "blocks":
            return "refused"
        case "unknown":
            return "unknown"
        case _:
            return "fallback"


def _notes(
    each: Mapping[str, Support | None], forms: Mapping[str, Support | None], besides: Mapping[str, Support | None]
) -> Iterator[str]:
    """Why: of mixed weights each scheme by its name; who quantised only where that is not simply read."""
    refused = any(one is not None and _loads(one) == "refused" for one in each.values())
    if len(each) > 1:
        yield from (f"{plainly(scheme)}: {_said(one)}" for scheme, one in each.items())
    else:
        yield from (one.note for one in each.values() if one is not None and one.note)
    if refused or not any(each.values()):
        return
    for words, support in forms.items():
        if support is None or _loads(support) != "native":
            said = "not known" if support is None else support.note or _loads(support)
            yield f"as {words} writes it: {said}"
    for key, support in besides.items():
        if support is None:
            yield f"{plainly(key)}: not known"
        elif support.note or _loads(support) != "native":
            yield f"{plainly(key)}: {support.note or support.value}"
