"""Seeds: whether they repeat an answer, and whether an answer depends on what else runs."""

from __future__ import annotations

from collections.abc import Iterator

from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind, threads
from unmoor.leave.sides import said, sides
from unmoor.leave.uses import ABSENT

SEED = Kind(
    id="UM118",
    name="seed",
    title="Seeds that have no effect, or another one",
    bites="A seed repeats an answer only on the same engine, and on some only with a flag. Even at temperature 0 "
    "answers may change with what else runs, unless the engine is told to keep them the same.",
    look="Requests that set a seed while tokens are drawn are counted; both engines' surfaces say what becomes of it.",
    mend="Start the target with its flag for it; demand a low rate of differing answers instead of equality.",
    threads=threads("sgl-project/sglang#5377", "sgl-project/sglang#15481", "sgl-project/sglang#15746"),
)


def _look(case: Case) -> Iterator[Hit]:
    yield from _seeds(case)
    yield from _deterministic(case)


def tells_flag(case: Case) -> bool:
    """Whether it is told here that seeds need a flag of the target."""
    return any(found.finding.needs for found in _seeds(case))


def _seeds(case: Case) -> Iterator[Hit]:
    rows = case.uses.pair("seed while drawing")
    if not rows or (both := sides(case, "seed", "seeds")) is None:
        return
    here, there = both.here.value, both.there.value
    features = sorted({use.feature for use in case.uses.of("seed") if use.value not in {ABSENT, None}})
    if here == "ignored" and there == "ignored":
        return
    if there == "ignored":
        yield hit(
            SEED,
            "lost",
            "warning",
            features=features,
            rows=rows,
            seen=f"{both.target.title} disregards seeds{said(both.there)}: answers do not repeat.",
            fix="Where answers must repeat, ask for temperature 0, and compare what comes.",
            sources=both.sources,
        )
    elif flag := both.flag_needed:
        yield hit(
            SEED,
            "translated",
            "warning",
            features=features,
            rows=rows,
            seen=f"{both.target.title} disregards seeds without {flag}: answers do not repeat.",
            fix=f"Start {both.target.title} with {flag}. The same seed draws other tokens than on {both.source.title}.",
            sources=both.sources,
            needs=(flag,),
        )
    elif case.source.engine != case.target.engine:
        yield hit(
            SEED,
            "same",
            "note",
            features=features,
            rows=rows,
            seen=f"{both.target.title} repeats an answer for the same seed, but draws other tokens than "
            f"{both.source.title}: answers kept from before are not met again.",
            fix="Make what was kept for comparison anew.",
            sources=both.sources,
        )


def _deterministic(case: Case) -> Iterator[Hit]:
    """The source is started so that answers do not depend on what else runs."""
    if case.flags is None or "deterministic" not in case.flags.concepts:
        return
    both = sides(case, "batch_invariant", "answers that do not depend on what else runs")
    if both is None or both.there.value == "yes":
        return
    flag = both.flag_needed
    yield hit(
        SEED,
        "translated" if flag else "lost",
        "warning",
        features=["flag deterministic"],
        seen=f"The start asks for answers that do not depend on what else runs; {both.target.title} "
        + (f"gives them with {flag}." if flag else "does not give them."),
        fix=f"Start {both.target.title} with {flag}." if flag else "Bound the rate at which answers differ instead.",
        sources=both.sources,
        needs=(flag,),
    )


CHECK = Check(kinds=(SEED,), look=_look)
