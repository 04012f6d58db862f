"""What `decide --run` takes from a bake-off is what that bake-off itself says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from unmoor.bakeoff import ledger
from unmoor.bakeoff.ledger import Contender
from unmoor.bakeoff.result import DEFAULTS, Machine, Trial
from unmoor.bakeoff.summary import summarise
from unmoor.choose.decide import make_decision
from unmoor.cli.measured_run import measured_in
from unmoor.core.decision import Decision
from unmoor.core.errors import UsageError
from unmoor.core.plan import Plan
from unmoor.core.plan_text import read_plan
from unmoor.core.record import Outcome, Record
from unmoor.core.traffic import Request, Workload
from unmoor.measure.run_store import RunIdentity, RunStore, StoredRun
from unmoor.traffic.shape import profile
from unmoor.traffic.synthesis import synthesise

PLAN = """
name = "two"
default_engine = "openvino"
[traffic.synthetic]
requests = 40
rate_rps = 4
input_tokens = 50
output_tokens = 10
[slo]
ttft_s = 1.0
[model]
name = "m"
weights = "q4_1"
[hardware]
device = "cpu"
[[candidates]]
engine = "openvino"
[[candidates]]
engine = "vllm"
"""
BOTH = (
    Contender(engine="openvino", title="OpenVINO GenAI", version="2026.4.1.0", weights="q4_1"),
    Contender(engine="vllm", title="vLLM", version="0.33.0", weights="q4_1"),
)
MACHINE = Machine(cpu="Some CPU", cores=2, memory_bytes=None, system="s", load_1m=None)
Speed = Callable[[str, int, int, Random], tuple[float, float]]
"""Engine, repeat and index to TTFT and E2E, in seconds."""


def record(request: Request, index: int, ttft_s: float, e2e_s: float) -> Record:
    start = 10**11 + int(request.arrival_s * 1e9)
    first, last = start + int(ttft_s * 1e9), start + int(e2e_s * 1e9)
    return Record(
        index=index, outcome=Outcome.OK, scheduled_at_ns=start, sent_at_ns=start, first_byte_at_ns=first,
        first_token_at_ns=first, last_token_at_ns=last, closed_at_ns=last, chunk_at_ns=(first, last),
        input_tokens=request.input_tokens, output_tokens=request.output_tokens, tokens_from="server",
        finish_reason="length", status=200,
    )  # fmt: skip


def a_run(root: Path, speed: Speed, *, repeats: int = 2, last: int = 40, finished: bool = True) -> Path:
    plan = read_plan(PLAN, where="two.toml")
    workload = traffic(plan)
    identity = RunIdentity(
        plan_name="two", plan_text=PLAN, traffic_fingerprint=workload.fingerprint, host="h", unmoor_version="0",
        started_on="2026-11-30",
    )  # fmt: skip
    store = RunStore.create_or_open(root, identity=identity)
    with store:
        ledger.keep_traffic(store, profile(workload), workload.requests)
        ledger.note_start(store, MACHINE, BOTH, ())
        random = Random(3)  # noqa: S311 - timings, no secret
        for contender in BOTH:
            ledger.note_trials(store, contender, [Trial(engine=contender.engine, name=DEFAULTS)])
            for repeat in range(repeats):
                name = ledger.block_name(contender, DEFAULTS, repeat)
                store.event("block_started", block=name)
                for index, request in enumerate(workload.requests[:last]):
                    store.append(name, record(request, index, *speed(contender.engine, repeat, index, random)))
        if finished:
            ledger.note_finished(store)
    return store.path


def traffic(plan: Plan) -> Workload:
    assert plan.traffic.synthetic is not None
    return synthesise(plan.traffic.synthetic)


def decision(run: Path, text: str = PLAN) -> Decision:
    plan = read_plan(text, where="two.toml")
    workload = traffic(plan)
    told: list[str] = []
    measured = measured_in(run, plan, workload.fingerprint)
    return make_decision(plan, workload, today=date(2026, 11, 30), effort="coarse", say=told.append, measured=measured)


def both_fine_one_sooner(engine: str, _repeat: int, _index: int, random: Random) -> tuple[float, float]:
    slow = 0.6 * (engine == "openvino")
    return 0.3 + slow + 0.02 * random.random(), 1.0 + 3 * slow + 0.1 * random.random()


def more_often_within(engine: str, _repeat: int, index: int, _random: Random) -> tuple[float, float]:
    return (2.0, 3.0) if engine == "openvino" and index % 2 else (0.5, 1.0)


def one_bad_mood(engine: str, repeat: int, _index: int, _random: Random) -> tuple[float, float]:
    return (2.0, 3.0) if engine == "openvino" and repeat == 1 else (0.5, 1.0)


def alike(_engine: str, _repeat: int, _index: int, random: Random) -> tuple[float, float]:
    return 0.5 + 0.2 * random.random(), 1.0 + random.random()


def the_default_is_sooner(engine: str, _repeat: int, _index: int, random: Random) -> tuple[float, float]:
    return 0.5, (1.0 if engine == "openvino" else 2.0) + 0.1 * random.random()


@pytest.mark.parametrize(
    ("speed", "pick", "decided_by"),
    [
        (both_fine_one_sooner, "vllm", "scheduled_e2e_s"),
        (more_often_within, "vllm", "slo_attainment"),
        (one_bad_mood, "openvino", None),
        (alike, "openvino", None),
        (the_default_is_sooner, "openvino", "scheduled_e2e_s"),
    ],
)
def test_a_decision_says_of_two_measured_engines_what_their_bake_off_says(
    tmp_path: Path, speed: Speed, pick: str, decided_by: str | None
) -> None:
    run = a_run(tmp_path, speed)
    said = summarise(StoredRun(run)).verdict
    verdict = decision(run).verdict
    assert verdict.pick == pick
    assert ("vLLM 0.33.0 (defaults) is better than" in said) is (pick == "vllm")
    assert verdict.tie is (decided_by is None)
    if decided_by:
        assert verdict.decided_by == decided_by


def test_the_sentence_gives_the_paired_effect_with_its_interval(tmp_path: Path) -> None:
    sooner = decision(a_run(tmp_path / "a", both_fine_one_sooner)).verdict.sentence
    assert "measured request by request it is sooner done than OpenVINO GenAI (0.37× as long end to end, 95 %" in sooner
    oftener = decision(a_run(tmp_path / "b", more_often_within)).verdict.sentence
    assert "it meets the SLO more often than OpenVINO GenAI (+50 points, 95 % interval" in oftener


@pytest.mark.parametrize("cut", [{"finished": False}, {"repeats": 1}, {"last": 30}])
def test_a_run_that_is_cut_short_ranks_nobody(tmp_path: Path, cut: dict[str, Any]) -> None:
    run = a_run(tmp_path, both_fine_one_sooner, **cut)
    found = decision(run)
    assert found.verdict.pick == "openvino"
    assert "NOT COMPARABLE" in found.verdict.sentence
    assert all("untuned" in [x.code for x in candidate.caveats] for candidate in found.candidates)


def test_a_figure_names_the_machine_and_settings_it_was_measured_with(tmp_path: Path) -> None:
    found = decision(a_run(tmp_path, alike)).candidates[0]
    measured = [f for f in found.evidence if f.kind.value == "measured"]
    assert measured
    assert all("defaults, 76 requests in 2 blocks, on Some CPU, 2 cores" in f.detail for f in measured)
    assert msgspec.json.encode(found.paired)


def test_another_version_than_the_measured_one_takes_nothing_of_the_run(tmp_path: Path) -> None:
    run = a_run(tmp_path, both_fine_one_sooner)
    found = decision(run, PLAN.replace('engine = "vllm"', 'engine = "vllm"\nversion = "0.32.0"')).candidates[1]
    assert not any(f.kind.value == "measured" for f in found.evidence)
    assert "measured_otherwise" in [x.code for x in found.caveats]


@pytest.mark.parametrize("there", [False, True])
def test_a_path_that_is_no_run_is_the_users_to_mend(tmp_path: Path, there: bool) -> None:  # noqa: FBT001 - a case
    path = tmp_path / "run"
    if there:
        path.touch()
    with pytest.raises(UsageError, match="no such run"):
        decision(path)
