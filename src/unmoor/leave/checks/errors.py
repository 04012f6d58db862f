"""Errors that clients have met: their status and their body on the other side."""

from __future__ import annotations

from collections.abc import Iterator

from unmoor.engines.surface.concepts import ERRORS
from unmoor.engines.surface.surface import Answer
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind
from unmoor.leave.sides import sides

STATUS = Kind(
    id="UM153",
    name="error-status",
    title="Errors with another status or another body",
    bites="Clients retry, fall back or give up by status, and read the error's message from a place in the body. "
    "Engines answer the same failure with other statuses, put the message elsewhere, or refuse where others answer.",
    look="Recorded errors are told apart by their status and the server's words, and looked up on both sides.",
    mend="Let clients decide by what a status means on the new engine, and read both shapes of the body.",
)

_ERROR = 400
_WHERE = {"nested": "error.message", "flat": "message", "text": "error"}


def _look(case: Case) -> Iterator[Hit]:
    if case.stays:
        return
    yield from _statuses(case)
    yield from _shapes(case)


def _statuses(case: Case) -> Iterator[Hit]:
    for use, rows in case.uses.of("error.case", "answer").items():
        name = str(use.value)
        here, there = case.source.errors.get(name), case.target.errors.get(name)
        if here is None or there is None:
            case.skipped(f"errors after {ERRORS[name]}: what each side answers is not known")
            continue
        if here.status == there.status or 0 < here.status < _ERROR:  # the latter: not the source's own error
            continue
        yield hit(
            STATUS,
            "translated",
            "warning",
            features=["answer.error.status"],
            rows=rows,
            seen=f"After {ERRORS[name]}: {case.source.title} {_answers(here)}, {case.target.title} {_answers(there)}.",
            fix="Look for it in another way: it is no error there."
            if 0 < there.status < _ERROR
            else "Let clients treat the new status as they treat the old one.",
            sources=(case.source.source_of(here), case.target.source_of(there)),
        )


def _answers(answer: Answer) -> str:
    note = f" ({answer.note})" if answer.note else ""
    return f"gives no answer{note}" if answer.status == 0 else f"answers {answer.status}{note}"


def _shapes(case: Case) -> Iterator[Hit]:
    rows = case.uses.rows("error.shape", "answer")
    if not rows or (both := sides(case, "error_shape", "the shape of errors")) is None or not both.differ:
        return
    here, there = str(both.here.value), str(both.there.value)
    yield hit(
        STATUS,
        "translated",
        "warning",
        features=["answer.error.shape"],
        rows=rows,
        seen=f"The message of an error stands in `{_WHERE.get(there, there)}` on {both.target.title}, in "
        f"`{_WHERE.get(here, here)}` today.",
        fix="Read both in clients.",
        sources=both.sources,
    )


CHECK = Check(kinds=(STATUS,), look=_look)
