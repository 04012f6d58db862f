"""Two invented engines with facts and surfaces of their own, and the exit plan of a plan that has both."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Literal

from unmoor.choose.decide import Measured
from unmoor.choose.facts import DevicePrice, EngineName, Fact, Facts, FactValue, PriceBook
from unmoor.core.decision import CandidateReport, Cost, Decision, GateResult, Verdict
from unmoor.core.evidence import EvidenceKind
from unmoor.core.plan import Plan
from unmoor.core.plan_text import read_plan
from unmoor.core.traffic import TokenCounts, TrafficProfile
from unmoor.engines.surface.surface import Flag, Metric, Route, Source, Support, Surface, Trait
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.exit_plan.assemble import Found, make_exit_plan, sides_of
from unmoor.leave.exit_plan.exit_plan import ExitPlan, Move, Weights
from unmoor.leave.exit_plan.places import places

TODAY = date(2026, 12, 1)
SEEN = date(2026, 11, 1)

PLAN = """
name = "made"
default_engine = "near"

[traffic]
path = "log.jsonl"

[slo]
ttft_s = 1.0

[model]
name = "org/Tiny"
weights = "fp8"

[hardware]
device = "h100_sxm"
count = 2

[[candidates]]
engine = "near"
version = "1.0"
settings = { max_running = 64 }

[[candidates]]
engine = "far"
version = "2.0"
"""


def fact(engine: str, subject: str, value: FactValue, *, days: int = 90, claimed: bool = False) -> Fact:
    """A fact seen on 2026-11-01, good for `days`."""
    return Fact(
        engine=engine,
        subject=subject,
        claim=f"Of {engine}: {subject} is {value}.",
        value=value,
        kind=EvidenceKind.CLAIMED if claimed else EvidenceKind.PUBLISHED,
        source=f"{engine}'s pages",
        version="1",
        as_of=SEEN,
        recheck=f"open {engine}'s pages",
        stale_after_days=days,
    )


FACTS = Facts(
    engines=(EngineName(name="near", title="Near"), EngineName(name="far", title="Far")),
    facts=(
        fact("near", "licence", "Apache-2.0", days=365),
        fact("near", "security_policy", True),  # noqa: FBT003 - a fact's value
        fact("near", "hardware", ("nvidia", "amd")),
        fact("near", "biggest_risk", "untuned", days=40, claimed=True),
        fact("far", "security_policy", False, days=20),  # noqa: FBT003 - a fact's value
        fact("far", "hardware", ("nvidia",)),
        fact("far", "hardware_elsewhere", ("amd",)),
        fact("far", "roadmap", "two front ends"),
    ),
)
PRICES = PriceBook(
    currency="USD",
    stale_after_days=60,
    devices=(DevicePrice(device="h100_sxm", low=3.0, high=4.0, source="a list", as_of=SEEN),),
    managed=(),
    support=(),
)


def surface(
    engine: str, version: str, *, amd: Literal["native", "refused"], metric: tuple[str, ...], flag: tuple[str, ...]
) -> Surface:
    """An engine that loads FP8 on NVIDIA Hopper natively, and on AMD as `amd` says."""
    source = Source(how="source", what="its package", version=f"{engine} {version}", seen=SEEN)
    return Surface(
        engine=engine,
        title=engine.title(),
        version=version,
        as_of=SEEN,
        sources={"code": source},
        unknown_fields=Trait(value="ignored", source="code"),
        fields={},
        routes={"health": Route(path="/health", source="code"), "version": Route(path=f"/{engine}", source="code")},
        metrics={"running": Metric(names=metric, source="code")},
        flags={"max_running": Flag(names=flag, source="code", note="computed" if not flag else "")},
        checkpoint={
            "fp8": {
                "nvidia_hopper": Support(value="native", source="code"),
                "amd_cdna3": Support(value=amd, source="code"),
            }
        },
    )


NEAR = surface("near", "1.0", amd="native", metric=("near_running",), flag=("--at-once",))
FAR = surface("far", "2.0", amd="native", metric=(), flag=("--slots",))


def profile(overlap: float | None = 0.25) -> TrafficProfile:
    """Ten requests."""
    counts = TokenCounts(total=1000, mean=100, p50=100, p95=100, max=100)
    return TrafficProfile(
        requests=10, duration_s=5.0, input_tokens=counts, output_tokens=counts, offered_rps=2.0, burstiness=1.0,
        prefix_overlap=overlap, overlap_block_tokens=1, source="log.jsonl", format="openai", fingerprint="ab" * 32,
    )  # fmt: skip


def decision(plan: Plan, *, pick: str | None = "near", gates: tuple[GateResult, ...] = ()) -> Decision:
    """A decision without evidence; `gates` are those of the second candidate."""
    cost = Cost(
        per_hour=7.0, per_million_output_tokens=None, per_million_good_requests=None, good_requests_reason=None,
        currency="USD", source="a list", as_of="2026-11-01",
    )  # fmt: skip
    reports = tuple(
        CandidateReport(engine=one.engine, version=one.version, gates=gates if number else (), evidence=(), cost=cost)
        for number, one in enumerate(plan.candidates)
    )
    version = next((one.version for one in plan.candidates if one.engine == pick), None)
    sentence = f"Run {pick}." if pick else "No candidate passes every gate."
    return Decision(
        plan=plan.name, made_on="2026-12-01", slo="", hardware="2 × h100_sxm", model="", traffic=profile(),
        candidates=reports,
        verdict=Verdict(
            pick=pick, pick_version=version, sentence=sentence, decided_by="gates", against="", risk="", not_for="",
            tie=False,
        ),
    )  # fmt: skip


@dataclass(frozen=True)
class Made:
    """What a test brings; the rest is as in most tests. `exit_table` is TOML after the plan."""

    exit_table: str = ""
    folder: Path = field(default_factory=Path)
    pick: str | None = "near"
    gates: tuple[GateResult, ...] = ()
    surfaces: tuple[Surface | None, ...] = (NEAR, FAR)
    facts: Facts = FACTS
    checkpoint: Checkpoint | None = None
    weights: Weights | None = None
    measured: Measured | None = None
    moves: tuple[Move, ...] = (Move(engine="far", version="2.0", why_not="nothing was recorded"),)
    plan_text: str = PLAN
    today: date = TODAY


def made(bring: Made) -> ExitPlan:
    """The exit plan."""
    plan = read_plan(bring.plan_text + bring.exit_table, where="plan.toml")
    decided = decision(plan, pick=bring.pick, gates=bring.gates)
    found = Found(
        decision=decided,
        sides=sides_of(plan, decided, bring.surfaces, bring.facts, frozenset(), today=bring.today),
        places=places(plan.exit, lambda written, _: bring.folder / written),
        moves=bring.moves,
        checkpoint=bring.checkpoint,
        weights=bring.weights,
        measured=bring.measured,
    )
    return make_exit_plan(plan, found, bring.facts, PRICES, today=bring.today)
