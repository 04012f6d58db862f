"""Which engines load a checkpoint on which hardware, by their surfaces, and what a move to one of them would need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from unmoor.engines.surface.concepts import CHECKPOINT, HARDWARE
from unmoor.engines.surface.surface import Source, Support, Surface
from unmoor.leave.checkpoint.checkpoint import Checkpoint

Loads = Literal["native", "fallback", "refused", "unknown"]

_FOUR_BITS = ("nvfp4", "mxfp4", "quark_mxfp4", "awq_int4", "gptq_int4", "int4_w4a16")
_EIGHT_BITS = ("fp8", "fp8_block", "quark_fp8", "mxfp8", "int8", "gptq_int8")
_MOST_WAYS = 2


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one engine loads the checkpoint on one kind of hardware.

    "native": computed with as it is stored. "fallback": it works, otherwise than stored (unpacked, emulated), slower or
    in more memory. "refused": an error. "unknown": the engine's surface does not say. `ways` are schemes that this
    engine takes natively there, nearest first; empty where none is needed.
    """

    engine: str
    title: str
    version: str
    hardware: str
    loads: Loads
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    ways: tuple[str, ...] = ()


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
    weights = surface.checkpoint.get(scheme, {}).get(hardware)
    besides = list(_besides(checkpoint, surface, hardware))
    said = [weights, *(support for _, support in besides)]
    loads = _worst(weights, [support for _, support in besides if support is not None])
    return Verdict(
        engine=surface.engine,
        title=surface.title,
        version=surface.version,
        hardware=hardware,
        loads=loads,
        notes=tuple(_notes(weights, besides)),
        sources=tuple(dict.fromkeys(surface.source_of(one) for one in said if one is not None)),
        ways=() if loads in {"native", "unknown"} else ways(scheme, surface, hardware),
    )


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
    for key in (*variants(checkpoint), kv_scheme(checkpoint)):
        if key:
            support = surface.checkpoint.get(key, {}).get(hardware)
            if key.endswith("_kv") and checkpoint.quantisation.kv_scales and support is not None:
                support = msgspec.structs.replace(support, note="")  # notes there are about scales that are missing
            yield plainly(key), support


def plainly(key: str) -> str:
    """A scheme or a variant in words: "AWQ (4 bits)"."""
    what, parted, more = CHECKPOINT.get(key, key).removesuffix(", a variant").partition(", ")
    return f"{what} ({more})" if parted else what


def _worst(weights: Support | None, besides: Iterable[Support]) -> Loads:
    """What is not known of the variant changes nothing; what is not known of the weights is not known."""
    found: list[Loads] = [_loads(one) for one in besides]
    if weights is not None:
        found.append(_loads(weights))
    if "refused" in found:
        return "refused"
    if weights is None or "unknown" in found:
        return "unknown"
    return "fallback" if "fallback" in found else "native"


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


def _notes(weights: Support | None, besides: Iterable[tuple[str, Support | None]]) -> Iterator[str]:
    if weights is None or _loads(weights) == "refused":
        besides = ()
    if weights is not None and weights.note:
        yield weights.note
    for what, support in besides:
        if support is None:
            yield f"{what}: not known"
        elif support.note or _loads(support) != "native":
            yield f"{what}: {support.note or support.value}"
