"""A check of a model as plain text: what it is, what loads it where, what a move would take, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from unmoor.core.plural import plural
from unmoor.engines.surface.concepts import ADAPTER
from unmoor.leave.adapters.adapter import Adapter
from unmoor.leave.adapters.support import AdapterVerdict
from unmoor.leave.check_model import ModelReport
from unmoor.leave.checkpoint.bounded import shown
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.finding import Finding, Kind
from unmoor.report.layout import heading, wrapped
from unmoor.report.model_facts import SERVES, model_facts, size_words, traits_words
from unmoor.report.model_words import (
    Row,
    engine_words,
    kv_scales_todo,
    moves,
    notes_words,
    nothing_lost,
    places_words,
    rows,
    summary,
)

_ADAPTERS_SHOWN = 20


def render(report: ModelReport, kinds: Mapping[str, Kind], *, hashed: bool = False) -> str:
    """The whole report, 100 columns wide, without colour; with the files' hashes where weights were `hashed`."""
    lines = [*_model(report.checkpoint), ""]
    lines += [line for sentence in report.lost for line in wrapped(sentence, "  LOST: ")] or [
        f"  {nothing_lost(report)}"
    ]
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
    if hashed:
        lines += ["", heading("SHA-256 of files that were read whole")]
        lines += [f"  {sha256}  {shown(file)}" for file, sha256 in report.checkpoint.hashes.items()]
    if report.caveats:
        lines += ["", heading("Doubts"), *(line for one in report.caveats for line in wrapped(one.text, "  ! "))]
    lines += ["", "Read from headers, configuration and engines' surfaces; nothing was loaded. --json has the sources."]
    return "\n".join(lines)


def _model(one: Checkpoint) -> Iterator[str]:
    yield f"{one.path} ({one.container}, {plural(one.shards, 'file')} read, {size_words(one.weight_bytes)})"
    for name, text in model_facts(one):
        yield from wrapped(text, f"  {name:<11}")


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
                yield from wrapped(f"{SERVES[one.serves]}{traits_words(one)}", f"    {engine_words(one):<{width}}  ")
    if len(adapters) > _ADAPTERS_SHOWN:
        yield f"  and {len(adapters) - _ADAPTERS_SHOWN} more; --json has all"


def _finding(finding: Finding, kind: Kind) -> Iterator[str]:
    yield f"  {finding.kind} {finding.severity:<8}{kind.title}"
    yield from wrapped(", ".join(finding.features), "      on      ")
    yield from wrapped(finding.seen, "      seen    ")
    yield from wrapped(finding.fix, "      fix     ")
    for source in finding.sources[:2]:
        yield from wrapped(source.cited(), "      source  ")
