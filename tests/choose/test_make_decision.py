from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import pytest

from unmoor.choose.decide import MeasuredCandidate, make_decision, traits_of
from unmoor.core.decision import Decision
from unmoor.core.errors import UsageError
from unmoor.core.evidence import Caveat, EvidenceKind, Figure
from unmoor.core.plan import CandidatePlan, HardwarePlan, ModelPlan, Plan, SyntheticTraffic, TrafficPlan
from unmoor.core.slo import Slo
from unmoor.core.traffic import Workload
from unmoor.traffic.shape import profile
from unmoor.traffic.synthesis import synthesise

TODAY = date(2026, 11, 30)
PLAN = Plan(
    name="p",
    traffic=TrafficPlan(path="t"),
    slo=Slo(ttft_s=1.5),
    model=ModelPlan(name="m", weights="bf16"),
    hardware=HardwarePlan(device="cpu"),
    candidates=(CandidatePlan(engine="vllm"), CandidatePlan(engine="openvino", version="2025.1.0")),
)
WORKLOAD = synthesise(SyntheticTraffic(requests=20, rate_rps=2, input_tokens=100, output_tokens=10))


def decide(plan: Plan = PLAN, workload: Workload = WORKLOAD, *measured: MeasuredCandidate) -> Decision:
    told: list[str] = []
    return make_decision(plan, workload, today=TODAY, effort="coarse", say=told.append, measured=measured)


def measured(engine: str, value: float, *doubts: Caveat, **more: Any) -> MeasuredCandidate:  # noqa: ANN401 - any field
    figure = Figure(
        metric="goodput_rps", value=value, low=value * 0.99, high=value * 1.01, unit="rps", kind=EvidenceKind.MEASURED,
        validated=True, source="run r1", as_of="2026-11-30",
    )  # fmt: skip
    version = "0.32.0" if engine == "vllm" else "2025.1.0"
    return MeasuredCandidate(**{"engine": engine, "version": version, "figures": (figure,), "caveats": doubts, **more})


def asking_for(what: str) -> Workload:
    first, *rest = WORKLOAD.requests
    return msgspec.structs.replace(WORKLOAD, requests=(msgspec.structs.replace(first, **{what: "x"}), *rest))


def test_what_was_measured_stands_first_and_decides() -> None:
    decision = decide(PLAN, WORKLOAD, measured("vllm", 1.0), measured("openvino", 2.0))
    assert [c.evidence[0].source for c in decision.candidates] == ["run r1", "run r1"]
    assert (decision.verdict.pick, decision.verdict.decided_by) == ("openvino", "goodput_rps")


def test_engines_measured_at_different_precision_are_not_ranked() -> None:
    weights = [Caveat(code="served_precision", text=text) for text in ("float32", "q4_1")]
    decision = decide(PLAN, WORKLOAD, measured("vllm", 1.0, weights[0]), measured("openvino", 2.0, weights[1]))
    assert decision.verdict.pick == "vllm"
    assert "NOT COMPARABLE" in decision.verdict.sentence
    assert decision.candidates[0].version == "0.32.0", "the version that was measured"


@pytest.mark.parametrize(
    ("plan_has", "run_has"),
    [({"version": "1.2.3"}, {}), ({"settings": {"prefix_caching": False}}, {}), ({}, {"pinned": {"max_batch": 8}})],
)
def test_figures_of_another_version_or_of_other_pinned_settings_are_not_taken(
    plan_has: dict[str, Any], run_has: dict[str, Any]
) -> None:
    plan = msgspec.structs.replace(PLAN, candidates=(CandidatePlan(engine="vllm", **plan_has),))
    (only,) = decide(plan, WORKLOAD, measured("vllm", 9.0, **run_has)).candidates
    assert not any(f.kind is EvidenceKind.MEASURED for f in only.evidence)
    assert "measured_otherwise" in [x.code for x in only.caveats]


def test_of_two_measured_versions_each_candidate_gets_its_own_and_the_newest_where_it_names_none() -> None:
    both = (measured("vllm", 1.0, version="0.9.0"), measured("vllm", 2.0, version="0.10.0"))
    plan = msgspec.structs.replace(
        PLAN, candidates=(CandidatePlan(engine="vllm", version="0.9.0"), CandidatePlan(engine="vllm"))
    )
    old, newest = decide(plan, WORKLOAD, *both).candidates
    assert (old.evidence[0].value, newest.evidence[0].value, newest.version) == (1.0, 2.0, "0.10.0")


