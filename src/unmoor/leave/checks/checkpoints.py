"""The model's files: whole, without code that runs, and in a format that the other engine loads where the first did."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping

from unmoor.engines.surface.concepts import CHECKPOINT, HARDWARE
from unmoor.engines.surface.surface import Source, Support, Surface
from unmoor.leave.adapters.adapter import Adapter
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.checkpoint.bounded import shown
from unmoor.leave.checkpoint.checkpoint import Checkpoint, Problem
from unmoor.leave.checkpoint.support import START, Verdict, plainly, variants, variants_on, verdicts
from unmoor.leave.finding import Kind, threads
from unmoor.leave.launch_flags import LaunchFlags

FORMAT = Kind(
    id="UM113",
    name="checkpoint-format",
    title="Quantised weights that the other engine does not load, or not as they are",
    bites="A checkpoint quantised for one engine may end in an error on the other (a missing scale, an unknown "
    "method), or load by another way: unpacked or emulated, slower and in more memory. It depends on the hardware too.",
    look="The quantisation in config.json, hf_quant_config.json, the headers or the GGUF metadata is looked up in both "
    "engines' surfaces, for each kind of hardware.",
    mend="Quantise the original weights anew in a scheme that both take on the hardware that you may need; load it "
    "once without traffic before the move.",
    threads=threads(
        "sgl-project/sglang#25792",
        "sgl-project/sglang#5095",
        "sgl-project/sglang#19587",
        "NVIDIA/TensorRT-LLM#16867",
        "vllm-project/vllm#46641",
        "vllm-project/vllm#54900",
    ),
)
KV_SCALES = Kind(
    id="UM114",
    name="fp8-kv-scales",
    title="Keys and values in FP8, without scales in the checkpoint",
    bites="Without calibrated scales engines take 1.0 for every layer, and answers become worse without any error. How "
    "much depends on the model; one report has a perplexity of 34.8 without scales and 22.6 with them.",
    look="Where the checkpoint or the start asks for keys and values in FP8 (E4M3), tensors named k_scale and v_scale "
    "are looked for in the headers.",
    mend="Calibrate scales into the checkpoint, or keep keys and values in 16 bits; compare answers before the move.",
    threads=threads(
        "sgl-project/sglang#6518", "vllm-project/vllm#12076", "vllm-project/vllm PR#11906", "ROCm/vllm#317"
    ),
)
VARIANT = Kind(
    id="UM115",
    name="gptq-awq-variant",
    title="A variant of GPTQ or AWQ that only one engine takes",
    bites="The order of activations, zero points, a packing or a model in bfloat16 decide which kernels can be used, "
    "and whether there is one. The method's name in config.json is the same for all of them.",
    look="desc_act, sym, zero_point, version and the model's type are compared with what the target's surface says.",
    mend="Load it once on the target without traffic; give the type that its kernel takes; else quantise anew.",
    threads=threads("vllm-project/vllm#28857", "sgl-project/sglang#1792", "vllm-project/vllm#7240"),
)
PICKLED = Kind(
    id="UM132",
    name="pickled-weights",
    title="Weights in a format that can run code when it is loaded",
    bites="A pickle is a program. Whoever can change the file runs code in the process that loads it; some engines "
    "refuse such files for that reason. They were not loaded here.",
    look="Files that end in .bin, .pt, .pth, .ckpt or .pkl are listed by name.",
    mend="Convert them to safetensors once, in a place without secrets, and serve those.",
)
BROKEN = Kind(
    id="UM133",
    name="missing-or-broken-files",
    title="Files of the model or an adapter that are missing or broken",
    bites="A missing shard, or a header that does not fit its file, ends in an error minutes after the start, or in "
    "weights that are not those you meant.",
    look="Headers are read and checked against the files' sizes, the index against the files that are there.",
    mend="Bring the files again, and compare their hashes with the publisher's.",
)


def file_hits(model: Checkpoint) -> Iterator[Hit]:
    """What is wrong with the files themselves, whichever engine is to load them."""
    yield from problem_hits(model.problems, "model", model.path)
    beside = "the weights themselves" if model.container == "pickle" else "beside weights in safetensors"
    yield from pickle_hits(
        model,
        "model",
        seen=f"{_named(model.pickles)}: {beside}",
        convert="Convert the weights to safetensors.",
        leave_out="Leave these files out of what is deployed.",
    )


def pickle_hits(found: Checkpoint | Adapter, feature: str, *, seen: str, convert: str, leave_out: str) -> Iterator[Hit]:
    """That there are pickles, if any: to `convert` where they alone hold the weights, else to `leave_out`."""
    if not found.pickles:
        return
    alone = found.container == "pickle"
    yield hit(
        PICKLED,
        "translated" if alone else "same",
        "warning" if alone else "note",
        features=(feature,),
        seen=seen,
        fix=convert if alone else leave_out,
        by="files",
        file=printable(found.pickles[0]),
    )


def problem_hits(problems: Iterable[Problem], feature: str, root: str) -> Iterator[Hit]:
    """One finding for each problem of a file; one of `root`, the folder itself, is about no file in it."""
    for problem in problems:
        expected = f"; expected {problem.expected}" if problem.expected else ""
        seen = f" ({problem.seen})" if problem.seen else ""
        yield hit(
            BROKEN,
            "lost" if problem.fatal else "same",
            "error" if problem.fatal else "note",
            features=(feature,),
            seen=f"{shown(problem.file)}: {problem.what}{seen}{expected}",
            fix=_mended(problem),
            by="files",
            file="" if problem.file == root else printable(problem.file),
        )


def printable(name: str) -> str:
    """A file's name that any text can hold: bytes of it that are no text are question marks."""
    return name.encode(errors="replace").decode()


