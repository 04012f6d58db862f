"""Probabilities of tokens: of which distribution they are, how many, and in which shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind, threads
from unmoor.leave.sides import Sides, number, said, sides
from unmoor.leave.uses import Place, Rows

STAGE = Kind(
    id="UM112",
    name="logprobs-stage",
    title="Probabilities of tokens from before, or after, the temperature",
    bites="One engine reports the model's own probabilities, another those after the temperature was applied. Scores, "
    "confidence bounds and training on them shift without an error. How many alternatives it gives, and the shape in "
    "completions, differ as well.",
    look="Requests with logprobs and a temperature other than 1 and 0, or more alternatives than the target gives, or "
    "in completions, are compared with what both engines do.",
    mend="Switch the target to the stage that you rely on where it can; else ask for probabilities at temperature 1.",
    threads=threads("vllm-project/vime#64"),
)

_PLACES: tuple[Place, ...] = ("chat", "completions", "responses")
_COUNTS: tuple[tuple[Place, str], ...] = (
    ("chat", "top_logprobs"),
    ("completions", "logprobs"),
    ("responses", "top_logprobs"),
)


def _look(case: Case) -> Iterator[Hit]:
    yield from _stage(case)
    yield from _most(case)
    yield from _shape(case)


def _stage(case: Case) -> Iterator[Hit]:
    rows = case.uses.pair("logprobs with a temperature").without(case.uses.pair("greedy"))
    if not rows:
        return
    both = sides(case, "logprobs_stage", "logprobs with a temperature")
    if both is None or not both.differ:
        return
    if both.there.value is None:
        yield _none(both, _places(case), Rows.union(case.uses.rows("logprobs", place) for place in _places(case)))
        return
    after = both.there.value == "after_temperature"
    yield hit(
        STAGE,
        "translated" if both.there.flag else "lost",
        "warning",
        features=[f"{place}.logprobs" for place in _places(case)],
        rows=rows,
        seen=f"{both.target.title} gives probabilities {'after' if after else 'before'} the temperature is applied, "
        f"{both.source.title} {'before' if after else 'after'}.",
        fix=f"Start {both.target.title} with {both.there.flag}."
        if both.there.flag
        else "Ask for probabilities at temperature 1, where both are the same.",
        sources=both.sources,
        needs=(both.there.flag,),
    )


def _none(both: Sides, places: Sequence[Place], rows: Rows) -> Hit:
    return hit(
        STAGE,
        "lost",
        "error",
        features=[f"{place}.logprobs" for place in places],
        rows=rows,
        seen=f"{both.target.title} gives no probabilities of tokens{said(both.there)}.",
        fix="Do without them, or compute them elsewhere.",
        sources=both.sources,
    )


def _places(case: Case) -> list[Place]:
    return [place for place in _PLACES if case.uses.rows("logprobs", place)] or ["chat"]


def _most(case: Case) -> Iterator[Hit]:
    """More alternatives than the target gives."""
    asked = [
        (use, rows, wanted)
        for place, path in _COUNTS
        for use, rows in case.uses.of(path, place).items()
        if (wanted := number(use.value))
    ]
    if not asked or (both := sides(case, "logprobs_most", "how many alternatives of a token are given")) is None:
        return
    most, own = number(both.there.value), number(both.here.value)
    if most is None or most == 0 or (own is not None and own <= most):
        return
    over = [(use, rows) for use, rows, wanted in asked if wanted > most]
    if over:
        yield hit(
            STAGE,
            "translated" if both.there.flag else "lost",
            "error",
            features=sorted({use.feature for use, _ in over}),
            rows=Rows.union(rows for _, rows in over),
            seen=f"More than {most} alternatives of a token: {both.there.says or 'refused.'}",
            fix=f"Start {both.target.title} with a higher {both.there.flag}, or ask for fewer."
            if both.there.flag
            else "Ask for fewer.",
            sources=both.sources,
        )


def _shape(case: Case) -> Iterator[Hit]:
    asked = [
        (use, rows) for use, rows in case.uses.of("logprobs", "completions").items() if number(use.value) is not None
    ]
    if not asked or (both := sides(case, "completions_logprobs", "the shape of logprobs in completions")) is None:
        return
    if both.differ:
        yield hit(
            STAGE,
            "translated",
            "error",
            features=["completions.logprobs"],
            rows=Rows.union(rows for _, rows in asked),
            seen=f"In completions {both.target.title} gives probabilities in the shape of {both.there.value}: "
            + (
                "logprobs.content, a list of objects, in place of lists of tokens and numbers."
                if both.there.value == "chat"
                else "lists of tokens and numbers in place of logprobs.content."
            ),
            fix="Read both shapes in the client.",
            sources=both.sources,
        )


CHECK = Check(kinds=(STAGE,), look=_look)
