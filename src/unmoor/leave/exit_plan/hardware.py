"""The hardware that stays possible with these weights: on each engine of the plan, and so with the way out."""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.choose.facts import Facts
from unmoor.core.errors import UsageError
from unmoor.core.plan import HardwarePlan
from unmoor.engines.surface.concepts import CHECKPOINT, HARDWARE
from unmoor.engines.surface.surface import Surface
from unmoor.leave.checkpoint.checkpoint import Checkpoint, Quantisation
from unmoor.leave.checkpoint.devices import hardware_kind
from unmoor.leave.checkpoint.support import verdicts
from unmoor.leave.exit_plan.exit_plan import HardwareKind, Loads, OnEngine, Side
from unmoor.leave.exit_plan.sides import runs_on

_PLAIN = ("bf16", "bfloat16", "fp16", "f16", "float16", "half", "fp32", "f32", "float32")
_VENDORS = {"google": "tpu"}


def scheme_of(word: str) -> str:
    """The key of `Surface.checkpoint` for a plan's word for its weights ("bf16", "fp8", "q4_1"); empty for others."""
    plain = word.strip().casefold().replace("-", "_")
    if plain in _PLAIN:
        return "none"
    if plain in CHECKPOINT:
        return plain
    begins = (("q", "gguf"), ("iq", "gguf"))
    return next(
        (scheme for begin, scheme in begins if plain.startswith(begin) and plain[len(begin) :][:1].isdigit()), ""
    )


def of_the_word(word: str) -> Checkpoint:
    """A checkpoint of which nothing is known but the plan's word for its weights."""
    return Checkpoint(
        path="", container="none", architecture="", dtype="", quantisation=Quantisation(scheme=scheme_of(word))
    )


def hardware_kinds(
    checkpoint: Checkpoint,
    sides: Sequence[tuple[Side, Surface | None]],
    hardware: HardwarePlan,
    facts: Facts,
) -> tuple[HardwareKind, ...]:
    """Every kind of hardware, with what each side does there with these weights."""
    ours = _kind_of(hardware)
    found = {id(side): _on_each(checkpoint, side, surface, facts) for side, surface in sides}
    return tuple(
        HardwareKind(
            hardware=kind,
            title=title,
            vendor=_vendor(kind),
            of_the_plan=kind == ours,
            engines=tuple(found[id(side)][kind] for side, _ in sides),
        )
        for kind, title in HARDWARE.items()
    )


def _kind_of(hardware: HardwarePlan) -> str:
    """The kind of the plan's device; empty for one that is not known."""
    try:
        return hardware_kind(hardware.device)
    except UsageError:
        return ""


def _vendor(kind: str) -> str:
    name = kind.partition("_")[0]
    return _VENDORS.get(name, name)


def _on_each(checkpoint: Checkpoint, side: Side, surface: Surface | None, facts: Facts) -> dict[str, OnEngine]:
    vendors = runs_on(side.engine, facts)
    told = {one.hardware: one for one in verdicts(checkpoint, surface)} if surface else {}
    found = {}
    for kind in HARDWARE:
        verdict = told.get(kind)
        loads: Loads = verdict.loads if verdict else "unknown"
        barred = _barred(vendors, _vendor(kind))
        found[kind] = OnEngine(
            engine=side.engine,
            version=side.version,
            loads=barred or loads,
            notes=verdict.notes if verdict and not barred else (),
            ways=verdict.ways if verdict and not barred else (),
            sources=verdict.sources if verdict and not barred else (),
        )
    return found


def _barred(vendors: object, vendor: str) -> Loads | None:
    """That the engine's own release does not run there at all, by the facts; None where it does, or nothing says."""
    if not isinstance(vendors, dict):
        return None
    if vendor not in vendors:
        return "not supported"
    return None if vendors[vendor] else "elsewhere"
