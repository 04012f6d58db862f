"""A stored run as a `BakeoffResult`: the same from the same directory, for ever. It runs nothing and asks no clock."""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.bakeoff import ledger
from unmoor.bakeoff.figures import doubts_of, figures_of
from unmoor.bakeoff.ledger import KeptTraffic
from unmoor.bakeoff.order import EXTRA
from unmoor.bakeoff.other_work import BUSY_SHARE
from unmoor.bakeoff.result import (
    DEFAULTS,
    BakeoffResult,
    Block,
    Comparison,
    EngineReport,
    Finding,
    Trial,
    TrialReport,
)
from unmoor.bakeoff.slo_met import slo_finding
from unmoor.bakeoff.tuned import Tuned, tuned_engines
from unmoor.bakeoff.versus import name_of, verdict_of, versus_of
from unmoor.choose.rank import PRECISION
from unmoor.core.errors import RunError
from unmoor.core.evidence import Caveat
from unmoor.core.plan import Plan
from unmoor.core.plural import plural
from unmoor.measure.run_store import StoredRun

_MEANT = {"slo_attainment": "share within the SLO", "scheduled_e2e_s": "end-to-end time", "scheduled_ttft_s": "TTFT"}


def summarise(stored: StoredRun) -> BakeoffResult:
    """Everything a run says. Raises RunError for a directory that holds no bake-off."""
    identity = stored.identity
    plan = stored.plan()
    kept = ledger.kept_traffic(stored)
    events = stored.events()
    machine = ledger.machine_of(events)
    if machine is None:
        raise RunError("no bake-off was started here", where=str(stored.path), hint="unmoor bakeoff PLAN starts one")
    contenders, skipped = ledger.contenders_of(events)
    tuned = tuned_engines(stored, plan, kept.requests, contenders)
    reports = tuple(_engine(engine, kept) for engine in tuned)
    versus = versus_of(tuned, default_engine=plan.default_engine)
    return BakeoffResult(
        plan=plan.name,
        run=stored.path.name,
        made_on=identity.started_on,
        finished=ledger.finished(ledger.kept_of(stored, len(kept.requests))),
        slo=plan.slo.describe(),
        model=f"{plan.model.name} ({plan.model.weights})",
        machine=machine,
        traffic=kept.profile,
        engines=reports,
        versus=versus,
        skipped=skipped,
        verdict=verdict_of(versus, tuned),
        method=method_of(plan, len(kept.requests)),
        caveats=(*machine.caveats, *(Caveat(code="skipped", text=f"{s.engine}: {s.reason}") for s in skipped)),
    )


def _engine(tuned: Tuned, kept: KeptTraffic) -> EngineReport:
    found = tuned.standing
    contender = tuned.contender
    return EngineReport(
        engine=contender.engine,
        title=contender.title,
        version=contender.version,
        weights=contender.weights,
        trials=tuple(_trial(tuned, trial, kept) for trial in tuned.trials),
        best=found.best if found else None,
        best_because=found.because if found else "nothing was measured",
        effect_shown=tuned.effect_shown,
        sentence=sentence_of(tuned),
        caveats=(Caveat(code=PRECISION, text=f"it computes with {contender.weights} weights"),)
        if contender.weights
        else (),
    )


def _trial(tuned: Tuned, trial: Trial, kept: KeptTraffic) -> TrialReport:
    blocks = tuned.blocks[trial.name]
    left_out = tuned.terms.left_out
    records = [record for block in blocks for record in block.records]
    counted = [record for record in records if record.index >= left_out]
    return TrialReport(
        name=trial.name,
        settings=trial.settings,
        why=trial.why,
        blocks=len(blocks),
        requests=len(counted),
        left_out=len(records) - len(counted),
        failures=sum(not record.ok for record in counted),
        slo=slo_finding(blocks, tuned.terms),
        figures=figures_of(blocks, kept.requests, tuned.terms),
        against_defaults=tuned.against_defaults.get(trial.name, ()),
        caveats=(*doubts_of(blocks, kept.requests, tuned.terms), *_placed(trial, blocks)),
        failed_to_start=tuned.refused.get(trial.name),
    )


