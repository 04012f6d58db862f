"""What can be predicted of one candidate on hardware that is not here, and what may honestly be said of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal

import msgspec

from unmoor.choose.prediction.arrivals import first_or_again, spread_ticks, ticks_coarsely
from unmoor.choose.prediction.capacity import deal, fast_end, highest_rate, meets_at, slow_end
from unmoor.choose.prediction.figures import Answer, Question, Search, evidence_of, is_steady
from unmoor.choose.prediction.kernel_tables import StepTable, TableFinder, find_table
from unmoor.choose.prediction.live_tables import INSTALL
from unmoor.choose.prediction.published_error import shipped_error
from unmoor.core.evidence import Caveat, Figure
from unmoor.core.hardware import Layout, layouts
from unmoor.core.plan import HardwarePlan, ModelPlan
from unmoor.core.slo import Slo
from unmoor.core.traffic import Workload
from unmoor.engines.contract import Engine, Settings

Effort = Literal["coarse", "full"]
_EFFORT = {
    "coarse": Search(requests=1500, most_requests=6000, tolerance=0.05),
    "full": Search(requests=6000, most_requests=48000, tolerance=0.01),
}
_ROUGH = 0.15
_COARSE_CLOCK = Caveat(
    code="arrivals_spread",
    text="Most requests share an arrival time with others, since the source's clock is coarse: for the prediction "
    "those of one tick are spread evenly until the next, so that bursts within a tick are not seen.",
)


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What is predicted of one candidate; no figures and a caveat with the reason where nothing can be.

    `layout` is the layout with the highest predicted rate at the SLO (by the middle of its range); None where there
    is no figure, or no layout meets the SLO at any rate. `fits` is whether the model leaves room for a KV pool in some
    layout of the plan's devices: False where it is known to leave none in any, None where nobody knows.
    """

    figures: tuple[Figure, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    layout: Layout | None = None
    fits: bool | None = None


def predict_candidate(
    workload: Workload,
    slo: Slo,
    model: ModelPlan,
    hardware: HardwarePlan,
    *,
    engine: Engine,
    version: str | None,
    settings: Settings,
    effort: Effort,
    say: Callable[[str], None],
    tables: TableFinder = find_table,
) -> Prediction:
    """The prediction for `engine` at `version` (None: its known version) under `settings` on this traffic.

    The traffic is replayed with its own arrivals and prefixes, drawn together or apart in time, and repeated where it
    is too short. "coarse" takes up to 6,000 requests and finds rates within 5 %, "full" up to 48,000 and within 1 %.
    `tables` finds iteration times: those that ship, or `live_tables.live_tables` for any other model.
    """
    if len(workload.requests) < 2 or workload.duration_s <= 0:  # noqa: PLR2004 - two arrivals make a rate
        return _nothing(
            "no_arrivals", "The traffic has no two arrivals apart in time, so that it has no rate to scale."
        )
    found = [
        (layout, table)
        for layout in layouts(hardware.count)
        if (table := tables(model.name, model.weights, hardware.device, engine.tables_name or "", layout.tp))
    ]
    if not found:
        return _no_table(model, hardware, engine)
    coarse_clock = ticks_coarsely(workload.requests)
    requests = spread_ticks(workload.requests) if coarse_clock else workload.requests
    error, origin = shipped_error(), found[0][1].origin
    measured = origin.tables_name if origin.model == error.model else ""
    question = Question(
        requests=requests,
        own_rps=(len(requests) - 1) / (requests[-1].arrival_s - requests[0].arrival_s),
        slo=slo,
        scheduler=engine.scheduler(settings),
        device=hardware.device,
        title=engine.title,
        version=version or engine.known_version,
        band=error.band(hardware.device, measured),
        measured_rows=error.rows_for(hardware.device, measured),
        error=error,
        effort=_EFFORT[effort],
    )
    answers = []
    for layout, table in found:
        say(f"{question.title}: simulating {layout} on {question.device}")
        answers.append(_answer(question, layout, table))
    best = max(answers, key=lambda answer: (answer.order, answer.layout.tp))
    figures, caveats = evidence_of(question, answers, best)
    caveats += (_COARSE_CLOCK,) if coarse_clock else ()
    return Prediction(figures=figures, caveats=caveats, layout=best.layout if best.high_rps else None, fits=True)


def _nothing(code: str, text: str) -> Prediction:
    return Prediction(caveats=(Caveat(code=code, text=text),))


def _no_table(model: ModelPlan, hardware: HardwarePlan, engine: Engine) -> Prediction:
    what = f"{model.name} {model.weights} on {hardware.count} × {hardware.device} with {engine.title}"
    text = (
        f"Nothing is predicted: no kernel table for {what} is at hand, or the model leaves no room for a KV pool. "
        f"Tables of more models and NVIDIA devices come with {INSTALL}."
    )
    return _nothing("no_kernel_table", text)


def _answer(question: Question, layout: Layout, table: StepTable) -> Answer:
    """One layout's range, on enough requests for a steady state at the high end, or as many as the effort allows."""
    effort, fast, slow = question.effort, fast_end(question.band), slow_end(question.band)
    count, near = effort.requests, question.own_rps
    while True:
        requests = first_or_again(question.requests, count)
        fleet = deal(requests, layout.replicas, table, question.scheduler)
        meets = functools.cache(functools.partial(meets_at, fleet, question.slo, fast))
        rough = highest_rate(meets, near, _ROUGH)
        if not rough or count >= effort.most_requests or is_steady(fleet, rough, fast):
            break
        count, near = count * 2, rough
    if not rough:
        return Answer(layout=layout, fleet=fleet, low_rps=rough, high_rps=rough)
    high = highest_rate(meets, rough, effort.tolerance) or rough
    guess = high * (1 - question.band) / (1 + question.band)
    low = highest_rate(functools.partial(meets_at, fleet, question.slo, slow), guess, effort.tolerance)
    return Answer(layout=layout, fleet=fleet, low_rps=low, high_rps=high)
