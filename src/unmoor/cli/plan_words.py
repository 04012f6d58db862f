"""The words of a plan that only what is known of engines, devices and gates can judge, each told with its line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unmoor.core.plan import CandidatePlan, Plan
    from unmoor.engines.contract import Engine


def finder(path: Path, text: str) -> Callable[[str], str]:
    """Turns a word of the plan into its place: the first line that quotes it, or sets it as a key; no comment."""
    lines = [line.partition("#")[0] for line in text.splitlines()]

    def where(word: str) -> str:
        told = re.compile(rf"""["']{re.escape(word)}["']|(^|[{{,.\s]){re.escape(word)}\s*=""")
        line = next((n for n, line in enumerate(lines, 1) if told.search(line)), None)
        return f"{path}:{line}" if line else str(path)

    return where


def check_names(plan: Plan, where: Callable[[str], str]) -> None:
    """Nothing, for a plan whose engines, knobs, device and gates are known words. Raises UserError with the nearest."""
    from unmoor.choose.devices import check_device
    from unmoor.choose.facts import load_facts
    from unmoor.choose.gates import check_gate_words
    from unmoor.engines.registry import engine

    for candidate in plan.candidates:
        _check_settings(engine(candidate.engine, where=where(candidate.engine)), candidate, where)
    engine(plan.default_engine, where=where(plan.default_engine))
    check_device(plan.hardware, where=where)
    check_gate_words(plan.gates, load_facts(), where=where)


def _check_settings(found: Engine, candidate: CandidatePlan, where: Callable[[str], str]) -> None:
    """An unknown knob with its place in the plan, before any traffic is read."""
    from unmoor.core.errors import PlanError, UsageError
    from unmoor.engines.knobs import refuse_unknown

    for name, value in candidate.settings.items():
        try:
            refuse_unknown(found.title, found.knobs, {name: value})
        except UsageError as error:
            raise PlanError(
                error.message, where=where(name), seen=error.seen, expected=error.expected, hint=error.hint
            ) from None
