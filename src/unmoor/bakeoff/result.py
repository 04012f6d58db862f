"""What a bake-off says, as values: `BakeoffResult` is the contract of `unmoor bakeoff --json`.

docs/reference/bakeoff.md describes every key.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from unmoor.core.evidence import Caveat, Figure
from unmoor.core.plan import Setting
from unmoor.core.record import Record
from unmoor.core.traffic import TrafficProfile

DEFAULTS = "defaults"
"""The name of the trial that leaves every knob at the engine's own default."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One settings tried of one engine. `settings` leaves out what stays at its default; `why` is a sentence."""

    engine: str
    name: str
    settings: dict[str, Setting] = {}
    why: str = ""
    knobs: tuple[str, ...] = ()


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One trial measured once, by one start of the engine. Blocks with the same `repeat` had the same prompts.

    `records` are in order of index. `expected` is how many requests the block owes; `resumed` says that it was cut
    and finished by a later start; `caveats` are the load generator's own. `other_work` is the share of the processor
    (0-1) that other programs took meanwhile, the highest of its starts; None where it was not noted.
    """

    trial: str
    repeat: int
    expected: int
    records: tuple[Record, ...]
    resumed: bool = False
    caveats: tuple[Caveat, ...] = ()
    other_work: float | None = None

    @property
    def complete(self) -> bool:
        """Whether every request it owes has its record."""
        return len(self.records) >= self.expected


class Finding(StrEnum):
    """What a comparison of two settings found."""

    BETTER = "better"
    WORSE = "worse"
    TIE = "tie"
    NO_EFFECT = "no effect shown"
    NOT_COMPARABLE = "not comparable"


class SloFinding(StrEnum):
    """What the requests of a trial show of the SLO."""

    MEETS = "meets"
    NOT_SHOWN = "not shown to meet"
    MISSES = "misses"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """`after` against `before`, request by request.

    `effect` is a ratio after / before for durations (1 is no change) and a difference after - before for shares (0 is
    none), with its 95 % interval; None without a pair. `pairs` stand behind it; a pair with a failure on either side
    is not among them and is counted beside it.
    """

    metric: str
    before: str
    after: str
    effect: float | None
    low: float | None
    high: float | None
    kind: str
    pairs: int
    failed_before: int
    failed_after: int
    margin: float
    finding: Finding


class TrialReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that was measured of one trial. `failed_to_start` holds the engine's own reason where it refused.

    `slo` is None where nothing was measured, and for a plan whose SLO bounds nothing.
    """

    name: str
    settings: dict[str, Setting]
    why: str
    blocks: int
    requests: int
    left_out: int
    failures: int
    slo: SloFinding | None = None
    figures: tuple[Figure, ...] = ()
    against_defaults: tuple[Comparison, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    failed_to_start: str | None = None

    def figure(self, metric: str) -> Figure | None:
        """The figure of that metric; None where it was not measured."""
        return next((figure for figure in self.figures if figure.metric == metric), None)


class EngineReport(msgspec.Struct, frozen=True, kw_only=True):
    """One engine tuned: its trials, the best of them, and whether any effect was shown."""

    engine: str
    title: str
    version: str
    weights: str
    trials: tuple[TrialReport, ...]
    best: str | None
    best_because: str
    effect_shown: bool
    sentence: str
    caveats: tuple[Caveat, ...] = ()

    def trial(self, name: str) -> TrialReport | None:
        """The trial of that name; None where there is none."""
        return next((trial for trial in self.trials if trial.name == name), None)


class Versus(msgspec.Struct, frozen=True, kw_only=True):
    """Two engines, each at its best settings. `comparable` False prints the gap and ranks nothing."""

    before: str
    after: str
    comparable: bool
    reason: str
    comparisons: tuple[Comparison, ...]


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that was not measured, and why."""

    engine: str
    reason: str


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine it was measured on, and how busy it was before the start (load average over a minute)."""

    cpu: str
    cores: int
    memory_bytes: int | None
    system: str
    load_1m: float | None
    caveats: tuple[Caveat, ...] = ()


class BakeoffResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `unmoor bakeoff` and `unmoor report` print."""

    plan: str
    run: str
    made_on: str
    finished: bool
    slo: str
    model: str
    machine: Machine
    traffic: TrafficProfile
    engines: tuple[EngineReport, ...]
    versus: tuple[Versus, ...]
    skipped: tuple[Skipped, ...]
    verdict: str
    method: tuple[str, ...]
    caveats: tuple[Caveat, ...] = ()
