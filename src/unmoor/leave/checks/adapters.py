"""Adapters: what the other engine refuses of them, or loads and disregards; and whether they belong to this model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from unmoor.engines.surface.concepts import ADAPTER
from unmoor.engines.surface.surface import Surface
from unmoor.leave.adapters.adapter import Adapter
from unmoor.leave.adapters.base_model import fit, with_model
from unmoor.leave.adapters.support import Serves, TraitVerdict, adapter_verdict, serves_none, trait_verdict
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.checkpoint.bounded import shown
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.checks.checkpoints import pickle_hits, problem_hits
from unmoor.leave.finding import Kind, Outcome, Severity, threads

RSLORA = Kind(
    id="UM101",
    name="rslora-scale",
    title="A rank-stabilised adapter whose scale the other engine gets wrong",
    bites="rsLoRA divides alpha by the root of the rank, plain LoRA by the rank. An engine that does not read "
    "use_rslora loads the adapter without an error and applies it too weakly, by the root of the rank.",
    look="use_rslora in adapter_config.json is compared with what the target's surface says of it.",
    mend="Say the same scale as plain LoRA: multiply lora_alpha by the root of r, and set use_rslora to false. Compare "
    "probabilities of some prompts' tokens with the source's.",
    threads=threads("sgl-project/sglang#40835", "vllm-project/vllm#10798", "NVIDIA/TensorRT-LLM#1668"),
)
FORMAT = Kind(
    id="UM117",
    name="adapter-format",
    title="An adapter that the other engine does not take, or takes only in part",
    bites="Engines read different parts of PEFT's format. What one serves, another refuses when the adapter is loaded, "
    "or loads and disregards: modules trained whole, ranks by module, biases, magnitudes, added tokens.",
    look="adapter_config.json and the tensors' names and shapes are compared with what the target's surface says.",
    mend="Most of it can be written as a plain adapter, or merged into the base model; the finding says which.",
    threads=threads(
        "vllm-project/vllm#9280",
        "vllm-project/vllm#21500",
        "vllm-project/vllm#55545",
        "sgl-project/sglang#11034",
        "sgl-project/sglang PR#18634",
    ),
)
BASE = Kind(
    id="UM134",
    name="adapter-base-model",
    title="An adapter that was trained for another model",
    bites="With other shapes it is refused when it is loaded. With the same shapes, as between two versions of a "
    "model, it loads, and answers are wrong without a word.",
    look="The shapes of what it adapts are compared with the model's, and the model's name in both.",
    mend="Bring the adapter that was trained for this model.",
)

_MERGE = "Merge it into the base model's weights, and serve that as a model of its own."
_FIXES: Mapping[str, tuple[Outcome, str]] = {
    "rank_pattern": (
        "translated",
        "Pad lora_A and lora_B with zeros to one rank, and put each module's scale into lora_B.",
    ),
    "use_rslora": ("translated", "Multiply lora_alpha by the root of r, and set use_rslora to false."),
    "alpha_pattern": ("translated", "Put each module's scale into its lora_B, and leave alpha_pattern out."),
    "target_prefix": ("translated", "Name the target modules by their last part (q_proj)."),
    "rank_choices": (
        "translated",
        "Pad lora_A and lora_B with zeros to a rank that it takes, and scale alpha likewise.",
    ),
    "pickle": ("translated", "Convert the adapter's weights to safetensors."),
    "base_changing_init": ("translated", "Save it with PEFT's path_initial_model_for_weight_conversion."),
    "peft_safetensors": ("translated", "Convert the adapter to the format that it takes, with the engine's own tool."),
    "gguf_adapter": ("translated", "Serve the adapter's original folder instead."),
    "added_tokens": ("lost", f"{_MERGE} Its tokenizer goes with it."),
}


def adapter_hits(adapter: Adapter, source: Surface | None, target: Surface) -> Iterator[Hit]:
    """What the target does otherwise with the adapter than its files say, and than the source."""
    if serves_none(target):
        yield _none(adapter, source, target)
        return
    for found in adapter_verdict(adapter, target).traits:
        if found.serves == "native" or (found.serves == "unknown" and found.trait in {"rank_choices", "embedding"}):
            continue
        before = trait_verdict(found.trait, source).serves if source is not None else None
        if found.trait == "use_rslora" and found.serves == "ignored":
            yield _rslora(adapter, found, before, target)
        else:
            yield _trait(adapter, found, before, target)


def _none(adapter: Adapter, source: Surface | None, target: Surface) -> Hit:
    """The one finding about an engine that serves no adapters."""
    before = source is not None and serves_none(source)
    return hit(
        FORMAT,
        "same" if before else "lost",
        "note" if before else "error",
        features=(_feature(adapter),),
        seen=f"{target.title} serves no adapters.",
        fix=_MERGE,
        sources=(target.source_of(target.adapter["peft_safetensors"]),),
    )


def _rslora(adapter: Adapter, found: TraitVerdict, before: Serves | None, target: Surface) -> Hit:
    rank, alpha = max(adapter.rank or 1, 1), adapter.alpha
    plain = f"lora_alpha {alpha * math.sqrt(rank):g} and use_rslora false" if alpha else "the same scale as plain LoRA"
    patterns = any(one in adapter.traits for one in ("rank_pattern", "alpha_pattern"))
    fix = _FIXES["alpha_pattern"][1] if patterns else f"Write {plain}: the same scale as plain LoRA."
    return hit(
        RSLORA,
        "same" if before == "ignored" else "translated",
        "note" if before == "ignored" else "error",
        features=(_feature(adapter),),
        seen=f"{target.title} loads it and applies it √{rank} = {math.sqrt(rank):.3g} times too weakly"
        + (", as the source does." if before == "ignored" else ", without an error."),
        fix=fix,
        sources=(found.source,) if found.source else (),
    )


def _trait(adapter: Adapter, found: TraitVerdict, before: Serves | None, target: Surface) -> Hit:
    outcome, severity, verb, fix = _told(found, before)
    what = ADAPTER.get(found.trait, found.trait)
    note = f" ({found.note})" if found.note else ""
    return hit(
        FORMAT,
        outcome,
        severity,
        features=(_feature(adapter),),
        seen=f"{what}{_value(adapter, found.trait)}: {target.title} {verb}{note}.",
        fix=fix,
        sources=(found.source,) if found.source else (),
    )


def _told(found: TraitVerdict, before: Serves | None) -> tuple[Outcome, Severity, str, str]:
    """How bad it is, in which words, and what to do."""
    outcome, fix = _FIXES.get(found.trait, ("lost", _MERGE))
    if found.trait == "rank_over_flag" and found.serves == "refused":
        fix = "Cut the adapter down to a lower rank (SVD), or merge it into the base model."
    untried = "Load it once on the target without traffic."
    verbs = {"refused": "refuses it", "ignored": "loads it and disregards that"}
    match found.serves:
        case "needs_flag":
            return "translated", "warning", "takes it only when told to", f"Start it with {found.flag}."
        case "unknown":
            return "same", "note", "may or may not take it: nobody looked", untried
        case "fallback":
            return "translated", "warning", "takes it another way", fix if outcome == "translated" else untried
        case "varies":
            return "translated", "warning", "takes it for some models", untried
        case _ if before == found.serves:
            return "same", "note", f"{verbs[found.serves]}, as the source does", fix
        case _:
            return outcome, "error", verbs.get(found.serves, found.serves), fix


def adapter_file_hits(adapter: Adapter) -> Iterator[Hit]:
    """What is wrong with the adapter's files, whichever engine is to load them."""
    yield from problem_hits(adapter.problems, _feature(adapter), adapter.path)
    yield from pickle_hits(
        adapter,
        _feature(adapter),
        seen=", ".join(shown(name) for name in adapter.pickles[:5]),
        convert="Convert the adapter's weights to safetensors.",
        leave_out="Leave these files out.",
    )


