"""The plan: everything a decision depends on that is the user's to say. Parsing from text lives in `core.plan_text`."""

from __future__ import annotations

from datetime import date

import msgspec

from unmoor.core.slo import Slo

Setting = bool | int | float | str
"""A knob's value."""


class SyntheticTraffic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A described workload, made reproducibly by `unmoor.traffic.synthesis` from `seed`.

    `groups` distinct shared prefixes of `shared_prefix_tokens` each; the rest of every prompt is its own.
    `input_tokens` and `output_tokens` are means; each length is drawn within +-`spread` of its mean.
    `burstiness` is the coefficient of variation of the gaps between arrivals (gamma; 1 is Poisson).
    """

    requests: int
    rate_rps: float
    input_tokens: int
    output_tokens: int
    shared_prefix_tokens: int = 0
    groups: int = 1
    spread: float = 0.1
    burstiness: float = 1.0
    seed: int = 0


class TrafficPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the traffic is: a file (relative to the plan, `~` and `$VARS` allowed) or a description. One of both."""

    path: str | None = None
    format: str | None = None
    synthetic: SyntheticTraffic | None = None


class ModelPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model, and the format of its weights as served ("fp8", "bf16", ...)."""

    name: str
    weights: str


class HardwarePlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Accelerators of one kind, and how many ("h100_sxm", 8); `device = "cpu"` is this machine.

    `vendor` says whose the device is ("nvidia", "amd", ...) where it is one that Unmoor does not know.
    """

    device: str
    vendor: str | None = None
    count: int = 1


class CandidatePlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One engine in the running. `version` None means the one that is installed, or the newest that facts know.

    `optional`: a bake-off on a machine where it is not installed leaves it out, and says so, instead of failing.
    """

    engine: str
    version: str | None = None
    optional: bool = False
    settings: dict[str, Setting] = {}

    def is_named(self, name: str) -> bool:
        """Whether `name`, ENGINE or ENGINE@VERSION, is this candidate's."""
        return name in {self.engine, f"{self.engine}@{self.version}"}


class GatesPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a candidate must allow, whatever its speed.

    `hardware_possible`: vendors that must stay possible for three years ("nvidia", "amd", "intel", "tpu", "cpu").
    `licences_refused`: SPDX identifiers or names that must not be in the tree; any is accepted, in any case of letters.
    `contract_languages`: ISO 639-1 codes a support contract must be available in.
    """

    hardware_possible: tuple[str, ...] = ()
    licences_refused: tuple[str, ...] = ()
    security_policy_required: bool = False
    support_required: bool = False
    contract_languages: tuple[str, ...] = ()


class PricesPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's own price of one device for one hour; left out, the dated price book answers.

    `as_of` is the day it was agreed, as a TOML date or as text.
    """

    device_hour: float | None = None
    currency: str = "USD"
    source: str = "plan"
    as_of: date | None = None


class BakeoffPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much a bake-off may spend.

    `blocks`: how often each setting is measured, interleaved, across engine restarts.
    `settings`: at least three per engine. `equivalence_margin`: differences within this share are a tie.
    """

    settings: int = 3
    blocks: int = 2
    warmup_requests: int = 2
    equivalence_margin: float = 0.05
    seed: int = 0


class DoneStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that was done outside Unmoor: on which day, and where its result is kept (a path, an address)."""

    on: date
    where: str


class DoneSteps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was done before the runtime was committed to; None: not recorded.

    `published_run`: a current public benchmark run of this model and device was looked up. `load_test`: the team's own
    load test at its real prompts. `tuning`: every candidate was tuned on purpose and measured again. `risk_answer`: the
    owner of third-party risk answered in writing. `roadmap`: the runtime's roadmap was read against the team's.
    """

    published_run: DoneStep | None = None
    load_test: DoneStep | None = None
    tuning: DoneStep | None = None
    risk_answer: DoneStep | None = None
    roadmap: DoneStep | None = None


class RehearsedMove(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A move to another engine that was rehearsed: to which, when, how it went, and where that is written down."""

    to: str
    on: date
    outcome: str
    where: str = ""


class ExitTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What leaving the engine depends on: where each thing lives that is kept outside it. None or empty: not recorded.

    `serves` is the candidate that serves today, `leave_to` the one to leave to: ENGINE, or ENGINE@VERSION where the
    plan has several versions of it. `model`, `start`, `adapters`, `schemas` and `dashboards` are paths as those of
    `[traffic]`; the others are paths or words.
    """

    serves: str | None = None
    leave_to: str | None = None
    model: str | None = None
    evals: str | None = None
    routing: str | None = None
    metering: str | None = None
    orchestration: str | None = None
    start: str | None = None
    adapters: str | None = None
    schemas: str | None = None
    dashboards: tuple[str, ...] = ()
    risk_owner: str | None = None
    rehearsals: tuple[RehearsedMove, ...] = ()
    done: DoneSteps = DoneSteps()


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole plan, as read from TOML."""

    name: str
    traffic: TrafficPlan
    slo: Slo
    model: ModelPlan
    hardware: HardwarePlan
    candidates: tuple[CandidatePlan, ...]
    default_engine: str = "vllm"
    gates: GatesPlan = GatesPlan()
    prices: PricesPlan = PricesPlan()
    bakeoff: BakeoffPlan = BakeoffPlan()
    exit: ExitTable = ExitTable()
