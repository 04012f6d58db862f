from __future__ import annotations

from datetime import date
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.choose.cost import headroom_of
from unmoor.choose.facts import load_facts
from unmoor.choose.rank import PRECISION, STAND_IN, UNTUNED, release_order
from unmoor.choose.verdict import decide_verdict
from unmoor.core.decision import CandidateReport, Cost, GateResult, Verdict
from unmoor.core.evidence import Caveat, EvidenceKind, Figure
from unmoor.core.plan import CandidatePlan, HardwarePlan, ModelPlan, Plan, TrafficPlan
from unmoor.core.slo import Slo
from unmoor.core.traffic import TokenCounts, TrafficProfile

FACTS = load_facts()
TODAY = date(2026, 11, 30)
MEASURED, PUBLISHED = EvidenceKind.MEASURED, EvidenceKind.PUBLISHED
PREDICTED, CLAIMED = EvidenceKind.PREDICTED, EvidenceKind.CLAIMED
SETUP = "2 × TP4, m, h100_sxm, fp8"
COST = Cost(
    per_hour=None, per_million_output_tokens=None, per_million_good_requests=None, good_requests_reason="",
    currency="USD", source="", as_of="",
)  # fmt: skip
TOKENS = TokenCounts(total=100, mean=10, p50=10, p95=10, max=10)
PLAN = Plan(
    name="p",
    traffic=TrafficPlan(path="t"),
    slo=Slo(ttft_s=1.5),
    model=ModelPlan(name="m", weights="fp8"),
    hardware=HardwarePlan(device="h100_sxm", count=8),
    candidates=(CandidatePlan(engine="vllm"),),
)


def traffic(overlap: float | None = 0.0) -> TrafficProfile:
    return TrafficProfile(
        requests=10, duration_s=1, input_tokens=TOKENS, output_tokens=TOKENS, offered_rps=10, burstiness=1,
        prefix_overlap=overlap, overlap_block_tokens=1, source="t", format="f", fingerprint="0",
    )  # fmt: skip


def rate(
    low: float, high: float, kind: EvidenceKind = MEASURED, *, validated: bool = True, as_of: str = "2026-11-30",
    detail: str = SETUP,
) -> Figure:  # fmt: skip
    return Figure(
        metric="max_rate_at_slo_rps", value=(low + high) / 2 if validated else None, low=low, high=high, unit="rps",
        kind=kind, validated=validated, source="s", as_of=as_of, detail=detail,
    )  # fmt: skip


def candidate(
    engine: str, *evidence: Figure, fails: tuple[str, ...] = (), open_gates: tuple[str, ...] = (),
    caveats: tuple[Caveat, ...] = (), version: str | None = "1.0",
) -> CandidateReport:  # fmt: skip
    gates = [GateResult(name=name, passed=False, reason=f"No {name}. More.", source="s", as_of="d") for name in fails]
    gates += [
        GateResult(name=name, passed=None, reason="Nobody knows.", question=f"whether {name} is so (ask)")
        for name in open_gates
    ]
    return CandidateReport(
        engine=engine, version=version, gates=tuple(gates), evidence=evidence, cost=COST, caveats=caveats
    )


def verdict(*candidates: CandidateReport, plan: Plan = PLAN, overlap: float | None = 0.0) -> Verdict:
    return decide_verdict(plan, candidates, traffic(overlap), FACTS, today=TODAY)


def caveat(code: str, text: str = "it says so") -> tuple[Caveat, ...]:
    return (Caveat(code=code, text=text),)


V, S, T = "vllm", "sglang", "tensorrt-llm"
OLD = "2026-06-01"

