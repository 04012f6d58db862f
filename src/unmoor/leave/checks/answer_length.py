"""How long answers may become: what is left out, ignored, or more than the context holds."""

from __future__ import annotations

from collections.abc import Iterator

from unmoor.engines.surface.surface import Scalar, Trait
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind, threads
from unmoor.leave.sides import Sides, number, said, sides
from unmoor.leave.uses import ABSENT, Place, Rows

RESERVED = Kind(
    id="UM103",
    name="no-max-tokens",
    title="No max_tokens, on an engine that reserves room for the longest answer",
    bites="Without max_tokens the engine keeps room free to the end of the context for each request. Few fit at a "
    "time: they run one after another, and throughput falls to a fraction.",
    look="Requests without max_tokens and max_completion_tokens are counted; both engines' surfaces say what they do.",
    mend="Give each request the max_tokens that it needs, in the client or in a proxy.",
    threads=threads("NVIDIA/TensorRT-LLM#9412", "NVIDIA/TensorRT-LLM#2866", "NVIDIA/TensorRT-LLM#2865"),
)
CUT = Kind(
    id="UM120",
    name="answers-cut",
    title="Answers that end sooner, or later, than today",
    bites="Completions without max_tokens end after 16 tokens on some engines and run to the end of the context on "
    "others. Some ignore max_completion_tokens there, some refuse max_tokens beyond the context. The answer comes with "
    "status 200 and is simply shorter.",
    look="Requests without max_tokens, completions with max_completion_tokens, and, where the model is brought, "
    "max_tokens above its context; compared with what both engines do.",
    mend="Send max_tokens with each request; compare the share of finish_reason length before and after.",
    threads=threads(
        "infiniflow/ragflow#5603",
        "ai-dynamo/dynamo#3226",
        "vllm-project/vllm-ascend#15931",
        "ggml-org/llama.cpp#13700",
    ),
)

_RESERVES = "reserves_context"
_REFUSED = 400


def _look(case: Case) -> Iterator[Hit]:
    for place in ("chat", "completions"):
        rows = case.uses.which("max_tokens", ABSENT, places=(place,))
        if rows and (both := sides(case, f"missing_max_tokens_{place}", f"{place} without max_tokens")):
            yield from _missing(place, rows, both)
    renamed = case.uses.pair("max_completion_tokens on completions")
    about = "completions with max_completion_tokens"
    if renamed and (both := sides(case, "max_completion_tokens_on_completions", about)):
        yield from _newer_name(case, renamed, both)
    if case.uses.which("max_tokens", ABSENT, places=("responses",)) and not case.stays:
        case.skipped("responses without max_output_tokens: how long their answers become is not in the surfaces")
    yield from _beyond(case)


def _missing(place: Place, rows: Rows, both: Sides) -> Iterator[Hit]:
    here, there = both.here.value, both.there.value
    features = [f"{place}.max_tokens"]
    if there == _RESERVES != here:
        yield hit(
            RESERVED,
            "translated",
            "warning",
            features=features,
            rows=rows,
            seen=f"{both.target.title} reserves the rest of the context for each of them{said(both.there)}.",
            fix="Send max_tokens: the most that an answer may need.",
            sources=both.sources,
        )
    if number(here) == number(there):
        return
    most = number(there)
    yield hit(
        CUT,
        "translated",
        "warning" if most is None else "error",
        features=features,
        rows=rows,
        seen=f"Answers {_length(both.here)} on {both.source.title} and {_length(both.there)} on {both.target.title}.",
        fix=f"Send max_tokens = {here} to keep today's answers."
        if most is None
        else "Send max_tokens: the most that an answer may need.",
        sources=both.sources,
    )


def _newer_name(case: Case, rows: Rows, both: Sides) -> Iterator[Hit]:
    """`max_completion_tokens` where only chat has it."""
    if not both.differ:
        return
    there = both.there.value
    if there == "refused":
        seen = f"{both.target.title} refuses max_completion_tokens in completions{said(both.there)}."
        fix = "Send max_tokens in its place."
    elif there == "ignored":
        default = case.target.traits.get("missing_max_tokens_completions")
        after = f", and answers {_length(default)}" if default else ""
        seen = f"{both.target.title} disregards max_completion_tokens in completions{after}."
        fix = "Send max_tokens in its place."
    else:
        seen = f"{both.source.title} disregards max_completion_tokens in completions; {both.target.title} acts on it."
        fix = "Leave it out, and send as max_tokens what answers have today."
    yield hit(
        CUT,
        "translated",
        "warning" if there == "honoured" else "error",
        features=["completions.max_completion_tokens"],
        rows=rows,
        seen=seen,
        fix=fix,
        sources=both.sources,
    )


def _beyond(case: Case) -> Iterator[Hit]:
    """Answers longer than the context: an error on one side, and cut on the other."""
    here, there = (one.errors.get("max_tokens_over_context") for one in (case.source, case.target))
    if case.stays or here is None or there is None or (here.status < _REFUSED) == (there.status < _REFUSED):
        return
    asked = [
        (use, rows)
        for path in ("max_tokens", "max_completion_tokens", "max_output_tokens")
        for use, rows in case.uses.of(path).items()
        if number(use.value) is not None
    ]
    context = case.model.context_tokens if case.model else None
    if context is None:
        if asked:
            case.skipped("max_tokens above the context: --model names a folder that says how long it is")
        return
    beyond = [(use, rows) for use, rows in asked if (number(use.value) or 0) > context]
    if not beyond:
        return
    refused = there.status >= _REFUSED
    yield hit(
        CUT,
        "translated",
        "error" if refused else "note",
        features=sorted({use.feature for use, _ in beyond}),
        rows=Rows.union(rows for _, rows in beyond),
        seen=f"More than the model's context of {context} tokens: "
        + (
            f"{case.target.title} answers {there.status}, where {case.source.title} stops at the context."
            if refused
            else f"{case.target.title} stops at the context, where {case.source.title} answers {here.status}."
        ),
        fix="Send no more than the context leaves after the prompt.",
        sources=(case.source.source_of(here), case.target.source_of(there)),
    )


_UNTIL: dict[Scalar, str] = {
    "to_context": "run to the model's end or the context's",
    "unlimited": "run to the model's end or the context's",
    _RESERVES: "run to the model's end or the context's",
}


def _length(trait: Trait) -> str:
    most = number(trait.value)
    return _UNTIL.get(trait.value, "end otherwise") if most is None else f"end after {most} tokens"


CHECK = Check(kinds=(RESERVED, CUT), look=_look)
