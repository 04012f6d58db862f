"""A log's report as plain text for a terminal of 100 columns: what a busy engineer reads in half a minute."""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.report.layout import heading, table, wrapped
from unmoor.report.profile_words import (
    any_rate,
    arrivals_words,
    asks_words,
    breaker_title,
    breaker_words,
    breakers_scope,
    expected_words,
    lengths_words,
    next_steps,
    overlap_sentence,
    percent,
    rate_words,
    routings_of,
    sessions_words,
    size_of_pool,
    size_words,
    timeline_words,
    tokens_short,
)
from unmoor.report.words import name_of
from unmoor.traffic.profile.report import CurvePoint, Expected, Meaning, ReplicaRate, TrafficReport

_COLUMNS = 5
_PREFIXES = 5
_BREAKERS = 5


def render(report: TrafficReport) -> str:
    """The whole report, without colour."""
    lines = [
        f"{report.source} ({report.format}, sha256 {report.fingerprint[:12]})",
        *_shape(report),
        "",
        heading("Prefix overlap"),
        *wrapped(overlap_sentence(report), "  "),
        *_curves(report),
        *_replicas(report.replicas),
        *_meaning(report.meaning),
        *_prefixes(report),
        *_breakers(report),
    ]
    if report.caveats:
        lines += ["", heading("Doubts"), *(line for c in report.caveats for line in wrapped(c.text, "  ! "))]
    lines += ["", heading("Next"), *(line for step in next_steps(report) for line in wrapped(step, "  "))]
    return "\n".join(lines)


def _shape(report: TrafficReport) -> list[str]:
    lines = [f"  requests   {size_words(report)}"]
    lines += wrapped(arrivals_words(report), "  arrivals   ")
    lines += wrapped(lengths_words(report.input_tokens), "  prompts    ")
    lines += wrapped(lengths_words(report.output_tokens), "  answers    ")
    if report.sessions is not None:
        lines += wrapped(sessions_words(report.sessions), "  sessions   ")
    if asked := asks_words(report):
        lines += wrapped("; ".join(asked), "  asks for   ")
    return lines


def _curves(report: TrafficReport) -> list[str]:
    """The source's own curve and each engine's, at a few capacities."""
    shown = _few(len(report.hit_rate_curve))
    if not shown or report.prefix_overlap is None:
        return []
    sizes = [tokens_short(report.hit_rate_curve[i].kv_tokens) for i in shown]
    rows = [("hit rate at KV tokens of", "blocks", *sizes, "no limit")]
    rows.append(
        (
            "this log" if report.grain and report.curve_block_tokens == report.grain.tokens else "as asked",
            f"{report.curve_block_tokens}",
            *_cells(report.hit_rate_curve, shown),
            rate_words(report.curve_ideal),
        )
    )
    for name, engine in report.engines.items():
        rows.append(
            (
                f"{name_of(name)}{'' if engine.prefix_caching else ' *'}",
                f"{engine.block_tokens}",
                *_cells(engine.hit_rate_curve, shown),
                rate_words(engine.ideal),
            )
        )
    lines = table(rows)
    if not all(engine.prefix_caching for engine in report.engines.values()):
        lines.append("  * reuses prefixes only when told to")
    if report.timeline is not None:
        lines += wrapped(timeline_words(report.timeline), "  concurrency  ")
    return lines


def _few(count: int) -> list[int]:
    """Places of up to five of `count`, evenly, the first and the last among them."""
    if count <= _COLUMNS:
        return list(range(count))
    return [round(i * (count - 1) / (_COLUMNS - 1)) for i in range(_COLUMNS)]


def _cells(curve: Sequence[CurvePoint], shown: Sequence[int]) -> list[str]:
    return [rate_words(curve[i]) for i in shown]


def _replicas(rows: Sequence[ReplicaRate]) -> list[str]:
    if not any_rate(rows):
        return []
    names, counts = routings_of(rows)
    lines = [("replicas, KV tokens of each", *names)]
    for n, of_n in counts:
        lines.append((f"{n}, {size_of_pool(of_n)}", *(rate_words(row) for row in of_n)))
    return table(lines)


def _meaning(meaning: Meaning | None) -> list[str]:
    if meaning is None:
        return []
    lines = ["", heading(f"What it means for {meaning.plan or 'the choice'}")]
    lines += [*_layouts(meaning.expected, "requests dealt in turn; (KV tokens)"), *wrapped(meaning.sentence, "  ")]
    if meaning.mended is not None:
        lines += [*_layouts(meaning.mended.expected, "prompts mended"), *wrapped(meaning.mended.sentence, "  ")]
    return lines


def _layouts(expected: Sequence[Expected], title: str) -> list[str]:
    """Engines beside each other, a layout a line; empty without a plan."""
    if not expected:
        return []
    engines = list(dict.fromkeys(row.engine for row in expected))
    rows = [(title, *map(name_of, engines))]
    for layout in dict.fromkeys(row.layout for row in expected):
        cells = {row.engine: expected_words(row) for row in expected if row.layout == layout}
        rows.append((layout, *(cells.get(engine, "") for engine in engines)))
    return table(rows)


def _prefixes(report: TrafficReport) -> list[str]:
    if not report.shared_prefixes:
        return []
    total = report.input_tokens.total
    rows = [("up to token", "requests", "saves", "of all prompt tokens")]
    rows += [
        (
            f"{edge.tokens:,}",
            f"{edge.requests:,}",
            tokens_short(edge.tokens_saved),
            percent(edge.tokens_saved / total if total else None),
        )
        for edge in report.shared_prefixes[:_PREFIXES]
    ]
    return ["", heading("The shared prefixes that save most"), *table(rows)]


def _breakers(report: TrafficReport) -> list[str]:
    if not (report.breakers_looked_for or report.breakers):
        return []
    lines = ["", heading("What breaks sharing")]
    if scope := breakers_scope(report):
        lines += wrapped(scope, "  ")
    if not report.breakers:
        return [*lines, "  nothing found"]
    for found in report.breakers[:_BREAKERS]:
        lines += wrapped(breaker_words(found), f"  {breaker_title(found.what)}: ")
        if found.where is not None:
            lines += [line for text in found.where.excerpts for line in wrapped(repr(text), "    ")]
    return lines