def _mended(problem: Problem) -> str:
    if problem.seen == os.strerror(errno.EACCES):
        return "Allow the user who runs this, and the engine's, to read it."
    return "Bring the file again." if problem.fatal else "Look whether it was meant so."


def kv_scale_hits(model: Checkpoint, flags: LaunchFlags | None, target: Surface | None = None) -> Iterator[Hit]:
    """Keys and values in FP8 without scales, where the checkpoint or the start asks for such."""
    flag = (flags.concepts.get("kv_dtype", "") if flags else "").casefold()
    by_flag = flag.startswith("fp8") and not flag.startswith("fp8_e5m2")
    if not (by_flag or model.quantisation.kv_cache == "fp8") or model.kv_scale_tensors or not model.tensors:
        return
    who = f"the start asks for {flag}" if by_flag else f"{model.quantisation.said_in} asks for FP8"
    option = target.flags.get("kv_dtype") if target else None
    spelled = f" ({option.names[0]})" if option is not None and option.names else ""
    yield hit(
        KV_SCALES,
        "translated",
        "warning",
        features=("model",),
        seen=f"Keys and values: {who}, and no tensor is named k_scale or v_scale: every scale is 1.0.",
        fix=f"Calibrate scales into the checkpoint, or keep keys and values in 16 bits{spelled}.",
        by="headers",
    )


def variant_hits(
    model: Checkpoint, source: Surface | None, target: Surface, hardware: Iterable[str] = tuple(HARDWARE)
) -> Iterator[Hit]:
    """Variants of GPTQ and AWQ that the target does not take everywhere, or of which nothing is known."""
    places = tuple(hardware)
    for variant in variants(model):
        if places and all(variant not in variants_on(model, target, place) for place in places):
            continue  # another variant says it already
        after = _on(model, target, variant, places)
        before = _on(model, source, variant, places) if source is not None else {}
        worse = {
            place: one for place, one in after.items() if one.value not in {"native", before.get(place, _NONE).value}
        }
        if after and not worse:
            continue
        everywhere = bool(after) and all(one.value == "refused" for one in after.values())
        said = _grouped(worse) if after else "what becomes of it is not known"
        yield hit(
            VARIANT,
            "lost" if everywhere else "translated" if after else "same",
            "error" if everywhere else "warning" if after else "note",
            features=("model",),
            seen=f"{plainly(variant)} on {target.title}: {said}.",
            fix="Quantise the original weights anew." if everywhere else _first(worse.values()),
            sources=tuple(dict.fromkeys(target.source_of(one) for one in worse.values())),
        )


_NONE = Support(value="native", source="")


