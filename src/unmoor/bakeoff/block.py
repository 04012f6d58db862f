"""One block: an engine started with one trial's settings, warmed, sent the traffic, and stopped."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unmoor.bakeoff.ledger import Contender, block_name, missing, note_death, note_other_work, whole_blocks
from unmoor.bakeoff.other_work import OtherWork
from unmoor.bakeoff.result import Trial
from unmoor.core.errors import EngineDiedError
from unmoor.core.plan import Setting
from unmoor.core.plural import plural
from unmoor.core.record import Outcome, Record
from unmoor.core.slo import Slo
from unmoor.core.traffic import Request
from unmoor.engines.contract import Engine, LaunchSpec
from unmoor.launch.process import RunningEngine, free_port, launch
from unmoor.measure.client.load import ReplayReport, Target
from unmoor.measure.client.replay import replay
from unmoor.measure.prompts import PROBE_TOKENS, ask_once, foreign, overhead_of, planned_requests
from unmoor.measure.run_store import RunStore

READY_S = 600.0
REQUEST_S = 180.0
_CONTEXT_STEP = 256
_DYING_S = 1.5  # a server may outlive the engine behind it by so much
_LOOK_AGAIN_S = 0.05
_CONTEXT_SPARE = 128  # for the chat template and the warm-up's own lengths

Say = Callable[[str], None]


class Stopped(Exception):  # noqa: N818 - it is no error: the user pressed Ctrl-C
    """The load was stopped before the block's end."""


@dataclass(frozen=True)
class Entrant:
    """An engine that takes part: what is known of it, the interpreter it runs in, its model and what the plan pins."""

    engine: Engine
    contender: Contender
    python: str
    model_dir: str
    pinned: Mapping[str, Setting]


@dataclass(frozen=True)
class BlockPlan:
    """One block that is owed."""

    entrant: Entrant
    trial: Trial
    repeat: int
    requests: Sequence[Request]
    slo: Slo
    seed: int

    @property
    def name(self) -> str:
        """Its name in the store."""
        return block_name(self.entrant.contender, self.trial.name, self.repeat)

    @property
    def salt(self) -> str:
        """What makes its prompts its own: the same for every setting and engine of one repeat, and for no other."""
        return f"{self.seed}/{self.repeat}"


def owed_of(plan: BlockPlan, store: RunStore) -> tuple[int, ...]:
    """The requests of a block that are still to be sent, by index; empty for one that is whole. Raises RunError."""
    whole = plan.name in whole_blocks(store.events())
    return missing(store.records(plan.name), len(plan.requests), whole=whole)


def measure_block(plan: BlockPlan, store: RunStore, say: Say) -> None:
    """Measures what a block still owes; nothing for one that is whole already.

    Every record goes to the store as its request ends. Raises EngineDiedError when the engine does not start, answers
    no warm-up or has ended under the load: then the block is not finished, the death is noted, and what met no engine
    is owed again. Raises Stopped at Ctrl-C.
    """
    owed = owed_of(plan, store)
    if not owed:
        return
    have = len(owed) < len(plan.requests)
    title = f"{plan.entrant.contender.title} {plan.trial.name}, repeat {plan.repeat + 1}"
    say(f"{title}: starting" + (f", {len(owed)} of {len(plan.requests)} requests still missing" if have else ""))
    started_s = time.monotonic()
    log_path = store.log_path(f"{re.sub(r'[^a-z0-9.]+', '-', plan.name.lower())}.log")
    with launch(
        plan.entrant.engine,
        _spec(plan),
        plan.trial.settings,
        log_path=log_path,
        ready_timeout_s=READY_S,
        say=lambda _: None,
    ) as running:
        target = Target(url=running.url, served_name=running.served_name)
        overhead = _warm(target, plan, running)
        ready_s = time.monotonic() - started_s
        store.block_started(plan.name, _details(plan, running, resumed=have, overhead=overhead))
        others = OtherWork(lambda: (process.pid for process in running.children()))
        report = replay(
            target,
            planned_requests(plan.requests, owed, overhead_tokens=overhead, salt=plan.salt, seed=plan.seed),
            sink=lambda record: store.append(plan.name, record),
            timeout_s=REQUEST_S,
            slo=plan.slo,
        )
        note_other_work(store, plan.name, others.share())
        if report.partial:
            raise Stopped
        _outlived(plan, report, running, store)
        store.block_finished(plan.name, report)
    took_s = time.monotonic() - started_s - ready_s
    failed = f", {report.failures} failed" if report.failures else ""
    say(f"{title}: ready in {ready_s:.1f} s, {plural(report.requests, 'request')} in {took_s:.1f} s{failed}")


def _outlived(plan: BlockPlan, report: ReplayReport, running: RunningEngine, store: RunStore) -> None:
    """Nothing, for an engine that outlived its load. Notes the death and raises EngineDiedError for one that did not.

    Where requests failed it is watched a while: an engine's death is seen by its clients first.
    """
    until_s = time.monotonic() + (_DYING_S if report.failures else 0.0)
    while running.alive() and time.monotonic() < until_s:
        time.sleep(_LOOK_AGAIN_S)
    try:
        running.check_alive()
    except EngineDiedError as error:
        note_death(store, plan.name, error.message)
        raise


def context_tokens(requests: Sequence[Request]) -> int:
    """A context that holds the longest request with room for the chat template, in whole steps of 256 tokens."""
    longest = max(request.input_tokens + request.output_tokens for request in requests)
    return -(-(max(longest, PROBE_TOKENS) + _CONTEXT_SPARE) // _CONTEXT_STEP) * _CONTEXT_STEP


def _spec(plan: BlockPlan) -> LaunchSpec:
    return LaunchSpec(
        python=plan.entrant.python,
        model_dir=plan.entrant.model_dir,
        served_name="model",
        host="127.0.0.1",
        port=free_port(),
        threads=len(os.sched_getaffinity(0)),
        context_tokens=context_tokens(plan.requests),
    )


def _details(plan: BlockPlan, running: RunningEngine, *, resumed: bool, overhead: int) -> dict[str, object]:
    return {
        "engine": plan.entrant.contender.engine,
        "version": plan.entrant.contender.version,
        "settings": dict(plan.trial.settings),
        "repeat": plan.repeat,
        "argv": list(running.argv),
        "env": dict(running.env),
        "resumed": resumed,
        "template_tokens": overhead,
    }


def _warm(target: Target, plan: BlockPlan, running: RunningEngine) -> int:
    """The chat template's tokens, learned from a first request that is not of the traffic; a second is as long as one.

    Neither shares a word with the traffic but by chance, so that no cache of prefixes is warm from it. 0 where the
    server does not count.
    """
    salt = f"warm-up/{plan.salt}"
    probe = _ask(target, foreign(PROBE_TOKENS), 0, salt)
    overhead = overhead_of(probe)
    middle = sorted(request.input_tokens for request in plan.requests)[len(plan.requests) // 2]
    record = _ask(target, foreign(middle), overhead, salt)
    running.check_alive()
    for seen in (probe, record):
        if not seen.ok:
            raise EngineDiedError(
                f"{plan.entrant.contender.title} does not answer",
                where=str(running.log_path),
                seen=seen.error or seen.outcome.value,
                expected="an answer to a warm-up request",
                hint="its log says more",
            )
    return overhead


def _ask(target: Target, request: Request, overhead: int, salt: str) -> Record:
    record = ask_once(target, request, overhead_tokens=overhead, salt=salt, timeout_s=REQUEST_S)
    if record is None or record.outcome is Outcome.CANCELLED:
        raise Stopped
    return record
