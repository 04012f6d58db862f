"""What a plan must have for a bake-off beyond being a plan, checked before anything is made or started. Pure."""

from __future__ import annotations

from itertools import islice

from unmoor.choose.facts import load_facts
from unmoor.choose.gates import check_gate_words
from unmoor.core.errors import PlanError, UsageError
from unmoor.core.plan import Plan, Setting
from unmoor.core.plan_text import line_of
from unmoor.engines.contract import Engine
from unmoor.engines.knobs import refuse_unknown
from unmoor.engines.registry import engine

_HEAD = "[[candidates]]"


def check_names(plan: Plan, text: str, *, where: str) -> None:
    """Nothing, for a plan whose engines, knobs with their types, and gate words are known.

    Raises UsageError for an unknown engine and PlanError for the rest, each at FILE:LINE with the nearest known word.
    """
    for place, candidate in enumerate(plan.candidates):
        starts = _candidate_line(text, place)
        adapter = engine(candidate.engine, where=f"{where}:{_line_in(text, starts, 'engine')}")
        for key, value in candidate.settings.items():
            _check_setting(adapter, key, value, where=f"{where}:{_line_in(text, starts, key)}")
    engine(plan.default_engine, where=f"{where}:{line_of(text, 'default_engine')}")
    check_gate_words(plan.gates, load_facts(), where=lambda word: f"{where}:{_gate_line(text, word)}")


def check_left_out(plan: Plan, text: str, requests: int, *, where: str) -> None:
    """Nothing, where requests remain once the first of each block are left out. Raises PlanError at its line."""
    left_out = plan.bakeoff.warmup_requests
    if left_out >= requests:
        raise PlanError(
            "no request is left to measure: all of the traffic would be warm-up",
            where=f"{where}:{line_of(text, 'bakeoff', 'warmup_requests')}",
            seen=f"warmup_requests = {left_out}, of {requests} in the traffic",
            expected=f"fewer than {requests}",
            hint="lower bakeoff.warmup_requests, or take more traffic",
        )


def _check_setting(adapter: Engine, key: str, value: Setting, *, where: str) -> None:
    try:
        refuse_unknown(adapter.title, adapter.knobs, {key: value})
    except UsageError as error:
        raise PlanError(error.message, where=where, seen=error.seen, expected=error.expected, hint=error.hint) from None


def _candidate_line(text: str, place: int) -> int:
    """How many lines stand before the candidate at `place`, from 0; 0 where they are not tables of their own."""
    heads = (n for n, line in enumerate(text.splitlines()) if line.split("#")[0].replace(" ", "").strip() == _HEAD)
    return next(islice(heads, place, None), 0)


def _line_in(text: str, before: int, key: str) -> int:
    """The line, from 1, of the first key of that name after so many lines."""
    return before + line_of("\n".join(text.splitlines()[before:]), key)


def _gate_line(text: str, word: str) -> int:
    """The line, from 1, that quotes the word at or after the gates' table; the table's where none does."""
    lines, table = text.splitlines(), line_of(text, "gates")
    quoted = (n for n, line in enumerate(lines, 1) if n >= table and (f'"{word}"' in line or f"'{word}'" in line))
    return next(quoted, table)