def _first(supports: Iterable[Support]) -> str:
    """What to do before traffic comes: the option that it takes, where a note names one."""
    told = list(dict.fromkeys(one.note.partition(START)[2] for one in supports if START in one.note))
    start = f"Start it with {' or '.join(told)}, and load" if told else "Load"
    return f"{start} it once on the target without traffic."


def _on(model: Checkpoint, surface: Surface, variant: str, hardware: Iterable[str]) -> dict[str, Support]:
    """What the surface says of the model's variant on this hardware."""
    said = {place: variants_on(model, surface, place).get(variant) for place in hardware}
    return {place: one for place, one in said.items() if one is not None}


def _grouped(supports: Mapping[str, Support]) -> str:
    """What happens, and where, each once."""
    places: dict[str, list[str]] = {}
    for place, one in supports.items():
        places.setdefault(f"{one.value}{f' ({one.note})' if one.note else ''}", []).append(HARDWARE[place])
    return "; ".join(f"{said} on {', '.join(where)}" for said, where in places.items())


def format_hits(model: Checkpoint, source: Surface, target: Surface) -> Iterator[Hit]:
    """Hardware on which the source loads the checkpoint and the target does not, or not as well."""
    before = {one.hardware: one for one in verdicts(model, source)}
    after = {one.hardware: one for one in verdicts(model, target)}
    known = [one for one in after.values() if one.loads != "unknown"]
    if known and not any(one.unsaid for one in after.values()) and all(one.loads == "refused" for one in known):
        yield _nowhere(model, target, known)
        return
    gone = [after[place] for place, one in before.items() if _loads(one) and after[place].loads == "refused"]
    worse = [
        after[place] for place, one in before.items() if one.loads == "native" and after[place].loads == "fallback"
    ]
    for places, what in ((gone, "refused"), (worse, "not as it is stored")):
        if places:
            yield hit(
                FORMAT,
                "translated",
                "warning",
                features=("model",),
                seen=f"{_scheme(model)}: {what} by {target.title} on {_places(places)}.",
                fix=f"{_ways(places)}, or run it on other hardware.",
                sources=_cited(places),
            )


def _nowhere(model: Checkpoint, target: Surface, known: list[Verdict]) -> Hit:
    return hit(
        FORMAT,
        "lost",
        "error",
        features=("model",),
        seen=f"{_scheme(model)}: {target.title} {target.version} loads it on none of {_places(known)}.",
        fix=f"{_ways(known)}.",
        sources=_cited(known),
    )


def _look(case: Case) -> Iterator[Hit]:
    model = case.model
    if model is None:
        case.not_looked_at.append("the model's files: --model names their folder")
        return
    yield from file_hits(model)
    if any(problem.fatal for problem in model.problems):
        return
    found = verdicts(model, case.target)
    unsaid = list(dict.fromkeys(words for one in found for words in one.unsaid))
    if unsaid or all(one.loads == "unknown" for one in found):
        by = f" as {', '.join(unsaid)} writes them" if unsaid else ""
        case.not_looked_at.append(f"{_scheme(model)}{by} on {case.target.title}: its surface says nothing of it")
    else:
        yield from format_hits(model, case.source, case.target)
    yield from kv_scale_hits(model, case.flags, case.target)
    yield from variant_hits(model, case.source, case.target)


def _scheme(model: Checkpoint) -> str:
    said = CHECKPOINT.get(model.quantisation.scheme, shown(model.quantisation.scheme))
    return f"weights ({said})"


def _loads(verdict: Verdict) -> bool:
    return verdict.loads in {"native", "fallback"}


def _places(found: Iterable[Verdict]) -> str:
    return ", ".join(HARDWARE[one.hardware] for one in found)


def _ways(found: Iterable[Verdict]) -> str:
    ways = list(dict.fromkeys(way for one in found for way in one.ways))
    if not ways:
        return "Use the original weights, or others"
    return "Take the original weights, " + " or ".join(
        "as they are" if way == "none" else f"as {plainly(way)}" for way in ways[:3]
    )


def _cited(found: Iterable[Verdict]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(source for one in found for source in one.sources))


def _named(names: tuple[str, ...], most: int = 5) -> str:
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown(name) for name in names[:most]) + more


CHECK = Check(kinds=(FORMAT, KV_SCALES, VARIANT, PICKLED, BROKEN), look=_look)