def test_this_machine_is_measured_and_not_predicted() -> None:
    decision = decide()
    assert all("measure_here" in [x.code for x in c.caveats] for c in decision.candidates)
    assert all(f.kind is EvidenceKind.CLAIMED for c in decision.candidates for f in c.evidence)


def test_a_version_left_out_is_the_newest_known_and_another_one_is_doubted() -> None:
    default, old = decide().candidates
    assert default.version == "0.33.0"
    assert "other_version" not in [x.code for x in default.caveats]
    assert old.version == "2025.1.0"
    assert "other_version" in [x.code for x in old.caveats]


def test_facts_read_at_another_release_than_the_candidates_are_doubted_for_every_engine() -> None:
    plan = msgspec.structs.replace(PLAN, candidates=(CandidatePlan(engine="tensorrt-llm"),))
    (only,) = decide(plan).candidates
    (doubt,) = [x.text for x in only.caveats if x.code == "other_version"]
    assert only.version == "1.2.1"
    assert "another version than 1.2.1" in doubt
    assert "hardware" in doubt
    assert "at 1.3.0rc3" in doubt


def test_a_version_newer_than_any_known_is_doubted_and_said() -> None:
    plan = msgspec.structs.replace(PLAN, candidates=(CandidatePlan(engine="vllm", version="0.99.0"),))
    decision = decide(plan)
    assert "newer_than_known" in [x.code for x in decision.candidates[0].caveats]
    assert "vLLM 0.99.0 (a version newer than any known here)" in decision.verdict.sentence


def test_an_engine_that_does_not_run_on_the_hardware_is_not_picked_without_a_gate_in_the_plan() -> None:
    plan = msgspec.structs.replace(
        PLAN,
        hardware=HardwarePlan(device="mi300x", count=8),
        default_engine="tensorrt-llm",
        candidates=(CandidatePlan(engine="tensorrt-llm"), CandidatePlan(engine="vllm")),
    )
    decision = decide(plan)
    assert (decision.verdict.pick, decision.verdict.decided_by) == ("vllm", "gates")
    assert "(TensorRT-LLM: does not run on AMD)" in decision.verdict.sentence


def test_a_model_that_does_not_fit_one_engine_is_not_picked_with_it() -> None:
    plan = msgspec.structs.replace(
        PLAN,
        model=ModelPlan(name="nvidia/Llama-3.1-70B-Instruct-FP8", weights="fp8"),
        hardware=HardwarePlan(device="h100_sxm", count=1),
        candidates=(CandidatePlan(engine="vllm"), CandidatePlan(engine="tensorrt-llm")),
    )
    decision = decide(plan)
    failed = {c.engine: [g.name for g in c.gates if g.passed is False] for c in decision.candidates}
    assert failed == {"vllm": ["fits_hardware"], "tensorrt-llm": []}
    assert decision.verdict.pick == "tensorrt-llm"
    assert "does not fit" in decision.verdict.sentence


def test_what_decides_a_tie_comes_with_every_candidate() -> None:
    for candidate in decide().candidates:
        assert [fact.subject for fact in candidate.leaving] == ["hardware", "governance", "security_policy"]
        assert all(fact.source and fact.as_of for fact in candidate.leaving)
    plan = msgspec.structs.replace(PLAN, candidates=(CandidatePlan(engine="sglang"),))
    governance = decide(plan).candidates[0].leaving[1]
    assert (governance.kind, governance.counts) == (EvidenceKind.CLAIMED, False)


def test_a_device_that_nobody_knows_is_a_doubt_and_no_refusal() -> None:
    decision = decide(msgspec.structs.replace(PLAN, hardware=HardwarePlan(device="abacus")))
    assert "unknown_device" in [x.code for x in decision.candidates[0].caveats]
    assert "whether it runs on abacus" in decision.verdict.sentence


@pytest.mark.parametrize(("what", "code"), [("schema", "claimed_structured_output"), ("adapter", "fact_multi_lora")])
def test_claims_and_facts_come_with_the_traffic_that_makes_them_matter(what: str, code: str) -> None:
    assert traits_of(asking_for(what), profile(asking_for(what))) == {what, "no_shared_prefix"}
    assert code in [x.code for x in decide(workload=asking_for(what)).candidates[0].caveats]
    assert code not in [x.code for x in decide().candidates[0].caveats]


def test_what_others_claim_of_structured_output_is_held_against_the_pick() -> None:
    assert "SqueezeBits reports" in decide(workload=asking_for("schema")).verdict.against


def test_an_unknown_engine_is_refused() -> None:
    plan = msgspec.structs.replace(PLAN, candidates=(CandidatePlan(engine="vlm"),))
    with pytest.raises(UsageError, match="unknown engine 'vlm'"):
        decide(plan)
