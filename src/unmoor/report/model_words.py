"""How a check of a model reads, as text and as a page: hardware that shares a verdict, and what a move would take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from unmoor.core.plural import plural
from unmoor.engines.surface.concepts import HARDWARE
from unmoor.leave.adapters.support import AdapterVerdict
from unmoor.leave.check_model import ModelReport
from unmoor.leave.checkpoint.support import CONVERT, START, Loads, Verdict, plainly

LOADS_ORDER: tuple[Loads, ...] = ("native", "fallback", "refused", "unknown")
_VENDORS = ("NVIDIA", "AMD Instinct", "Intel")
_KV_SCALES = "UM114"
_UNKNOWN = ": not known"
_FEW = 3
_PLAIN_VARIANT: Mapping[str, str] = {
    "gptq_desc_act": "with desc_act off",
    "gptq_asymmetric": "without zero points (sym on)",
    "gptq_v2": "in the first format of its files",
    "awq_gemv": "packed for GEMM",
    "awq_symmetric": "with zero points",
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Hardware on which one engine does the same for the same reasons; `places` are keys of `concepts.HARDWARE`."""

    engine: str
    loads: Loads
    places: tuple[str, ...]
    notes: tuple[str, ...] = ()


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """What would have to be done for one engine to load the model on `places`, or to load it natively."""

    engine: str
    loads: Loads
    places: tuple[str, ...]
    todo: str


def engine_words(one: Verdict | AdapterVerdict) -> str:
    """The engine with its version."""
    return f"{one.title} {one.version}"


def rows(found: Iterable[Verdict]) -> list[Row]:
    """One row for each engine, answer and reason: natives first, then fallbacks, refusals, and what is unknown."""
    places: dict[tuple[str, Loads, tuple[str, ...]], list[str]] = {}
    for one in found:
        places.setdefault((engine_words(one), one.loads, one.notes), []).append(one.hardware)
    gathered = [
        Row(engine=engine, loads=loads, places=tuple(where), notes=notes)
        for (engine, loads, notes), where in places.items()
    ]
    return sorted(gathered, key=lambda row: LOADS_ORDER.index(row.loads))


def moves(report: ModelReport) -> list[Move]:
    """For each engine that refuses the model or does not load it as it is stored: what would have to be done.

    Refusals come first. Left out is hardware on which nothing is known to help, for an engine that loads the model
    natively on other hardware.
    """
    places: dict[tuple[str, Loads, str], list[str]] = {}
    native = {one.engine for one in report.verdicts if one.loads == "native"}
    for one in report.verdicts:
        if one.loads not in {"refused", "fallback"}:
            continue
        todo = _todo(one, plainly(report.checkpoint.quantisation.scheme))
        if not todo and one.loads == "refused" and one.engine not in native:
            todo = "nothing is known that would help"
        if todo:
            places.setdefault((engine_words(one), one.loads, todo), []).append(one.hardware)
    gathered = [
        Move(engine=engine, loads=loads, places=tuple(where), todo=todo)
        for (engine, loads, todo), where in places.items()
    ]
    return sorted(gathered, key=lambda move: move.loads != "refused")


def kv_scales_todo(report: ModelReport) -> str:
    """What to do about keys and values in FP8 without scales, whichever the engine; empty where there are none."""
    return next((one.fix for one in report.findings if one.kind == _KV_SCALES), "")


def _todo(one: Verdict, scheme: str) -> str:
    """What to do; empty where nothing is known that would make it native."""
    converted = [note for note in one.notes if note.startswith(CONVERT)]
    if converted:
        return "; ".join(converted)
    steps = [f"{START}{note.partition(START)[2]}" for note in one.notes if START in note]
    anew = list(_without(one, scheme))
    if one.ways and not steps:
        anew.append(_from_original(one.ways))
    if anew and one.loads == "fallback":
        steps.append(f"{'' if steps else 'works; '}to be native, {'; or '.join(anew)}")
    else:
        steps += ["; or ".join(anew)] if anew else []
    return "; ".join(steps)


def _without(one: Verdict, scheme: str) -> Iterator[str]:
    """The same scheme without the variant, where the variant alone is in the way."""
    how = [_PLAIN_VARIANT[variant] for variant in one.without if variant in _PLAIN_VARIANT]
    if how:
        yield f"quantise the original weights anew as {scheme} {' and '.join(how)}"
    if any(key.endswith("_kv") for key in one.without):
        yield "keep keys and values in 16 bits"


