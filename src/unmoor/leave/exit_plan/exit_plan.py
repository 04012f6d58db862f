"""An exit plan as a value. Encoded as JSON by msgspec it is `unmoor exit-plan --json` (docs/reference/exit-plan.md)."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

from unmoor.core.decision import Cost, GateResult, Verdict
from unmoor.core.evidence import Caveat, EvidenceKind
from unmoor.core.plan import RehearsedMove
from unmoor.engines.surface.surface import Source
from unmoor.leave.checkpoint.checkpoint import Problem
from unmoor.leave.finding import MoveReport

Seen = Literal["there", "missing", "not looked at", "not recorded"]
"""there: it was seen on the day of the page. missing: the plan names it, and it is not on this machine. not looked at:
the plan names it in words or by an address. not recorded: the plan does not say."""

Loads = Literal["native", "fallback", "refused", "unknown", "elsewhere", "not supported"]
"""What an engine does with the weights on a kind of hardware. elsewhere: by a plug-in or a sister project only. not
supported: its own release does not run there, whatever the format."""

Standing = Literal["same", "renamed", "absent", "unknown"]
"""What becomes of a name on another engine."""


class CitedFact(msgspec.Struct, frozen=True, kw_only=True):
    """One dated fact about an engine's project.

    `answer` is that to a question of yes or no; None where the subject is none. `good_until` is the last day on which
    the fact may be relied on.
    """

    subject: str
    text: str
    answer: bool | None
    kind: EvidenceKind
    source: str
    version: str
    as_of: date
    good_until: date
    stale: bool
    recheck: str


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One engine of the plan.

    `version` is the plan's, else the newest that facts know; None where neither says. `surface` is the version of the
    surface that was compared; empty where none is known. `newest` is the newest release that facts know. `gates` are
    the plan's gates that it fails, or that are open.
    """

    engine: str
    title: str
    version: str | None
    surface: str
    facts: tuple[CitedFact, ...]
    newest: str | None = None
    gates: tuple[GateResult, ...] = ()
    caveats: tuple[Caveat, ...] = ()

    @property
    def name(self) -> str:
        """Title and version."""
        return f"{self.title} {self.version}" if self.version else self.title

    def is_named(self, name: str) -> bool:
        """Whether `name`, ENGINE or ENGINE@VERSION, is this side's."""
        return name in {self.engine, f"{self.engine}@{self.version}"}

    def fact(self, subject: str) -> CitedFact | None:
        """The fact on `subject`; None where nothing is known."""
        return next((fact for fact in self.facts if fact.subject == subject), None)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where one thing lives that is kept outside the engine. `where` is as the plan writes it."""

    what: str
    where: str | None
    seen: Seen


class WeightFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the model.

    `sha256` was computed here from its bytes; None where it was not. `recorded` is what a file in the folder says its
    hash is (`recorded_in`), which nobody checked unless both are there.
    """

    name: str
    size_bytes: int
    sha256: str | None = None
    recorded: str | None = None
    recorded_in: str = ""

    @property
    def changed(self) -> bool:
        """Whether its bytes are not those of which the hash was recorded."""
        return self.sha256 is not None and self.recorded is not None and self.sha256 != self.recorded


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """The weights: their format, where it was found, and their files.

    `scheme` is a key of `Surface.checkpoint`; empty where the plan's word is none that is known. `said_in` is "plan"
    for the plan's word alone, when no folder was read.
    """

    scheme: str
    said_in: str
    container: str = ""
    architecture: str = ""
    dtype: str = ""
    kv_cache: str = ""
    weight_bytes: int = 0
    files: tuple[WeightFile, ...] = ()
    pickles: tuple[str, ...] = ()
    remote_code: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A move to one other candidate, checked on paper; `why_not` says why it was not, where `report` is None."""

    engine: str
    version: str | None
    report: MoveReport | None = None
    why_not: str = ""


class There(msgspec.Struct, frozen=True, kw_only=True):
    """What a name of the engine that serves is called on another."""

    engine: str
    version: str | None
    standing: Standing
    names: tuple[str, ...] = ()
    note: str = ""
    source: Source | None = None


class EngineOnly(msgspec.Struct, frozen=True, kw_only=True):
    """One name that belongs to the engine that serves, and its replacement on each other one.

    `kind` is "setting" (one that the plan pins), "metric" or "route"; `concept` is its meaning in a word, `meaning` in
    some.
    """

    kind: Literal["setting", "metric", "route"]
    concept: str
    meaning: str
    names: tuple[str, ...]
    there: tuple[There, ...]
    source: Source | None = None


class OnEngine(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine does with the weights on one kind of hardware; `ways` are formats that are native there."""

    engine: str
    version: str | None
    loads: Loads
    notes: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()


class HardwareKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of hardware (a key of `concepts.HARDWARE`), and what each engine of the plan does there."""

    hardware: str
    title: str
    vendor: str
    of_the_plan: bool
    engines: tuple[OnEngine, ...]


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is open. `code` is stable, for machines; `text` is for people."""

    code: str
    text: str


class Expiry(msgspec.Struct, frozen=True, kw_only=True):
    """When one statement of the page may no longer be relied on, and how to look again."""

    what: str
    good_until: date
    stale: bool
    recheck: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a check. `known_by` says who knows that it was done: the plan's word, or what was seen here."""

    asked: str
    done: bool
    said: str
    known_by: Literal["plan", "seen", ""] = ""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One of three checks before a runtime is committed to."""

    when: str
    steps: tuple[Step, ...]


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """Two lines to the owner of third-party risk; `to` is None where the plan does not name one."""

    to: str | None
    lines: tuple[str, str]


class ExitPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document.

    `serves_by` says how it is known which engine serves: "plan" says so, or it is the one that the "decision" picks, or
    the plan's "default" where the decision picks none. `cost` is that of the engine that serves. `moves`, and each list
    by engine, are in the order of `others`.
    """

    plan: str
    made_on: date
    model: str
    weights_word: str
    hardware: str
    traffic: str
    serves: Side
    serves_by: Literal["plan", "decision", "default"]
    others: tuple[Side, ...]
    leave_to: str | None
    decision: Verdict
    decision_rests_on: str
    cost: Cost
    places: tuple[Place, ...]
    weights: Weights
    moves: tuple[Move, ...]
    engine_only: tuple[EngineOnly, ...]
    hardware_kinds: tuple[HardwareKind, ...]
    rehearsals: tuple[RehearsedMove, ...]
    risks: tuple[Risk, ...]
    goes_stale: tuple[Expiry, ...]
    checks: tuple[Check, ...]
    letter: Letter

    @property
    def good_until(self) -> date | None:
        """The last day on which nothing on the page is stale; None where nothing on it has a date."""
        return self.goes_stale[0].good_until if self.goes_stale else None
