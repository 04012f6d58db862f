"""What can be predicted of one candidate on hardware that is not here, and what may honestly be said of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from unmoor.choose.prediction.arrivals import first_or_again, spread_ticks, ticks_coarsely
from unmoor.choose.prediction.capacity import deal, fast_end, highest_rate, meets_at, slow_end
from unmoor.choose.prediction.coverage import LIVE_DEVICES
from unmoor.choose.prediction.figures import Answer, Question, Search, evidence_of, is_steady
from unmoor.choose.prediction.kernel_tables import NoTable, StepTable, TableFinder, TableOrigin, find_table
from unmoor.choose.prediction.live_tables import INSTALL
from unmoor.choose.prediction.published_error import shipped_error
from unmoor.core.evidence import Caveat, Figure
from unmoor.core.hardware import TENSOR_PARALLEL_SIZES, Layout, layouts
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
    asked = [
        (layout, tables(model.name, model.weights, hardware.device, engine.tables_name or "", layout.tp))
        for layout in layouts(hardware.count)
    ]
    found = [(layout, table) for layout, table in asked if not isinstance(table, NoTable)]
    missing = [(layout, table) for layout, table in asked if isinstance(table, NoTable)]
    if not found:
        return _no_table(model, hardware, engine, missing)
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
        rules_version=engine.known_version,
        content_known=workload.overlap_block_tokens is not None,
        band=error.band(hardware.device, measured),
        bias=error.bias(hardware.device, measured),
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
    caveats += (*_sizes_left_out(engine, missing), *_of_alias(model, origin))
    caveats += (_COARSE_CLOCK,) if coarse_clock else ()
    return Prediction(figures=figures, caveats=caveats, layout=None if best.high_rps == 0 else best.layout, fits=True)


def _nothing(code: str, text: str) -> Prediction:
    return Prediction(caveats=(Caveat(code=code, text=text),))


def _no_table(
    model: ModelPlan, hardware: HardwarePlan, engine: Engine, missing: Sequence[tuple[Layout, NoTable]]
) -> Prediction:
    """No figure at all: because the model fits in no layout, because of its weights, or because nobody has tables."""
    reasons = [reason for _, reason in missing]
    what = f"{model.name} {model.weights} on {hardware.count} × {hardware.device} with {engine.title}"
    if engine.tables_name is None:
        return _nothing("no_kernel_table", f"Nothing is predicted: no kernel tables of {engine.title} exist ({what}).")
    if idle := _smaller_use(hardware.count, reasons):
        return _nothing("no_layout", f"Nothing is predicted of {what}: {idle}")
    if reasons and all(reason.code == "does_not_fit" for reason in reasons):
        text = f"{what} does not fit: {'; '.join(dict.fromkeys(reason.text for reason in reasons))}."
        return Prediction(caveats=(Caveat(code="does_not_fit", text=text),), fits=False)
    # The largest size is the last to run out of room, so its reason is the one that more hardware does not remove.
    reason = next((r for r in reversed(reasons) if r.code != "does_not_fit"), _UNASKED)
    hint = f" {_hint(hardware.device)}" if reason.code == "no_kernel_table" and not reason.extra_asked else ""
    return _nothing(reason.code, f"Nothing is predicted of {what}: {reason.text}.{hint}")


def _smaller_use(count: int, reasons: Sequence[NoTable]) -> str | None:
    """That only leaving devices idle makes room, where no size that divides them all does: not simulated."""
    if count in TENSOR_PARALLEL_SIZES or not all(reason.code == "does_not_fit" for reason in reasons):
        return None
    most = max(layout.tp for layout in layouts(count))
    larger = [size for size in TENSOR_PARALLEL_SIZES if most < size <= count]
    if not larger:
        return None
    return f"TP{most}, the largest size that uses all {count}, leaves no room for a KV pool; try {larger[-1]} of them."


_UNASKED = NoTable(code="no_kernel_table", text="no tensor-parallel size of the tables divides the devices")


def _hint(device: str) -> str:
    if device in LIVE_DEVICES:
        return f"Tables of more models and of {len(LIVE_DEVICES)} kinds of devices come with {INSTALL}."
    return f"No tables of {device} are known of; devices with tables: {', '.join(LIVE_DEVICES)}."


def _sizes_left_out(engine: Engine, missing: Sequence[tuple[Layout, NoTable]]) -> tuple[Caveat, ...]:
    """The layouts that have no figure although others have, each with its reason."""
    said = "; ".join(f"{layout}: {reason.text}" for layout, reason in missing)
    return (Caveat(code="sizes_left_out", text=f"Without figures for {engine.title}: {said}."),) if said else ()


def _of_alias(model: ModelPlan, origin: TableOrigin) -> tuple[Caveat, ...]:
    asked, has = model.name.rpartition("/")[2], origin.model.rpartition("/")[2]
    if asked.lower() == has.lower():
        return ()
    text = (
        f"The kernel times, and any measured runs compared with, are those of {origin.model}: {model.name} is of the "
        "same architecture and size, and is taken to run as fast."
    )
    return (Caveat(code="tables_of_alias", text=text),)


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
    guess = high * question.band.fast / question.band.slow
    low = highest_rate(functools.partial(meets_at, fleet, question.slo, slow), guess, effort.tolerance)
    return Answer(layout=layout, fleet=fleet, low_rps=low, high_rps=high)
