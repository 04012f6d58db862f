"""The fake engine as one that takes part: a real process on a real socket, whose knobs change what it does.

Run as a program it is a bake-off of its own, to be killed: `python scripted.py RUNS`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from unmoor.bakeoff.block import Entrant
from unmoor.bakeoff.ledger import Contender
from unmoor.bakeoff.road import Order, RoadEnd, run_bakeoff
from unmoor.core.plan_text import read_plan
from unmoor.engines.contract import (
    Command,
    Diagnosis,
    InstallSpec,
    Knob,
    LaunchSpec,
    Metric,
    ModelFormat,
    SchedulerModel,
    Settings,
)
from unmoor.fake.script import Script
from unmoor.traffic.synthesis import synthesise

PLAN = """
name = "scripted"
[traffic.synthetic]
requests = 8
rate_rps = 20.0
input_tokens = 40
output_tokens = 4
shared_prefix_tokens = 30
[slo]
ttft_s = 0.15
[model]
name = "none"
weights = "none"
[hardware]
device = "cpu"
[[candidates]]
engine = "scripted"
[bakeoff]
settings = 3
blocks = 2
warmup_requests = 1
"""


class Scripted:
    """An engine whose prefix cache, or running four, make it faster to the first token; it refuses to run one only."""

    known_version = "1"
    tables_name: str | None = None
    scrape: Mapping[Metric, str] = {}
    metrics_path = "/metrics"
    cache_reset_path: str | None = None
    cache_reset_hint = ""
    install: InstallSpec | None = None
    absent_reason = "it is a test's"
    model_format: ModelFormat = "gguf"
    knobs = (
        Knob(
            name="prefix_caching",
            flag="-",
            default=False,
            try_values=(True,),
            trades="nothing",
            bears_on="prefix_overlap",
        ),
        Knob(
            name="max_running",
            flag="-",
            default=8,
            try_values=(1, 4),
            trades="nothing",
            bears_on="concurrency",
        ),
    )

    def __init__(
        self,
        name: str = "scripted",
        *,
        spared_s: float = 0.15,
        spared_by_four_s: float = 0.0,
        weights: str = "q4",
        broken: bool = False,
        first_token_s: float = 0.2,
    ) -> None:
        self.name = name
        self.title = name.capitalize()
        self.cpu_weights = weights
        self.spared_s = spared_s
        self.spared_by_four_s = spared_by_four_s
        self.broken = broken
        self.first_token_s = first_token_s

    def command(self, spec: LaunchSpec, settings: Settings) -> Command:
        spared_s = self.spared_s if settings.get("prefix_caching") else 0.0
        spared_s += self.spared_by_four_s if settings.get("max_running") == 4 else 0.0
        script = Script(ttft_s=self.first_token_s - spared_s, gap_s=0.002)
        refuses = self.broken or settings.get("max_running") == 1
        option = "--no-such-option" if refuses else "--script"
        argv = (spec.python, "-m", "unmoor.fake.engine", "--port", str(spec.port), option)
        return Command(argv=(*argv, msgspec.json.encode(script).decode()), env={})

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        if "unrecognized arguments" not in log_tail:
            return None
        return Diagnosis(message="refuses an option", seen="unrecognized arguments", hint="leave it out")

    def scheduler(self, settings: Settings) -> SchedulerModel:
        raise NotImplementedError(settings)


def entrant(engine: Scripted) -> Entrant:
    """The engine, ready to take part."""
    contender = Contender(engine=engine.name, title=engine.title, version="1", weights=engine.cpu_weights)
    return Entrant(engine=engine, contender=contender, python=sys.executable, model_dir=".", pinned={})


def order(*engines: Scripted, plan_text: str = PLAN) -> Order:
    """A bake-off of these engines; of one plain scripted engine when none is named."""
    plan = read_plan(plan_text, where="plan.toml")
    assert plan.traffic.synthetic is not None
    return Order(
        plan=plan,
        plan_text=plan_text,
        workload=synthesise(plan.traffic.synthetic),
        entrants=tuple(entrant(engine) for engine in engines or (Scripted(),)),
        skipped=(),
        version="0",
        today="2026-11-30",
    )


def run(runs: Path, *engines: Scripted, plan_text: str = PLAN) -> tuple[RoadEnd, list[str]]:
    """The end of that bake-off, and what was said on the way."""
    said: list[str] = []
    return run_bakeoff(order(*engines, plan_text=plan_text), runs=runs, say=said.append), said


if __name__ == "__main__":
    run_bakeoff(order(), runs=Path(sys.argv[1]), say=lambda text: print(text, flush=True))  # noqa: T201 - a program
