"""The check of a move from the engine that serves to each other candidate of the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unmoor.engines.surface.surface import Surface
from unmoor.leave.check import check_move
from unmoor.leave.exit_plan.exit_plan import Move, Side
from unmoor.leave.gather import Brought, case_of
from unmoor.leave.uses import Uses

NOTHING_TO_CHECK = (
    "no request's body is recorded, and none of the model's folder, adapters, schemas, a start file and dashboards "
    "is there"
)


def moves(
    surface: Surface | None,
    others: Sequence[tuple[Side, Surface | None]],
    uses: Uses,
    brought: Brought,
    *,
    say: Callable[[str], None],
) -> tuple[Move, ...]:
    """One move for each other candidate; without a surface on both sides, or anything to check, why there is none.

    Raises UserError for what was brought and cannot be read.
    """
    nothing = not uses.bodies and brought == Brought()
    found = []
    for side, other in others:
        why_not = ""
        if surface is None or other is None:
            why_not = "no surface is known of one of the two engines"
        elif nothing:
            why_not = NOTHING_TO_CHECK
        if why_not or surface is None or other is None:
            found.append(Move(engine=side.engine, version=side.version, why_not=why_not))
            continue
        say(f"checking a move to {side.name}")
        report = check_move(case_of(surface, other, uses, brought, say=say))
        found.append(Move(engine=side.engine, version=side.version, report=report))
    return tuple(found)
