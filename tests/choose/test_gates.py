from __future__ import annotations

from datetime import date

import pytest

from unmoor.choose.facts import load_facts
from unmoor.choose.gates import apply_gates, check_gate_words
from unmoor.core.errors import PlanError
from unmoor.core.plan import GatesPlan

FACTS = load_facts()
TODAY = date(2026, 11, 30)


@pytest.mark.parametrize(
    ("gates", "engine", "passed", "says"),
    [
        (GatesPlan(hardware_possible=("nvidia", "amd")), "vllm", True, "Runs on nvidia, amd."),
        (GatesPlan(hardware_possible=("nvidia", "amd")), "tensorrt-llm", False, "amd not possible."),
        (GatesPlan(hardware_possible=("tpu",)), "sglang", None, "sglang-jax"),
        (GatesPlan(hardware_possible=("ascend",)), "vllm", None, "plug-ins"),
        (GatesPlan(licences_refused=("LTX-2-Community-License",)), "tensorrt-llm", False, "in its tree"),
        (GatesPlan(licences_refused=("GPL-3.0-only",)), "tensorrt-llm", True, "None of the refused"),
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
    (result,) = apply_gates(gates, engine, FACTS, TODAY)
    assert result.passed is passed
    assert says in result.reason
    assert (result.source != "") == (result.as_of != "")


def test_a_failed_gate_names_its_source_and_date() -> None:
    """Nothing adverse is said of anybody without them."""
    gates = GatesPlan(hardware_possible=("amd",), security_policy_required=True, licences_refused=("MIT",))
    for engine in ("vllm", "sglang", "tensorrt-llm", "openvino"):
        for result in apply_gates(gates, engine, FACTS, TODAY):
            if result.passed is False:
                assert result.source
                assert date.fromisoformat(result.as_of) <= TODAY


def test_a_plan_without_gates_asks_nothing() -> None:
    assert apply_gates(GatesPlan(), "vllm", FACTS, TODAY) == ()


def test_a_stale_fact_still_answers_and_says_that_it_is_stale() -> None:
    gates = GatesPlan(security_policy_required=True)
    (result,) = apply_gates(gates, "sglang", FACTS, date(2027, 6, 1))
    assert result.passed is False
    assert "stale (183 days old, good for 30)" in result.reason
    assert "open github.com/sgl-project/sglang/security" in result.reason


@pytest.mark.parametrize(
    ("gates", "seen", "hint"),
    [
        (GatesPlan(hardware_possible=("nvdia",)), "nvdia", "did you mean 'nvidia'?"),
        (
            GatesPlan(licences_refused=("LTX-2-Community",)),
            "LTX-2-Community",
            "did you mean 'LTX-2-Community-License'?",
        ),
        (GatesPlan(contract_languages=("german",)), "german", None),
    ],
)
def test_a_word_nobody_knows_is_refused_with_its_place(gates: GatesPlan, seen: str, hint: str | None) -> None:
    with pytest.raises(PlanError) as caught:
        check_gate_words(gates, FACTS, where=lambda word: f"plan.toml: {word}")
    assert caught.value.where == f"plan.toml: {seen}"
    assert caught.value.seen == seen
    assert caught.value.hint == hint


def test_known_words_are_let_through() -> None:
    gates = GatesPlan(
        hardware_possible=("nvidia", "amd", "intel", "tpu", "cpu"),
        licences_refused=("AGPL-3.0-only", "LTX-2-Community-License"),
        contract_languages=("de", "fr"),
    )
    check_gate_words(gates, FACTS, where=str)