def _from_original(ways: Sequence[str]) -> str:
    """Each of the ways starts from the weights before they were quantised."""
    formats = [plainly(way) for way in ways if way not in {"none", "gguf"}]
    steps = [f"quantise the original weights as {' or '.join(formats)}"] if formats else []
    if "gguf" in ways:
        steps.append("convert the original weights to GGUF")
    if "none" in ways:
        steps.append("take the original weights as they are")
    return ", or ".join(steps)


def places_words(places: Iterable[str], looked_at: Iterable[str] = ()) -> str:
    """Kinds of hardware, each vendor named once: "NVIDIA Ampere, Ada; Arm CPU"; or "all but ..." where that is shorter.

    `looked_at` is all the hardware that the check was about.
    """
    wanted, whole = set(places), set(looked_at)
    if len(whole) > _FEW and wanted == whole:
        return "all hardware"
    told = _by_vendor(wanted)
    if wanted < whole and len(rest := f"all but {_by_vendor(whole - wanted)}") < len(told):
        return rest
    return told


def _by_vendor(places: set[str]) -> str:
    """A vendor of whose hardware all is meant is named alone: "NVIDIA GPUs"."""
    vendor_of = {key: _vendor(HARDWARE[key]) for key in HARDWARE}
    count = Counter(vendor for vendor in vendor_of.values() if vendor)
    models: dict[str, list[str]] = {}
    for key in (key for key in HARDWARE if key in places):
        vendor = vendor_of[key]
        name = HARDWARE[key].partition(" (")[0]
        models.setdefault(vendor or name, []).append(name.removeprefix(vendor).strip())
    return "; ".join(_models(vendor, names, whole=len(names) == count[vendor]) for vendor, names in models.items())


def _models(vendor: str, names: list[str], *, whole: bool) -> str:
    if vendor not in _VENDORS:
        return vendor
    return f"{vendor} GPUs" if whole and len(names) >= _FEW else f"{vendor} {', '.join(names)}"


def _vendor(title: str) -> str:
    """The vendor whose name can stand once for several; empty for the others."""
    return next((one for one in _VENDORS if title.startswith(f"{one} ")), "")


def notes_words(row: Row) -> str:
    """The reasons in one sentence without an end; empty where there are none. How to convert is told elsewhere."""
    unknown = [note.removesuffix(_UNKNOWN) for note in row.notes if note.endswith(_UNKNOWN)]
    told = [
        "not before it is converted" if note.startswith(CONVERT) else note
        for note in row.notes
        if not note.endswith(_UNKNOWN)
    ]
    return "; ".join((*told, *([f"not known: {', '.join(unknown)}"] if unknown else [])))


def summary(report: ModelReport) -> str:
    """In a sentence: the engines that load the model natively, those that do otherwise, and those that refuse it.

    An engine refuses it where no hardware is left on which it might take it: not where its surface says nothing of who
    quantised the weights.
    """
    best: dict[str, Loads] = {}
    for one in report.verdicts:
        told = best.get(engine_words(one), "unknown")
        best[engine_words(one)] = min(told, one.loads, key=LOADS_ORDER.index)
    unsaid = {engine_words(one) for one in report.verdicts if one.unsaid}
    best |= {engine: "unknown" for engine, told in best.items() if told == "refused" and engine in unsaid}
    ways: Mapping[Loads, str] = {
        "native": "Natively, on some hardware at least",
        "fallback": "Only another way",
        "refused": "Refused",
        "unknown": "Unknown",
    }
    parts = []
    for loads, words in ways.items():
        engines = [engine for engine, one in best.items() if one == loads]
        if engines:
            parts.append(f"{words}: {', '.join(engines)}.")
    return " ".join(parts)


def nothing_lost(report: ModelReport) -> str:
    """That something which was asked for loads it; with errors below, so many are told: they hold for some engines."""
    errors = sum(finding.severity == "error" for finding in report.findings)
    if not errors:
        return "Nothing is lost."
    return f"Something that was asked for loads it; below {plural(errors, 'error')} that hold for some engines."
