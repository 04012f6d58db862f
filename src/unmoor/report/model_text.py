"""A check of a model as plain text: what it is, what loads it where, what a move would take, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from unmoor.core.plural import plural
from unmoor.engines.surface.concepts import ADAPTER, CHECKPOINT
from unmoor.leave.adapters.adapter import Adapter
from unmoor.leave.adapters.support import AdapterVerdict
from unmoor.leave.check_model import ModelReport
from unmoor.leave.checkpoint.bounded import shown
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.finding import Finding, Kind
from unmoor.report.layout import heading, wrapped
from unmoor.report.model_words import Row, engine_words, kv_scales_todo, moves, notes_words, places_words, rows, summary

_GB, _MB = 1e9, 1e6
_ADAPTERS_SHOWN = 20
_SERVES = {
    "native": "serves it",
    "fallback": "serves it another way",
    "needs_flag": "serves it when told to",
    "varies": "serves it for some models",
    "ignored": "loads it and disregards a part",
    "refused": "refuses it",
    "unknown": "unknown",
}


def render(report: ModelReport, kinds: Mapping[str, Kind]) -> str:
    """The whole report, 100 columns wide, without colour."""
    lines = [*_model(report.checkpoint), ""]
    lines += [line for sentence in report.lost for line in wrapped(sentence, "  LOST: ")] or ["  Nothing is lost."]
    if not report.broken:
        looked_at = {one.hardware for one in report.verdicts}
        lines += [*wrapped(summary(report), "  "), "", heading("What loads it")]
        lines += _rows(rows(report.verdicts), looked_at)
        lines += _moves(report, looked_at)
    if report.adapters:
        lines += ["", heading("Adapters"), *_adapters(report.adapters, report.adapter_verdicts)]
    if report.findings:
        lines += ["", heading(f"Findings: {len(report.findings)}")]
        lines += [line for finding in report.findings for line in _finding(finding, kinds[finding.kind])]
    if report.caveats:
        lines += ["", heading("Doubts"), *(line for one in report.caveats for line in wrapped(one.text, "  ! "))]
    lines += ["", "Read from headers, configuration and engines' surfaces; nothing was loaded. --json has the sources."]
    return "\n".join(lines)


def _model(one: Checkpoint) -> Iterator[str]:
    files = plural(one.shards, "file")
    yield f"{one.path} ({one.container}, {files} read, {_size(one.weight_bytes)})"
    context = f", context {one.context_tokens:,} tokens" if one.context_tokens else ""
    yield from wrapped(
        f"{shown(one.architecture) or 'not said'}, {one.dtype or 'type not said'}{context}", "  model      "
    )
    yield from wrapped(_quantisation(one), "  weights    ")
    if one.quantisation.kv_cache:
        scales = f"{one.kv_scale_tensors} scales" if one.kv_scale_tensors else "no scales"
        yield f"  KV cache   {shown(one.quantisation.kv_cache)}, {scales}"
    yield from wrapped(_tokens(one), "  tokens     ")
    if one.remote_code:
        yield from wrapped(f"wants to run {', '.join(shown(name) for name in one.remote_code)}", "  code       ")


def _quantisation(one: Checkpoint) -> str:
    found = one.quantisation
    parts = [CHECKPOINT.get(found.scheme, f"{shown(found.scheme)}, which no surface knows")]
    if found.method or found.said_in:
        parts.append(f"{shown(found.method) or 'by names and types'} ({found.said_in})")
    if found.group_size:
        parts.append(f"groups of {found.group_size}")
    parts += [word for word, there in (("desc_act", found.desc_act), ("asymmetric", found.sym is False)) if there]
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


def _rows(found: Sequence[Row], looked_at: set[str]) -> Iterator[str]:
    width = max((len(row.engine) for row in found), default=0)
    for row in found:
        why = f": {notes_words(row)}" if row.notes else ""
        first = f"  {row.engine:<{width}}  {row.loads:<8}  "
        yield from wrapped(f"{places_words(row.places, looked_at)}{why}", first)


def _moves(report: ModelReport, looked_at: set[str]) -> Iterator[str]:
    found, scales = moves(report), kv_scales_todo(report)
    if not (found or scales):
        return
    yield from ("", heading("To move"))
    width = max((len(engine_words(one)) for one in report.verdicts), default=0)
    for move in found:
        yield from wrapped(f"{places_words(move.places, looked_at)}: {move.todo}", f"  {move.engine:<{width}}  ")
    if scales:
        yield from wrapped(scales, f"  {'every engine':<{width}}  ")


def _adapters(adapters: Sequence[Adapter], verdicts: Sequence[AdapterVerdict]) -> Iterator[str]:
    width = max((len(engine_words(one)) for one in verdicts), default=0)
    for adapter in adapters[:_ADAPTERS_SHOWN]:
        traits = ", ".join(
            ADAPTER[trait] for trait in adapter.traits if trait in ADAPTER and trait != "peft_safetensors"
        )
        rank = "rank not said" if adapter.rank is None else f"rank {adapter.rank}"
        alpha = "" if adapter.alpha is None else f", alpha {adapter.alpha:g}"
        of = f", for {shown(adapter.base_model)}" if adapter.base_model else ""
        yield from wrapped(f"{rank}{alpha}{of}{f'; {traits}' if traits else ''}", f"  {shown(adapter.name)}: ")
        for one in verdicts:
            if one.adapter == adapter.name:
                yield from wrapped(f"{_SERVES[one.serves]}{_because(one)}", f"    {engine_words(one):<{width}}  ")
    if len(adapters) > _ADAPTERS_SHOWN:
        yield f"  and {len(adapters) - _ADAPTERS_SHOWN} more; --json has all"


def _because(one: AdapterVerdict) -> str:
    """The traits that are the reason: those as bad as the whole."""
    traits = [trait for trait in one.traits if trait.serves == one.serves and trait.serves not in {"native", "unknown"}]
    why = ", ".join(
        f"{ADAPTER[trait.trait]}{f' ({trait.flag or trait.note})' if trait.flag or trait.note else ''}"
        for trait in traits
    )
    return f": {why}" if why else ""


def _finding(finding: Finding, kind: Kind) -> Iterator[str]:
    yield f"  {finding.kind} {finding.severity:<8}{kind.title}"
    yield from wrapped(", ".join(finding.features), "      on      ")
    yield from wrapped(finding.seen, "      seen    ")
    yield from wrapped(finding.fix, "      fix     ")
    for source in finding.sources[:2]:
        yield from wrapped(source.cited(), "      source  ")


def _size(count: int) -> str:
    return f"{count / _GB:.2f} GB" if count >= _GB else f"{count / _MB:.1f} MB"