RULES = {
    "without evidence the default stands": ((candidate(V), candidate(S)), V, "reversibility", True),
    "a gate excludes before any evidence": (
        (candidate(V, rate(1, 2)), candidate(S, rate(9, 10), fails=("support",))), V, "gates", False,
    ),
    "measured and beyond the intervals unseats it": (
        (candidate(V, rate(10, 11)), candidate(S, rate(12, 13))), S, "max_rate_at_slo_rps", False,
    ),
    "measured inside the intervals is a tie": (
        (candidate(V, rate(10, 12)), candidate(S, rate(11.9, 14))), V, "reversibility", True,
    ),
    "measured beyond the intervals but inside the margin is a tie": (
        (candidate(V, rate(10, 10.1)), candidate(S, rate(10.2, 10.3))), V, "reversibility", True,
    ),
    "the default may win by evidence": (
        (candidate(V, rate(12, 13)), candidate(S, rate(9, 10))), V, "max_rate_at_slo_rps", False,
    ),
    "published for the same setup unseats it": (
        (candidate(V, rate(10, 11, PUBLISHED)), candidate(S, rate(12, 13, PUBLISHED))), S, "max_rate_at_slo_rps", False,
    ),
    "published but stale does not": (
        (candidate(V, rate(10, 11, PUBLISHED)), candidate(S, rate(12, 13, PUBLISHED, as_of=OLD))),
        V, "reversibility", True,
    ),
    "published for another device does not": (
        (candidate(V, rate(10, 11, PUBLISHED)), candidate(S, rate(12, 13, PUBLISHED, detail="m, b200_sxm, fp8"))),
        V, "reversibility", True,
    ),
    "predicted, validated and disjoint unseats it": (
        (candidate(V, rate(10, 11, PREDICTED)), candidate(T, rate(12, 13, PREDICTED))), T, "max_rate_at_slo_rps", False,
    ),
    "predicted with overlapping bands does not": (
        (candidate(V, rate(10, 14, PREDICTED)), candidate(T, rate(13, 17, PREDICTED))), V, "reversibility", True,
    ),
    "unvalidated never ranks": (
        (candidate(V, rate(10, 11, PREDICTED)), candidate(S, rate(50, 60, PREDICTED, validated=False))),
        V, "reversibility", True,
    ),
    "claimed never ranks": (
        (candidate(V, rate(10, 11)), candidate(S, rate(50, 60, CLAIMED))), V, "reversibility", True,
    ),
    "kinds are never mixed": (
        (candidate(V, rate(10, 11, MEASURED)), candidate(S, rate(50, 60, PREDICTED))), V, "reversibility", True,
    ),
    "a measured tie is not overturned by a prediction": (
        (
            candidate(V, rate(10, 12), rate(5, 6, PREDICTED)),
            candidate(S, rate(10, 12), rate(50, 60, PREDICTED)),
        ), V, "reversibility", True,
    ),
    "different weights are not comparable": (
        (
            candidate(V, rate(10, 11), caveats=caveat(PRECISION, "float32")),
            candidate(S, rate(50, 60), caveats=caveat(PRECISION, "q4_1")),
        ), V, "reversibility", True,
    ),
    "a stand-in kernel is not comparable": (
        (candidate(V, rate(10, 11)), candidate(S, rate(50, 60), caveats=caveat(STAND_IN))), V, "reversibility", True,
    ),
    "an untuned candidate is not comparable": (
        (candidate(V, rate(10, 11), caveats=caveat(UNTUNED)), candidate(S, rate(50, 60))), V, "reversibility", True,
    ),
    "an excluded default leaves its place to the easiest to leave": (
        (candidate(V, fails=("support",)), candidate(S), candidate(T)), S, "reversibility", True,
    ),
    "so does an absent one": ((candidate(T), candidate(S)), S, "reversibility", True),
    "who takes the default's place can be unseated too": (
        (candidate(T, rate(12, 13)), candidate(S, rate(10, 11))), T, "max_rate_at_slo_rps", False,
    ),
    "of two that are better the better one wins": (
        (candidate(V, rate(10, 11)), candidate(S, rate(12, 13)), candidate(T, rate(15, 16))),
        T, "max_rate_at_slo_rps", False,
    ),
    "of two that are better and tie the easier to leave wins": (
        (candidate(V, rate(10, 11)), candidate(S, rate(15, 16)), candidate(T, rate(15, 16))),
        S, "max_rate_at_slo_rps", False,
    ),
    "nobody passes": ((candidate(V, fails=("a",)), candidate(S, fails=("b",))), None, "gates", False),
    "one candidate alone decides nothing": ((candidate(V),), V, "only_candidate", False),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_the_rules_of_evidence(rule: str) -> None:
    candidates, pick, decided_by, tie = RULES[rule]
    said = verdict(*candidates)
    assert (said.pick, said.decided_by, said.tie) == (pick, decided_by, tie)
    assert all((said.sentence, said.against, said.risk, said.not_for))
    assert said.sentence.endswith(".")


def test_a_configured_default_stands_in_the_place_of_ours() -> None:
    plan = msgspec.structs.replace(PLAN, default_engine=T)
    said = verdict(candidate(V), candidate(T), plan=plan)
    assert (said.pick, said.decided_by, said.tie) == (T, "default", True)
    assert "so the default stands" in said.sentence


def test_the_sentence_names_pick_version_layout_and_what_the_others_fail() -> None:
    said = verdict(
        candidate(V, rate(10, 11, PREDICTED), version="0.33.0"),
        candidate(S, fails=("security policy",)),
        candidate(T, fails=("amd",)),
    )
    assert said.sentence == (
        "Run vLLM 0.33.0 as 2 × TP4 (predicted): it is the only candidate that passes every gate "
        "(SGLang: no security policy; TensorRT-LLM: no amd), and nothing measured shows another one better."
    )


def test_open_gates_are_questions_to_settle_of_somebody() -> None:
    said = verdict(candidate(V, open_gates=("contract_languages",)), candidate(S, fails=("support",)))
    assert said.sentence.endswith("; to be settled before you sign: whether contract_languages is so (ask).")


def test_not_comparable_prints_the_gap_and_ranks_nobody() -> None:
    said = verdict(
        candidate(V, rate(10, 11), caveats=caveat(PRECISION, "float32")),
        candidate(S, rate(50, 60), caveats=caveat(PRECISION, "q4_1")),
    )
    assert "NOT COMPARABLE with SGLang" in said.sentence
    assert "of one was measured that float32, of another that q4_1" in said.sentence
    assert "10.5 (10 to 11) requests/s against 55 (50 to 60) requests/s" in said.sentence


def test_where_nobody_passes_the_sentence_says_which_gate_to_relax() -> None:
    said = verdict(candidate(V, fails=("support",)), candidate(S, fails=("b",)), candidate(T, fails=("support", "b")))
    assert said.sentence == (
        "No candidate passes every gate. SGLang 1.0: no b. TensorRT-LLM 1.0: no support; no b. vLLM 1.0: no support. "
        "Relax gates.support_required in the plan to let in vLLM 1.0."
    )


def test_what_bars_several_alike_is_said_once() -> None:
    said = verdict(candidate(V, fails=("support",)), candidate(S, fails=("support",)))
    assert "SGLang 1.0 and vLLM 1.0: no support. Relax" in said.sentence


def test_where_no_engine_runs_on_the_hardware_no_gate_can_be_relaxed() -> None:
    said = verdict(candidate(V, fails=("runs_on_hardware",)), candidate(S, fails=("fits_hardware",)))
    assert said.pick is None
    assert said.sentence.endswith("None of them can serve this on 8 × h100_sxm: change one or the other.")


def test_names_keep_their_letters_after_a_colon() -> None:
    barred = candidate(T, fails=("licences_refused",))
    gate = msgspec.structs.replace(barred.gates[0], reason="LTX-2-Community-License in its tree. More.")
    said = verdict(candidate(V), msgspec.structs.replace(barred, gates=(gate,)))
    assert "(TensorRT-LLM: LTX-2-Community-License in its tree)" in said.sentence
    other = msgspec.structs.replace(gate, reason="Does not run on AMD. More.")
    said = verdict(candidate(V), msgspec.structs.replace(barred, gates=(other,)))
    assert "(TensorRT-LLM: does not run on AMD)" in said.sentence


def test_an_alternative_that_alone_was_measured_is_said_first_and_what_to_do() -> None:
    said = verdict(candidate(V), candidate(S, rate(9, 11)))
    assert (said.pick, said.tie) == (V, True)
    assert said.sentence.endswith(
        "; but SGLang was measured and vLLM was not: measure vLLM (`unmoor bakeoff`) before you rely on it."
    )
    assert said.against.startswith(
        "SGLang was measured with this traffic (highest rate at the SLO 10 (9 to 11) requests/s; 2026-11-30), and vLLM "
        "was not"
    )
    assert "was not" not in verdict(candidate(V, rate(9, 11)), candidate(S)).sentence
    assert "measured and" not in verdict(candidate(V), candidate(S, rate(9, 11), fails=("support",))).sentence


def test_a_range_that_straddles_the_traffic_is_said_in_the_sentence_and_against() -> None:
    said = verdict(candidate(V, rate(4, 11, PREDICTED, validated=False)), candidate(S))
    assert said.sentence.endswith(
        "; this hardware may not carry the traffic at the SLO (4 to 11 requests/s predicted, 10 needed)."
    )
    assert "it may not carry it. Plan for more hardware or a looser SLO until it is measured." in said.against
    assert "may not carry" not in verdict(candidate(V, rate(10, 11, PREDICTED)), candidate(S)).sentence


def test_hardware_that_carries_the_traffic_twice_over_is_said_to_be_more_than_enough() -> None:
    figure = rate(25, 31, PREDICTED, validated=False)
    room = headroom_of((figure,), 10)
    said = verdict(msgspec.structs.replace(candidate(V, figure), headroom=room), candidate(S))
    assert "predicted to carry 2.5 to 3.1 times the traffic: half of it may do" in said.against


def test_a_version_that_nobody_here_has_heard_of_is_said_in_the_sentence() -> None:
    said = verdict(candidate(V, version="9.0", caveats=caveat("newer_than_known")), candidate(S))
    assert said.sentence.startswith("Run vLLM 9.0 (a version newer than any known here): ")


def test_what_makes_the_pick_easier_to_leave_is_said_in_plain_words() -> None:
    assert (
        "the easiest to leave (it runs on 7 kinds of hardware like the next, and is governed by no single company)"
        in verdict(candidate(V), candidate(S)).sentence
    )


def test_versions_sort_as_releases_do() -> None:
    ordered = ["", "0.9", "1.2.1", "1.3.0rc3", "1.3.0rc20", "1.3", "1.10"]
    assert sorted(("1.10", "1.3", "1.3.0rc20", "1.3.0rc3", "1.2.1", "0.9", ""), key=release_order) == ordered
    assert release_order("2026.4.1.0") == release_order("2026.4.1")
    assert release_order("v0.33.0+cpu") == release_order("0.33")


def test_the_argument_against_is_built_from_this_traffic() -> None:
    shared = verdict(candidate(V), candidate(S), overlap=0.76).against
    assert "76% of prompt tokens" in shared
    assert "SGLang" in shared
    assert "prompt tokens" not in verdict(candidate(V), candidate(S), overlap=0.05).against
    assert "prompt tokens" not in verdict(candidate(V), candidate(S), overlap=None).against


def test_what_a_gate_costs_is_said_first() -> None:
    against = verdict(candidate(V, rate(10, 11)), candidate(S, rate(20, 22), fails=("support",))).against
    assert against.startswith("SGLang is better on highest rate at the SLO (21 (20 to 22) requests/s against 10.5")


def test_a_claim_informs_the_argument_against() -> None:
    pick = candidate(V, caveats=caveat("claimed_structured_output", "Somebody saw it slow down."))
    assert "Somebody saw it slow down." in verdict(pick, candidate(S)).against


def test_two_versions_of_the_default_are_told_apart_by_the_newer() -> None:
    said = verdict(candidate(V, version="0.9.0"), candidate(V, version="0.33.0"))
    assert (said.pick, said.pick_version, said.tie) == (V, "0.33.0", True)
    assert "vLLM 0.33.0" in said.sentence


rates = st.floats(0.1, 100).flatmap(lambda low: st.floats(low, 110).map(lambda high: (low, high)))
ranking = st.builds(
    lambda ends, kind: rate(ends[0], ends[1], kind), rates, st.sampled_from((MEASURED, PUBLISHED, PREDICTED))
)
unproven = st.builds(
    lambda ends, kind: rate(ends[0], ends[1], kind, validated=False),
    rates,
    st.sampled_from((PREDICTED, CLAIMED, PUBLISHED)),
)
weak = unproven | st.builds(lambda ends: rate(ends[0], ends[1], CLAIMED), rates)
gates = st.sets(st.sampled_from(("a", "b")), max_size=2).map(lambda names: tuple(sorted(names)))
versions = st.sampled_from(("1.0", "1.2", "1.10", None))


@st.composite
def fields(draw: st.DrawFn) -> list[CandidateReport]:
    engines = draw(st.lists(st.sampled_from((V, S, T, "openvino")), min_size=1, max_size=4, unique=True))
    return [
        candidate(
            name, *draw(st.lists(ranking, max_size=2)), fails=draw(gates) if draw(st.booleans()) else (),
            version=draw(versions),
        )
        for name in engines
    ]  # fmt: skip


@given(fields(), st.data())
def test_an_unvalidated_or_claimed_figure_never_changes_the_pick(
    field: list[CandidateReport], data: st.DataObject
) -> None:
    more = [
        msgspec.structs.replace(one, evidence=(*one.evidence, *data.draw(st.lists(weak, max_size=2)))) for one in field
    ]
    before, after = verdict(*field), verdict(*more)
    assert (before.pick, before.decided_by, before.tie) == (after.pick, after.decided_by, after.tie)


@given(fields(), st.randoms(use_true_random=False))
def test_the_order_of_candidates_changes_nothing(field: list[CandidateReport], random: Random) -> None:
    shuffled = list(field)
    random.shuffle(shuffled)
    assert verdict(*field) == verdict(*shuffled)


@given(fields())
def test_who_fails_a_gate_is_never_picked(field: list[CandidateReport]) -> None:
    said = verdict(*field)
    passing = {one.engine for one in field if not one.excluded}
    assert (said.pick in passing) if passing else (said.pick is None)


def test_hardware_that_is_too_small_is_said_in_the_sentence_and_first_against() -> None:
    said = verdict(candidate(V, rate(4, 9, PREDICTED, validated=False)), candidate(S))
    assert said.sentence.endswith(
        "; this hardware is not predicted to carry the traffic at the SLO under vLLM's settings."
    )
    assert said.against.startswith(
        "Its highest rate at the SLO on 8 × h100_sxm, 4 to 9 requests/s, is below the traffic's own 10 requests/s"
    )
    enough = verdict(candidate(V, rate(4, 11, PREDICTED, validated=False)), candidate(S))
    assert "not predicted to carry" not in enough.sentence


def test_a_pick_whose_layouts_all_miss_the_slo_is_said_to() -> None:
    said = verdict(candidate(V, caveats=caveat("slo_unmet")), candidate(S))
    assert said.sentence.endswith(
        "; this hardware is not predicted to carry the traffic at the SLO under vLLM's settings."
    )
    assert said.against.startswith(
        "Under vLLM's settings, no layout of 8 × h100_sxm is predicted to meet the SLO at any rate"
    )


def test_overlap_that_the_cache_forgets_weakens_the_argument_and_says_so() -> None:
    hits = msgspec.structs.replace(rate(0.05, 0.06, PREDICTED, validated=False), metric="prefix_hit_rate", unit="1")
    forgotten = verdict(candidate(V, hits), candidate(S), overlap=0.4).against
    assert "at most 6% is simulated to be still in the cache" in forgotten
    assert "simulated" not in verdict(candidate(V, hits), candidate(S), overlap=0.1).against


def test_who_cannot_be_compared_is_named_apart_from_who_is_beaten() -> None:
    weights = [caveat(PRECISION, text) for text in ("float32", "q4_1")]
    said = verdict(
        candidate(V, rate(10, 11), caveats=weights[0]),
        candidate(S, rate(20, 21), caveats=weights[0]),
        candidate(T, rate(30, 31), caveats=weights[1]),
    )
    assert said.pick == S
    assert "better than that of vLLM by more than 5%, beyond the intervals; NOT COMPARABLE with TensorRT-LLM:" in (
        said.sentence
    )


def test_each_proof_names_its_own_kind_and_property() -> None:
    fast = Figure(
        metric="goodput_rps", value=9, low=8.9, high=9.1, unit="rps", kind=MEASURED, validated=True, source="s",
        as_of="2026-11-30",
    )  # fmt: skip
    slow = msgspec.structs.replace(fast, value=2, low=1.9, high=2.1)
    said = verdict(
        candidate(V, fast, rate(20, 21, PUBLISHED)), candidate(S, slow), candidate(T, rate(10, 11, PUBLISHED))
    )
    assert "its measured goodput is better than that of SGLang by more than 5%, beyond the intervals" in said.sentence
    assert "its published highest rate at the SLO is better than that of TensorRT-LLM by more than 5%." in said.sentence


def test_two_versions_of_one_engine_are_told_apart_in_the_proof() -> None:
    said = verdict(candidate(V, rate(20, 21), version="2.0"), candidate(V, rate(10, 11), version="1.0"))
    assert "better than that of vLLM 1.0 by more than 5%" in said.sentence


def test_a_missing_precision_bars_as_another_one_does() -> None:
    said = verdict(candidate(V, rate(10, 11)), candidate(S, rate(50, 60), caveats=caveat(PRECISION, "float32")))
    assert said.pick == V
    assert "of one was measured that float32, of another the weights are not known" in said.sentence


def test_a_measured_tie_on_one_property_goes_on_to_the_next() -> None:
    full = Figure(
        metric="goodput_rps", value=4, low=3.9, high=4, unit="rps", kind=MEASURED, validated=True, source="s",
        as_of="2026-11-30",
    )  # fmt: skip
    slow = msgspec.structs.replace(full, metric="scheduled_e2e_mean_s", value=3, low=2.9, high=3.1, unit="s")
    fast = msgspec.structs.replace(slow, value=1, low=0.9, high=1.1)
    said = verdict(candidate(V, full, slow), candidate(S, full, fast))
    assert (said.pick, said.decided_by) == (S, "scheduled_e2e_mean_s")


def test_with_a_gate_open_the_only_one_left_is_the_one_that_no_gate_bars() -> None:
    said = verdict(candidate(V, open_gates=("contract_languages",)), candidate(S, fails=("support",)))
    assert "it is the only candidate that no gate bars (SGLang: no support)" in said.sentence


def test_an_engine_that_carries_the_traffic_on_the_same_hardware_is_named() -> None:
    plan = msgspec.structs.replace(PLAN, default_engine=T)
    doubts = caveat("slo_unmet") + caveat("requests_too_long")
    said = verdict(candidate(T, caveats=doubts), candidate(V, rate(20, 30, PREDICTED)), plan=plan)
    assert "under TensorRT-LLM's settings (some prompts fit no KV pool" in said.sentence
    assert said.sentence.endswith(", and is under vLLM's.")
    assert "other settings come first, or vLLM, put to carry it on the same hardware" in said.against


def test_layouts_that_no_rate_breaks_are_not_called_too_small_for_others_that_miss_the_slo() -> None:
    said = verdict(candidate(V, caveats=caveat("slo_unmet") + caveat("rate_unbounded")), candidate(S))
    assert "not predicted to carry" not in said.sentence
