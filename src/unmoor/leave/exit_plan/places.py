"""Where the things are that are kept outside the engine, and whether they are there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unmoor.core.plan import ExitTable
from unmoor.leave.exit_plan.exit_plan import Place, Seen
from unmoor.leave.exit_plan.withheld import withheld

_WORDS = ("evals", "routing", "metering", "orchestration")
OUTSIDE = ("model", "evals", "routing", "metering")
"""What is to be kept outside the runtime, so that the runtime can be left."""

_TITLES = {
    "model": "weights",
    "evals": "evals",
    "routing": "routing",
    "metering": "metering",
    "orchestration": "orchestration",
    "start": "start of the engine",
    "adapters": "adapters",
    "schemas": "schemas",
    "dashboards": "dashboards",
}
_LOOKS_LIKE_A_PATH = ("./", "../", "/", "~", "$")


def title_of(key: str) -> str:
    """A key of `[exit]` in words."""
    return _TITLES[key]


def places(table: ExitTable, resolve: Callable[[str, str], Path]) -> tuple[Place, ...]:
    """Every place that the plan can record, in the order of importance; `resolve` makes a path of its text and key.

    Secrets in them are `withheld`.
    """
    keys = (*OUTSIDE, "orchestration", "start", "adapters", "schemas")
    found = [_place(key, getattr(table, key), resolve) for key in keys]
    dashboards = [_place("dashboards", path, resolve) for path in table.dashboards]
    return (*found, *(dashboards or [_place("dashboards", None, resolve)]))


def _place(key: str, written: str | None, resolve: Callable[[str, str], Path]) -> Place:
    where = None if written is None else withheld(written)
    return Place(what=key, where=where, seen=_seen(key, written, resolve))


def _seen(key: str, written: str | None, resolve: Callable[[str, str], Path]) -> Seen:
    """Words and addresses are not looked at; a text that begins like a path, or is one here, is."""
    if written is None:
        return "not recorded"
    is_path = key not in _WORDS or written.startswith(_LOOKS_LIKE_A_PATH)
    if not is_path and ("://" in written or "$" in written):
        return "not looked at"
    if _exists(resolve(written, key)):
        return "there"
    return "missing" if is_path else "not looked at"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name too long, or a folder that may not be entered
        return False
