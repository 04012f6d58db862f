"""Rows with bars: replicas by routing, and the shared prefixes as a tree."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unmoor.report.profile_words import any_rate, percent, rate_words, routings_of, size_of_pool, tokens_short
from unmoor.traffic.profile.report import PrefixShared, ReplicaRate, TrafficReport


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A row with a bar of `share` (0-1) of the widest, `indent` levels in; `cells` are its figures."""

    label: str
    share: float
    indent: int
    cells: tuple[str, ...]


def replica_bars(rows: Sequence[ReplicaRate]) -> list[tuple[str, list[Bar]]]:
    """For each number of replicas a bar a routing, against the best of all; none where no rate is known."""
    if not any_rate(rows):
        return []
    widest = max((row.low or 0.0 for row in rows), default=0.0) or 1.0
    return [
        (
            f"{n} × {size_of_pool(of_n)}",
            [
                Bar(
                    label=row.routing,
                    share=(row.low or 0.0) / widest,
                    indent=0,
                    cells=(rate_words(row), percent(row.busiest_share)),
                )
                for row in of_n
            ],
        )
        for n, of_n in routings_of(rows)[1]
    ]


def prefix_bars(report: TrafficReport) -> list[Bar]:
    """The shared prefixes as a tree, each under the one that it extends, its bar what it saves."""
    edges = report.shared_prefixes
    widest = max((edge.tokens_saved for edge in edges), default=1) or 1
    total = report.input_tokens.total
    below: dict[int | None, list[int]] = {}
    for place, edge in enumerate(edges):
        below.setdefault(edge.parent, []).append(place)
    rows: list[Bar] = []
    stack = [(place, 0) for place in reversed(below.get(None, []))]
    while stack:
        place, indent = stack.pop()
        rows.append(_prefix_bar(edges[place], indent, widest, total))
        stack += [(child, indent + 1) for child in reversed(below.get(place, []))]
    return rows


def _prefix_bar(edge: PrefixShared, indent: int, widest: int, total: int | None) -> Bar:
    return Bar(
        label=f"{edge.begins_at:,} – {edge.tokens:,}",
        share=edge.tokens_saved / widest,
        indent=indent,
        cells=(
            f"{edge.requests:,}",
            tokens_short(edge.tokens_saved),
            percent(edge.tokens_saved / total if total else None),
        ),
    )
