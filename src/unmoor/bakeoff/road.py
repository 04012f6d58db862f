"""The run of a bake-off: which block comes next, and everything that is kept of it. It resumes and repeats nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unmoor.bakeoff import ledger
from unmoor.bakeoff.block import BlockPlan, Entrant, Stopped, measure_block, owed_of
from unmoor.bakeoff.ledger import Contender
from unmoor.bakeoff.machine import describe_machine, host_identity
from unmoor.bakeoff.order import EXTRA, extra_repeats, screen_repeats, there_and_back
from unmoor.bakeoff.result import DEFAULTS, BakeoffResult, Skipped, Trial
from unmoor.bakeoff.settings_rule import combined, screen, shape_of
from unmoor.bakeoff.summary import summarise
from unmoor.bakeoff.tuned import Tuned, tuned_engines
from unmoor.core.errors import EngineDiedError, RunError, UnmoorError, UsageError
from unmoor.core.plan import Plan
from unmoor.core.plural import plural
from unmoor.core.traffic import Workload
from unmoor.measure.run_store import RunIdentity, RunStore
from unmoor.traffic.shape import profile

Say = Callable[[str], None]

_DEATHS = 2
"""Under so many loads of one block an engine must have died before its setting is to blame, and counts as refused."""


@dataclass(frozen=True)
class Order:
    """What is to be measured: a plan with its text, its traffic, and the engines that take part."""

    plan: Plan
    plan_text: str
    workload: Workload
    entrants: tuple[Entrant, ...]
    skipped: tuple[Skipped, ...]
    version: str
    today: str


@dataclass(frozen=True)
class RoadEnd:
    """How a bake-off ended. `result` holds what is measured so far; None only when nothing could be started.

    `interrupted`: by Ctrl-C. `error`: why the first engine that could not be measured with its defaults was not, or
    that died under the load of a setting.
    """

    result: BakeoffResult
    path: Path
    interrupted: bool
    error: UnmoorError | None


def run_bakeoff(order: Order, *, runs: Path, say: Say) -> RoadEnd:
    """Measures what is still missing of this plan on this machine, and says what all of it amounts to.

    The run's directory is found by plan, traffic and machine under `runs`. Blocks that are whole are not measured
    again; of a block that was cut only the missing requests are sent. An engine that does not start with its defaults
    stops itself, not the others; settings that an engine refuses are recorded as refused. One that dies under a load
    leaves its block unfinished. Ctrl-C ends in good order.

    A directory that takes no more, as on a full disk, ends it with what was measured so far and that error.

    Raises RunError for a directory that cannot be used, and whatever the engines' environments raise.
    """
    if not order.entrants:
        raise UsageError("no engine is left to measure", hint="unmoor engines install NAME brings one")
    machine = describe_machine()
    identity = RunIdentity(
        plan_name=order.plan.name,
        plan_text=order.plan_text,
        traffic_fingerprint=order.workload.fingerprint,
        host=host_identity(machine),
        unmoor_version=order.version,
        started_on=order.today,
    )
    with RunStore.create_or_open(runs, identity=identity) as store:
        road = _Road(order, store, say, beware=[caveat.text for caveat in machine.caveats])
        try:
            contenders = [entrant.contender for entrant in order.entrants]
            ledger.keep_traffic(store, profile(order.workload), order.workload.requests)
            ledger.note_start(store, machine, contenders, order.skipped)
            tuned_engines(store, order.plan, order.workload.requests, contenders)  # what is odd here is said at once
            interrupted = road.walk()
        except RunError as error:
            return RoadEnd(result=_so_far(store, error), path=store.path, interrupted=False, error=error)
        return RoadEnd(
            result=summarise(store),
            path=store.path,
            interrupted=interrupted,
            error=next(iter((*road.lost.values(), *road.died.values())), None),
        )


def _so_far(store: RunStore, error: RunError) -> BakeoffResult:
    """What was measured before the directory refused to take more. Raises that error where nothing can be shown."""
    try:
        return summarise(store)
    except RunError:
        raise error from None


class _Road:
    """One walk from wherever the run stands to its end."""

    def __init__(self, order: Order, store: RunStore, say: Say, *, beware: Sequence[str]) -> None:
        self.order = order
        self.store = store
        self.say = say
        self.lost: dict[str, UnmoorError] = {}
        self.died: dict[str, UnmoorError] = {}
        self._beware = beware
        self._begun = False

    def walk(self) -> bool:
        """Whether Ctrl-C ended it before it was done."""
        try:
            self._screen()
            self._extra()
            self._combined()
        except (Stopped, KeyboardInterrupt):
            self.say("interrupted: what was measured stays, and the same command resumes")
            return True
        whole = not self.lost and not self.died
        if whole:
            ledger.note_finished(self.store)
        if whole and not self._begun:
            self.say("everything was measured before; nothing was run")
        return False

    def _screen(self) -> None:
        for entrant in self.order.entrants:
            self._name_trials(entrant)
        self._run(self.order.entrants, screen_repeats(self.order.plan.bakeoff.blocks), "screen")

    def _extra(self) -> None:
        for repeat in extra_repeats(self.order.plan.bakeoff.blocks):
            screened = [(entrant, self._tuned(entrant).screened(repeat)) for entrant in self._standing()]
            silent = [entrant for entrant, tuned in screened if tuned.against_defaults and not tuned.effect_shown]
            names = ", ".join(entrant.contender.title for entrant in silent)
            self._run(
                silent, range(repeat, repeat + 1), "repeat", why=f"no effect shown yet for {names}: one more repeat"
            )

    def _combined(self) -> None:
        blocks = self.order.plan.bakeoff.blocks
        for entrant in self._standing():
            screened = self._tuned(entrant).screened(EXTRA * blocks)
            last = combined(screened.trials, screened.standing.helped) if screened.standing else None
            if last is None:
                continue
            if last.name not in {trial.name for trial in ledger.trials_of(self.store.events(), entrant.contender)}:
                ledger.note_trials(self.store, entrant.contender, [last])
                self.say(f"more than one knob helped {entrant.contender.title}: trying {last.name}")
            measured = max(block.repeat for block in screened.blocks[DEFAULTS]) + 1
            self._run_trials([(entrant, last)], range(measured), "combination")

    def _name_trials(self, entrant: Entrant) -> None:
        if ledger.trials_of(self.store.events(), entrant.contender):
            return
        plan = self.order.plan
        shape = shape_of(profile(self.order.workload), plan.slo)
        trials = screen(entrant.engine, entrant.pinned, shape, at_least=plan.bakeoff.settings)
        ledger.note_trials(self.store, entrant.contender, trials)

    def _run(self, entrants: Sequence[Entrant], repeats: range, stage: str, *, why: str = "") -> None:
        screened = [
            (entrant, trial)
            for entrant in entrants
            for trial in ledger.trials_of(self.store.events(), entrant.contender)
            if len(trial.knobs) <= 1
        ]
        self._run_trials(screened, repeats, stage, why=why)

    def _run_trials(
        self, trials: Sequence[tuple[Entrant, Trial]], repeats: range, stage: str, *, why: str = ""
    ) -> None:
        blocks = [self._block(entrant, trial, repeat) for (entrant, trial), repeat in there_and_back(trials, repeats)]
        for number, block in enumerate(blocks, 1):
            if not self._owes(block):
                continue
            self._begin()
            if why:
                self.say(why)
                why = ""
            self._measure(block, f"{stage} {number}/{len(blocks)}")

    def _begin(self) -> None:
        """Says how much there is to do, and of the machine what must be said, once and only where something is run."""
        if self._begun:
            return
        self._begun = True
        blocks, schedule_s = shortest_run(self.order)
        begun = len(self.store.blocks())
        before = f"; {plural(begun, 'block')} begun before, and nothing whole is repeated" if begun else ""
        self.say(
            f"{self.order.plan.name}: at least {plural(blocks, 'block')} with a start of an engine each, and "
            f"{schedule_s:.0f} s of traffic in all{before}"
        )
        for text in self._beware:
            self.say(f"beware: {text}")

    def _owes(self, block: BlockPlan) -> bool:
        barred = block.name in self.died or self._barred(block.entrant.contender, block.trial)
        return not barred and bool(owed_of(block, self.store))

    def _barred(self, contender: Contender, trial: Trial) -> bool:
        refused = ledger.failed_of(self.store.events(), contender)
        return contender.engine in self.lost or trial.name in refused

    def _block(self, entrant: Entrant, trial: Trial, repeat: int) -> BlockPlan:
        return BlockPlan(
            entrant=entrant,
            trial=trial,
            repeat=repeat,
            requests=self.order.workload.requests,
            slo=self.order.plan.slo,
            seed=self.order.plan.bakeoff.seed,
        )

    def _measure(self, block: BlockPlan, place: str) -> None:
        contender, trial = block.entrant.contender, block.trial
        before = ledger.deaths(self.store.events(), block.name)
        try:
            measure_block(block, self.store, lambda text: self.say(f"[{place}] {text}"))
        except EngineDiedError as error:
            reason = " ".join(part for part in (error.message, error.seen) if part)
            deaths = ledger.deaths(self.store.events(), block.name)
            if trial.name != DEFAULTS and 0 < deaths < _DEATHS and deaths > before:
                self.say(f"[{place}] {trial.name}: {reason}; what is missing is sent when this command is given again")
                self.died[block.name] = error
            elif trial.name == DEFAULTS:
                self.say(f"[{place}] {reason}")
                self.lost[contender.engine] = error
            else:
                self.say(f"[{place}] {trial.name}: refused: {reason}")
                ledger.note_failed(self.store, contender, trial.name, reason)

    def _standing(self) -> list[Entrant]:
        return [e for e in self.order.entrants if e.contender.engine not in self.lost]

    def _tuned(self, entrant: Entrant) -> Tuned:
        requests = self.order.workload.requests
        return tuned_engines(self.store, self.order.plan, requests, [entrant.contender])[0]


def shortest_run(order: Order) -> tuple[int, float]:
    """How many blocks the screen has, and how many seconds their schedules alone take; starts come on top."""
    blocks = sum(max(3, order.plan.bakeoff.settings) for _ in order.entrants) * order.plan.bakeoff.blocks
    return blocks, blocks * order.workload.duration_s
