"""An engine's last words turned into ours: rules that each engine's file lists, tried in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from unmoor.engines.contract import Diagnosis

SEEN_CHARACTERS = 300


class Rule(NamedTuple):
    """A pattern within one line of the log, what it means, and what to do."""

    pattern: str
    message: str
    hint: str


def diagnose(log_tail: str, rules: Sequence[Rule]) -> Diagnosis | None:
    """What the first rule with a matching line says, with the last such line; None when no rule knows a line."""
    lines = log_tail.splitlines()
    for rule in rules:
        line = next((line for line in reversed(lines) if re.search(rule.pattern, line)), None)
        if line is not None:
            return Diagnosis(message=rule.message, seen=line.strip()[:SEEN_CHARACTERS], hint=rule.hint)
    return None


MEMORY_HINT = "free memory, or give less: a smaller context, a smaller KV cache, a lower max_running"
PORT_HINT = "another server listens there; choose another port, or none: a free one is found"
OPTION_HINT = "the installed version does not know that option: compare `unmoor engines` with what the plan sets"
"""Hints that say the same for every engine."""
