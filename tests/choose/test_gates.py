from __future__ import annotations

from datetime import date

import pytest

from unmoor.choose.facts import load_facts
from unmoor.choose.gates import apply_gates, check_gate_words
from unmoor.core.decision import GateResult
from unmoor.core.errors import PlanError
from unmoor.core.plan import CandidatePlan, GatesPlan, HardwarePlan, ModelPlan, Plan, TrafficPlan
from unmoor.core.slo import Slo

FACTS = load_facts()
TODAY = date(2026, 11, 30)


def plan(gates: GatesPlan = GatesPlan(), device: str = "h100_sxm", vendor: str | None = None) -> Plan:  # noqa: B008 - frozen
    return Plan(
        name="p", traffic=TrafficPlan(path="t"), slo=Slo(ttft_s=1.5), model=ModelPlan(name="m", weights="fp8"),
        hardware=HardwarePlan(device=device, count=8, vendor=vendor), candidates=(CandidatePlan(engine="vllm"),),
        gates=gates,
    )  # fmt: skip


def asked(gates: GatesPlan, engine: str, today: date = TODAY) -> tuple[GateResult, ...]:
    """The results of the gates that the plan sets, without the one that its hardware sets."""
    return apply_gates(plan(gates), engine, FACTS, today)[1:]


@pytest.mark.parametrize(
    ("gates", "engine", "passed", "says"),
    [
        (GatesPlan(hardware_possible=("nvidia", "amd")), "vllm", True, "Runs on NVIDIA, AMD."),
        (GatesPlan(hardware_possible=("nvidia", "amd")), "tensorrt-llm", False, "Does not run on AMD."),
        (GatesPlan(hardware_possible=("tpu",)), "sglang", None, "sglang-jax"),
        (GatesPlan(hardware_possible=("ascend",)), "vllm", None, "plug-ins"),
        (GatesPlan(licences_refused=("LTX-2-Community-License",)), "tensorrt-llm", False, "in its tree"),
        (GatesPlan(licences_refused=("mit",)), "tensorrt-llm", False, "MIT in its tree"),
        (GatesPlan(licences_refused=("BSD-3",)), "tensorrt-llm", True, "None of BSD-3 is among those listed:"),
        (GatesPlan(licences_refused=("MPL-2.0",)), "tensorrt-llm", True, "None of MPL-2.0 is among those listed"),
        (GatesPlan(licences_refused=("NVIDIA Software License",)), "vllm", None, "was not read"),
        (GatesPlan(licences_refused=("GPL-3.0-only",)), "vllm", None, "was not read"),
        (GatesPlan(licences_refused=("Apache-2.0",)), "vllm", False, "Apache-2.0 in its tree"),
        (GatesPlan(security_policy_required=True), "vllm", True, "SECURITY.md"),
        (GatesPlan(security_policy_required=True), "sglang", False, "not found"),
        (GatesPlan(support_required=True), "vllm", True, "Red Hat"),
        (GatesPlan(support_required=True), "tensorrt-llm", None, "third party's claim"),
        (GatesPlan(support_required=True), "sglang", None, "No fact says"),
        (GatesPlan(contract_languages=("de",)), "vllm", None, "No fact says"),
    ],
)  # fmt: skip
def test_a_gate_passes_fails_or_stays_open(gates: GatesPlan, engine: str, passed: bool | None, says: str) -> None:  # noqa: FBT001 - the expected answer
    (result,) = asked(gates, engine)
    assert result.passed is passed
    assert says in result.reason
    assert (result.source is None) == (result.as_of is None)
    assert (result.question is not None) == (passed is None), "an open gate says what to find out, and of whom"


def test_a_failed_gate_names_its_source_and_date() -> None:
    """Nothing adverse is said of anybody without them."""
    gates = GatesPlan(hardware_possible=("amd",), security_policy_required=True, licences_refused=("MIT",))
    for engine in ("vllm", "sglang", "tensorrt-llm", "openvino"):
        for result in asked(gates, engine):
            if result.passed is False:
                assert result.source
                assert date.fromisoformat(result.as_of or "") <= TODAY


@pytest.mark.parametrize(
    ("device", "vendor", "engine", "passed", "says"),
    [
        ("h100_sxm", None, "vllm", True, "Runs on NVIDIA."),
        ("mi300x", None, "tensorrt-llm", False, "Does not run on AMD. It runs on NVIDIA GPUs only."),
        ("h100_sxm", None, "openvino", False, "Does not run on NVIDIA."),
        ("cpu", None, "openvino", True, "Runs on CPUs."),
        ("cpu", None, "tensorrt-llm", False, "Does not run on CPUs."),
        ("tpu_v6e", None, "sglang", None, "sglang-jax"),
        ("abacus", None, "vllm", None, "Nothing here says whose abacus is"),
        ("abacus", "amd", "tensorrt-llm", False, "Does not run on AMD."),
    ],
)  # fmt: skip
def test_every_plan_asks_whether_the_engine_runs_on_its_hardware(
    device: str, vendor: str | None, engine: str, passed: bool | None, says: str  # noqa: FBT001 - the expected answer
) -> None:  # fmt: skip
    (result,) = apply_gates(plan(device=device, vendor=vendor), engine, FACTS, TODAY)
    assert (result.name, result.passed) == ("runs_on_hardware", passed)
    assert says in result.reason


def test_a_model_that_is_predicted_not_to_fit_fails_a_gate_of_its_own() -> None:
    _, fits = apply_gates(plan(), "vllm", FACTS, TODAY, too_large="It leaves no room.")
    assert (fits.name, fits.passed, fits.reason) == ("fits_hardware", False, "It leaves no room.")


def test_a_stale_fact_still_answers_and_says_that_it_is_stale() -> None:
    gates = GatesPlan(security_policy_required=True)
    (result,) = asked(gates, "sglang", date(2027, 6, 1))
    assert result.passed is False
    assert "stale (183 days old, good for 30)" in result.reason
    assert "open github.com/sgl-project/sglang/security" in result.reason


@pytest.mark.parametrize(
    ("gates", "seen", "hint"),
    [
        (GatesPlan(hardware_possible=("nvdia",)), "nvdia", "did you mean 'nvidia'?"),
        (GatesPlan(contract_languages=("german",)), "german", "docs/reference/plan.md says what each gate takes"),
        (GatesPlan(contract_languages=("de", "qq")), "qq", "docs/reference/plan.md says what each gate takes"),
    ],
)
def test_a_word_nobody_knows_is_refused_with_its_place(gates: GatesPlan, seen: str, hint: str) -> None:
    with pytest.raises(PlanError) as caught:
        check_gate_words(gates, FACTS, where=lambda word: f"plan.toml: {word}")
    assert caught.value.where == f"plan.toml: {seen}"
    assert caught.value.seen == seen
    assert caught.value.hint == hint


def test_known_words_are_let_through() -> None:
    gates = GatesPlan(
        hardware_possible=("nvidia", "amd", "intel", "tpu", "cpu"),
        licences_refused=("AGPL-3.0", "apache-2.0", "NVIDIA Software License"),
        contract_languages=("de", "fr"),
    )
    check_gate_words(gates, FACTS, where=str)
