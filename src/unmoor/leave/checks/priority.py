"""Priorities: who goes first is turned round between engines, or is not told at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind, threads
from unmoor.leave.sides import Sides, said, sides
from unmoor.leave.starting.priorities import switched_on
from unmoor.leave.uses import ABSENT, Rows, Use

DIRECTION = Kind(
    id="UM102",
    name="priority-direction",
    title="Priorities that count the other way round, or not at all",
    bites="On one engine the lower number goes first, on another the higher. The same requests then serve the batch "
    "job before the person who waits, and only under load, when it hurts.",
    look="Where requests carry different priorities, the order of both engines is compared.",
    mend="Negate the number, or start the target with the flag that turns its order round; try it once with a full "
    "queue.",
    threads=threads("llm-d/llm-d-router#2264", "ai-dynamo/dynamo PR#6348"),
)

_REVERSED = {"lower_first": "higher_first", "higher_first": "lower_first"}
_FIRST = {"lower_first": "the lower number goes first", "higher_first": "the higher number goes first"}


def tells(case: Case) -> bool:
    """Whether all that changes for priorities is told here: fields and options need not be told of again."""
    return any(True for _ in _look(case))


def _look(case: Case) -> Iterator[Hit]:
    uses = {use: rows for use, rows in case.uses.of("priority").items() if use.value not in {ABSENT, None}}
    if not _order(case, uses):
        return
    both = sides(case, "priority_order", "priorities")
    if both is None:
        return
    here, there = _here(case, both), both.there.value
    rows = case.uses.rows("priority")
    features = [*sorted({use.feature for use in uses}), *_options(case)]
    if here == there:
        return
    if there == "none":
        yield hit(
            DIRECTION,
            "lost",
            "warning",
            features=features,
            rows=rows,
            seen=f"{both.target.title} has no priorities{said(both.there)}: these requests wait like all others.",
            fix="Keep batch work out of the way in front of the engine: a queue or replicas of its own.",
            sources=both.sources,
        )
    elif here == "none":
        yield hit(
            DIRECTION,
            "translated",
            "warning",
            features=features,
            rows=rows,
            seen=f"{both.source.title} has no priorities today; on {both.target.title} {_FIRST[str(there)]}.",
            fix="Leave priority out to keep today's order.",
            sources=both.sources,
        )
    else:
        yield hit(
            DIRECTION,
            "translated",
            "error",
            features=features,
            rows=rows,
            seen=f"Today {_FIRST[str(here)]}, on {both.target.title} {_FIRST[str(there)]}: what goes first today goes "
            "last there.",
            fix=_fix(both, _switch(case)),
            sources=both.sources,
            needs=(_switch(case), both.there.flag),
        )


def _order(case: Case, uses: Mapping[Use, Rows]) -> bool:
    """Whether the requests' priorities make an order: with one for all of them nobody goes first."""
    return len({use.value for use in uses}) > 1 or 0 < len(case.uses.rows("priority")) < case.uses.requests


def _here(case: Case, both: Sides) -> object:
    """The source's order, with the flag that turns it round where its start has it."""
    turned = case.flags is not None and "priority_order" in case.flags.concepts
    return _REVERSED.get(str(both.here.value), both.here.value) if turned else both.here.value


def _options(case: Case) -> list[str]:
    """The options of the source's start that are about priorities."""
    spelled = case.flags.spelled if case.flags is not None else {}
    given = case.flags.concepts if case.flags is not None else {}
    return [
        f"flag {name}"
        for concept, name in spelled.items()
        if concept == "priority_order" or switched_on(concept, given[concept], name, case.source)
    ]


def _switch(case: Case) -> str:
    """What the target has to be started with so that priorities count at all; empty where they do, or do today."""
    there = case.target.traits.get("priority_needs")
    return there.flag if there is not None and there.value == "needs_flag" else ""


def _fix(both: Sides, switch: str) -> str:
    domain = both.target.domains.get("priority")
    bounds = f", within {domain.low:g} and {domain.high:g}" if domain and _narrow(domain.low, domain.high) else ""
    by_flag = f"; or start {both.target.title} with {both.there.flag}" if both.there.flag else ""
    needed = f" Priorities count there only with {switch}." if switch else ""
    return f"Turn the number round{bounds}{by_flag}.{needed}"


def _narrow(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and high - low <= 100  # noqa: PLR2004 - a scale, not a type's bounds


CHECK = Check(kinds=(DIRECTION,), look=_look)