def _placed(trial: Trial, blocks: Sequence[Block]) -> tuple[Caveat, ...]:
    if len(trial.knobs) <= 1 or not blocks:
        return ()
    text = "measured after the other settings, not between them: a drift of the machine would weigh on it alone"
    return (Caveat(code="not_interleaved", text=text),)


def sentence_of(tuned: Tuned) -> str:
    """Which settings of the engine are best and by what, or that nothing was measured or shown."""
    found = tuned.standing
    title = name_of(tuned)
    if found is None:
        return f"{title}: nothing was measured."
    if found.best == DEFAULTS:
        if tuned.effect_shown:
            return f"{title}: the defaults stand; {found.because}. Shown: {_effects_shown(tuned)}."
        repeats = len({block.repeat for blocks in tuned.blocks.values() for block in blocks})
        return f"{title}: the defaults stand; no effect was shown in {plural(repeats, 'repeat')}, so none is claimed."
    return f"{title}: best with {found.best}; {found.because}: {_gain(tuned.against_defaults[found.best])}."


def _effects_shown(tuned: Tuned) -> str:
    """What was apart from the defaults though it did not put its setting ahead, or put it behind."""
    return "; ".join(
        f"{name}: {_MEANT[found.metric]} {found.finding.value}"
        for name, against in tuned.against_defaults.items()
        for found in against
        if found.finding in {Finding.BETTER, Finding.WORSE}
    )


def _gain(against: Sequence[Comparison]) -> str:
    """What is apart from the defaults, for better and for worse; what is not apart is no part of the gain."""
    return ", ".join(_apart(found) for found in against if found.finding in {Finding.BETTER, Finding.WORSE})


def _apart(found: Comparison) -> str:
    effect, low, high = (end or 0.0 for end in (found.effect, found.low, found.high))
    if found.kind == "ratio":
        said, ends = f"{_MEANT[found.metric]} {effect:.2f}× as long", f"{low:.2f} to {high:.2f}"
    else:
        said = f"{effect * 100:+.3g} points of requests within the SLO"
        ends = f"{low * 100:.3g} to {high * 100:.3g}"
    return f"{said} (95 % interval {ends}, {plural(found.pairs, 'pair')})"


def method_of(plan: Plan, requests: int) -> tuple[str, ...]:
    """How blocks of so many requests are measured and compared, a sentence each."""
    rules = plan.bakeoff
    blocks = (
        f"Each setting is measured {plural(rules.blocks, 'time')}, by engine starts of its own, in turned order "
        f"(A B C, C B A); while no effect is shown, up to {EXTRA * rules.blocks} times."
    )
    replays = (
        f"Every block replays the same {plural(requests, 'request')} on the same schedule, open loop; in one "
        "repeat all settings get the same prompts, and no prompt is used in two repeats."
    )
    clocks = (
        "Latencies count from when a request was scheduled. A failed request misses the SLO and lies beyond every "
        "quantile; a pair with a failure is counted, and is in no ratio."
    )
    intervals = (
        "Settings are compared request by request; intervals are 95 %, from resampling repeats, then runs of "
        f"neighbouring requests. A difference within {rules.equivalence_margin:.0%}, inside its own interval, seen in "
        "one repeat alone, or not over twice its standard error between repeats is no gain."
    )
    slo = (
        "The SLO is shown to be met where the interval of the share within it begins at "
        f"{plan.slo.quantile * 100:.3g} % or above, and missed where that of one of its bounds ends below. Goodput is "
        "that share of the traffic's own rate."
    )
    others = (
        "While a block's traffic runs, the processor time that neither the engine nor the load generator took is "
        f"counted; above {BUSY_SHARE:.0%} the setting carries a caveat."
    )
    return (blocks, replays, *_left_out(rules.warmup_requests), clocks, intervals, slo, others)


def _left_out(requests: int) -> tuple[str, ...]:
    if not requests:
        return ()
    said = "The first request of each block is" if requests == 1 else f"The first {requests} requests of each block are"
    return (f"{said} sent and left out of every figure.",)