def base_hits(adapter: Adapter, model: Checkpoint) -> Iterator[Hit]:
    """Whether the adapter was trained for this model, as far as headers and names tell."""
    found = fit(adapter, model)
    trained_for = f"; it was trained for {shown(found.named)}." if found.named else "."
    if found.wrong:
        first = found.wrong[0]
        yield _unfit(
            adapter,
            f"{len(found.wrong)} of {found.compared} modules have other shapes: layer {shown(first.module)} is "
            f"{_by(first.adapter)} in the adapter, {_by(first.model)} in the model{trained_for}",
        )
    elif found.missing:
        yield _unfit(
            adapter,
            f"{len(found.missing)} modules that it adapts are not in the model: layer {shown(found.missing[0])}"
            f"{trained_for}",
        )
    elif found.same_name is False:
        yield hit(
            BASE,
            "same",
            "warning" if not found.compared else "note",
            features=(_feature(adapter),),
            seen=f"It names {shown(found.named)} as its base model, and this one is {shown(found.given)}"
            + (f"; all {found.compared} shapes agree." if found.compared else "."),
            fix="Look whether they are the same weights.",
            by="headers",
        )


def _unfit(adapter: Adapter, seen: str) -> Hit:
    return hit(
        BASE,
        "lost",
        "error",
        features=(_feature(adapter),),
        seen=seen,
        fix="Bring the adapter that was trained for this model, or the model that it was trained for.",
        by="headers",
    )


def _look(case: Case) -> Iterator[Hit]:
    if not case.adapters:
        case.not_looked_at.append("adapters: --adapters names their folder")
    for adapter in case.adapters:
        yield from adapter_file_hits(adapter)
        if any(problem.fatal for problem in adapter.problems):
            continue
        yield from adapter_hits(with_model(adapter, case.model), case.source, case.target)
        if case.model is not None:
            yield from base_hits(adapter, case.model)


def _feature(adapter: Adapter) -> str:
    return f"adapter {shown(adapter.name)}"


def _value(adapter: Adapter, trait: str) -> str:
    value = adapter.traits.get(trait)
    if isinstance(value, list):
        return f" ({', '.join(shown(one) for one in value[:5])})"
    return f" ({shown(value)})" if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _by(shape: tuple[int, int]) -> str:
    return f"{shape[0]} × {shape[1]}"


CHECK = Check(kinds=(RSLORA, FORMAT, BASE), look=_look)
