"""What a log does not hold, and so could not be looked at."""

from __future__ import annotations

from collections.abc import Iterator

from unmoor.leave.case import Case, Check, Hit


def _look(case: Case) -> Iterator[Hit]:
    if case.uses.requests and not case.uses.answers:
        case.skipped("answers: the log holds none, so nothing is said of usage, thinking, ends and errors in them")
    return iter(())


CHECK = Check(kinds=(), look=_look)
