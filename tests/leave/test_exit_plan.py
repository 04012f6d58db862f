"""The exit plan says what is recorded, seen and dated; what nobody recorded stays not recorded."""

from __future__ import annotations

import dataclasses
from datetime import date
from pathlib import Path

import msgspec
import pytest
from made_exit_plan import FACTS, FAR, NEAR, PLAN, TODAY, Made, fact, made, surface

from unmoor.choose.decide import MeasuredCandidate
from unmoor.choose.rank import UNTUNED
from unmoor.core.decision import GateResult
from unmoor.core.evidence import Caveat
from unmoor.core.plan import ExitTable
from unmoor.leave.checkpoint.checkpoint import Checkpoint, Quantisation
from unmoor.leave.exit_plan.exit_plan import Check, ExitPlan, Step, WeightFile, Weights
from unmoor.leave.exit_plan.hardware import scheme_of
from unmoor.leave.exit_plan.places import OUTSIDE, places

ALL_PLACES = '[exit]\nmodel = "m"\nevals = "evals"\nrouting = "routing"\nmetering = "metering"\n'


def risks(plan: ExitPlan) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for risk in plan.risks:
        found.setdefault(risk.code, []).append(risk.text)
    return found


def step(plan: ExitPlan, begins: str) -> Step:
    return next(one for check in plan.checks for one in check.steps if one.asked.startswith(begins))


def test_without_the_table_every_place_is_not_recorded_and_nothing_is_invented() -> None:
    plan = made(Made())
    assert {place.seen for place in plan.places} == {"not recorded"}
    assert {place.where for place in plan.places} == {None}
    assert (plan.leave_to, plan.rehearsals, plan.letter.to) == (None, (), None)
    assert plan.weights == Weights(scheme="fp8", said_in="plan")
    assert {"not_recorded", "no_way_out_named", "not_rehearsed", "no_risk_owner"} <= set(risks(plan))
    assert risks(plan)["not_recorded"] == ["Where these live is not recorded: weights, evals, routing, metering."]
    done = [one for check in plan.checks for one in check.steps if one.done]
    assert [one.asked for one in done] == [
        "Measure how much prefix our prompts share",  # it was, in the log
        "Write down what happens if we have to move",  # this page
    ]
    assert all("not recorded" in one.said or one.done for check in plan.checks for one in check.steps)


def test_places_that_are_there_are_told_from_those_that_are_not(tmp_path: Path) -> None:
    for name in ("m", "evals", "routing"):
        (tmp_path / name).mkdir()
    table = f'{ALL_PLACES}orchestration = "one Service"\nstart = "start.sh"\ndashboards = ["evals", "gone.json"]\n'
    plan = made(Made(exit_table=table.replace('"metering"', '"https://ledger.example.org"'), folder=tmp_path))
    assert [(place.what, place.seen) for place in plan.places] == [
        ("model", "there"), ("evals", "there"), ("routing", "there"), ("metering", "not looked at"),
        ("orchestration", "not looked at"), ("start", "missing"), ("adapters", "not recorded"),
        ("schemas", "not recorded"), ("dashboards", "there"), ("dashboards", "missing"),
    ]  # fmt: skip
    assert len(risks(plan)["missing"]) == 2
    assert "not_recorded" not in risks(plan)
    assert step(plan, "Keep weights").done


def test_words_are_no_path_and_what_begins_like_one_is(tmp_path: Path) -> None:
    plan = made(Made(exit_table='[exit]\nevals = "in team A\'s cupboard"\nrouting = "./gone"\n', folder=tmp_path))
    seen = {place.what: place.seen for place in plan.places if place.what in OUTSIDE}
    assert seen == {"model": "not recorded", "evals": "not looked at", "routing": "missing", "metering": "not recorded"}
    said = step(plan, "Keep weights").said
    assert said == "not recorded: weights, metering; not at the place that the plan records: routing"


@pytest.mark.parametrize("words", ["the box for $5 a month", "https://x.example/$TEAM", "a" * 5000])
def test_words_are_not_taken_for_a_path_that_cannot_be(words: str) -> None:
    def resolve(written: str, key: str) -> Path:
        assert "$" not in written, f"{key} was expanded"
        return Path(written)

    kept = places(ExitTable(evals=words), resolve)
    assert next(place.seen for place in kept if place.what == "evals") == "not looked at"


@pytest.mark.parametrize(
    ("table", "pick", "serves", "by"),
    [
        ('[exit]\nserves = "far"\n', "near", "far", "plan"),
        ("", "far", "far", "decision"),
        ("", None, "near", "default"),
    ],
)
def test_which_engine_serves_and_whose_word_that_is(table: str, pick: str | None, serves: str, by: str) -> None:
    plan = made(Made(exit_table=table, pick=pick))
    assert (plan.serves.engine, plan.serves_by) == (serves, by)
    assert [side.engine for side in plan.others] == [{"near": "far", "far": "near"}[serves]]


def test_that_another_engine_serves_than_the_decision_picks_is_a_risk() -> None:
    plan = made(Made(exit_table='[exit]\nserves = "far"\n'))
    assert risks(plan)["decision_differs"] == ["Far 2.0 serves, and the decision picks near 1.0. Run near."]
    assert "decision_differs" not in risks(made(Made(exit_table='[exit]\nserves = "near"\n')))


TWO_VERSIONS = PLAN.replace('engine = "far"', 'engine = "near"')


def test_versions_of_one_engine_are_told_apart() -> None:
    plan = made(Made(plan_text=TWO_VERSIONS, exit_table='[exit]\nserves = "near@2.0"\nleave_to = "near@1.0"\n'))
    assert (plan.serves.version, [side.version for side in plan.others]) == ("2.0", ["1.0"])
    assert "on Near 1.0 (security policy published" in plan.letter.lines[1]
    assert risks(plan)["decision_differs"] == ["Near 2.0 serves, and the decision picks near 1.0. Run near."]


def test_a_release_that_is_not_the_newest_is_a_risk() -> None:
    newest = fact("near", "newest_version", "1.0.1")
    plan = made(Made(facts=msgspec.structs.replace(FACTS, facts=(*FACTS.facts, newest))))
    (told,) = risks(plan)["not_newest"]
    assert told.startswith("Near 1.0 is not the newest release that is known of, 1.0.1")
    same = msgspec.structs.replace(newest, value="1.0.0")
    assert "not_newest" not in risks(made(Made(facts=msgspec.structs.replace(FACTS, facts=(*FACTS.facts, same)))))


def test_a_plan_of_one_candidate_has_no_move_and_no_way_out() -> None:
    alone = PLAN[: PLAN.index('[[candidates]]\nengine = "far"')]
    plan = made(Made(plan_text=alone, surfaces=(NEAR,), moves=()))
    assert (plan.others, plan.moves, plan.engine_only) == ((), (), ())
    assert plan.letter.lines[1].startswith("May we depend on Near 1.0 under our policy")


def test_names_of_the_engine_with_their_replacement() -> None:
    found = {one.concept: one for one in made(Made()).engine_only}
    assert set(found) == {"max_running", "running", "version"}  # /health is the same on both
    setting, metric, route = found["max_running"].there[0], found["running"].there[0], found["version"].there[0]
    assert (found["max_running"].names, setting.standing, setting.names) == (("--at-once",), "renamed", ("--slots",))
    assert (found["running"].names, metric.standing, metric.names) == (("near_running",), "absent", ())
    assert (found["version"].names, route.standing, route.names) == (("GET /near",), "renamed", ("GET /far",))
    assert setting.source == FAR.sources["code"]
    assert found["running"].source == NEAR.sources["code"]


def test_a_setting_that_the_plan_does_not_pin_is_left_out() -> None:
    plan = made(Made(plan_text=PLAN.replace("settings = { max_running = 64 }", "")))
    assert "setting" not in {one.kind for one in plan.engine_only}


def test_an_engine_without_a_surface_is_not_known_and_said_so() -> None:
    plan = made(Made(surfaces=(NEAR, None)))
    assert {there.standing for one in plan.engine_only for there in one.there} == {"unknown"}
    assert risks(plan)["no_surface"] == ["No surface is known of Far 2.0: its names were not compared."]
    assert made(Made(surfaces=(None, FAR))).engine_only == ()


def test_hardware_joins_the_format_with_where_the_engine_runs_at_all() -> None:
    kinds = {kind.hardware: kind for kind in made(Made()).hardware_kinds}
    assert [on.loads for on in kinds["nvidia_hopper"].engines] == ["native", "native"]
    assert [on.loads for on in kinds["amd_cdna3"].engines] == ["native", "elsewhere"]
    assert [on.loads for on in kinds["intel_xpu"].engines] == ["not supported", "not supported"]
    assert [on.loads for on in kinds["nvidia_ada"].engines] == ["unknown", "unknown"]
    assert [kind for kind, one in kinds.items() if one.of_the_plan] == ["nvidia_hopper"]


def test_a_format_that_one_vendor_alone_takes_is_a_risk() -> None:
    (of_far,) = risks(made(Made()))["one_vendor_format"]
    assert of_far == (
        "With Far 2.0, the format of the weights (FP8, one scale a tensor or channel) runs natively on one vendor's "
        "hardware alone (NVIDIA)."
    )
    refused = surface("near", "1.0", amd="refused", metric=(), flag=())
    everywhere = risks(made(Made(surfaces=(refused, FAR))))["one_vendor_format"]
    assert everywhere[0].startswith("Whichever engine of the plan: one vendor's hardware alone takes ")


def test_the_checkpoints_own_format_goes_before_the_plans_word() -> None:
    checkpoint = Checkpoint(
        path="m", container="safetensors", architecture="", dtype="", quantisation=Quantisation(scheme="nvfp4")
    )
    weights = Weights(scheme="nvfp4", said_in="config.json", files=(WeightFile(name="a", size_bytes=1, sha256="0"),))
    plan = made(Made(checkpoint=checkpoint, weights=weights))
    assert {on.loads for kind in plan.hardware_kinds for on in kind.engines} <= {
        "unknown",
        "elsewhere",
        "not supported",
    }
    assert "weights_not_looked_at" not in risks(plan)


@pytest.mark.parametrize(
    ("word", "scheme"),
    [("bf16", "none"), ("FP16", "none"), ("fp8", "fp8"), ("awq-int4", "awq_int4"), ("q4_1", "gguf"), ("IQ3_M", "gguf"),
     ("quark", ""), ("secret sauce", "")],
)  # fmt: skip
def test_the_plans_word_for_its_weights(word: str, scheme: str) -> None:
    assert scheme_of(word) == scheme


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (WeightFile(name="a", size_bytes=1), "hashes_not_computed"),
        (WeightFile(name="a", size_bytes=1, recorded="1", recorded_in="SUMS"), "hashes_not_computed"),
        (WeightFile(name="a", size_bytes=1, sha256="2", recorded="1", recorded_in="SUMS"), "weights_changed"),
        (WeightFile(name="a", size_bytes=1, sha256="1", recorded="1", recorded_in="SUMS"), None),
        (WeightFile(name="a", size_bytes=1, sha256="1"), None),
    ],
)
def test_what_is_not_known_of_the_files_is_a_risk(file: WeightFile, code: str | None) -> None:
    found = risks(made(Made(weights=Weights(scheme="fp8", said_in="config.json", files=(file,)))))
    assert {"hashes_not_computed", "weights_changed"} & set(found) == ({code} if code else set())


def test_pickles_and_code_of_the_models_own_are_risks() -> None:
    weights = Weights(scheme="fp8", said_in="config.json", pickles=("w.bin",), remote_code=("modeling.py",))
    found = risks(made(Made(weights=weights)))
    assert found["pickles"] == ["Files that run code when loaded: w.bin."]
    assert found["remote_code"] == ["The model brings code of its own: modeling.py."]


def test_each_date_is_told_the_earliest_first_and_what_is_stale_is_a_risk() -> None:
    plan = made(Made())
    assert [one.good_until for one in plan.goes_stale] == sorted(one.good_until for one in plan.goes_stale)
    first = plan.goes_stale[0]
    assert (first.what, first.good_until, first.stale) == ("Far: security policy", date(2026, 11, 21), True)
    assert plan.good_until == date(2026, 11, 21)
    assert "the price of h100_sxm" in {one.what for one in plan.goes_stale}
    assert len(risks(plan)["stale"]) == 1


@pytest.mark.parametrize(("today", "stale"), [(date(2026, 11, 21), False), (date(2026, 11, 22), True)])
def test_a_fact_holds_through_its_last_day(today: date, stale: bool) -> None:  # noqa: FBT001 - the table's answer
    policy = made(Made(today=today)).others[0].fact("security_policy")
    assert policy is not None
    assert policy.stale is stale


def test_the_plans_own_price_has_no_date_to_go_stale() -> None:
    plan = made(Made(plan_text=f"{PLAN}\n[prices]\ndevice_hour = 2.0\n"))
    assert "the price of h100_sxm" not in {one.what for one in plan.goes_stale}


def test_a_rehearsal_is_told_once_its_day_has_come() -> None:
    table = '[exit]\nleave_to = "far"\n[[exit.rehearsals]]\nto = "far"\non = 2026-12-24\noutcome = "fine"\n'
    before, after = made(Made(exit_table=table)), made(Made(exit_table=table, today=date(2026, 12, 24)))
    assert before.rehearsals == ()
    assert "A rehearsal of 2026-12-24 is recorded and yet to come." in risks(before)["not_rehearsed"]
    assert [one.outcome for one in after.rehearsals] == ["fine"]
    assert "not_rehearsed" not in risks(after)


def test_a_rehearsal_of_another_move_is_not_that_of_the_way_out() -> None:
    third = '\n[[candidates]]\nengine = "third"\nversion = "3"\n'
    table = '[exit]\nleave_to = "far"\n[[exit.rehearsals]]\nto = "third"\non = 2026-11-24\noutcome = "fine"\n'
    plan = made(Made(plan_text=PLAN + third, exit_table=table, surfaces=(NEAR, FAR, None), moves=(*Made().moves,) * 2))
    assert risks(plan)["not_rehearsed"] == ["No move to far, the way out, was rehearsed."]


def test_gates_that_fail_or_are_open_are_risks_of_that_side() -> None:
    gates = (
        GateResult(name="security_policy", passed=False, reason="Not found."),
        GateResult(name="support", passed=None, reason="No fact.", question="whether it is sold"),
        GateResult(name="runs_on_hardware", passed=True, reason="Runs."),
    )
    found = risks(made(Made(gates=gates)))
    assert found["gate_fails"] == ["Far 2.0 fails the plan's gate security policy. Not found."]
    assert found["gate_open"] == ["Far 2.0 leaves the plan's gate support open: whether it is sold."]


def test_steps_done_elsewhere_are_the_plans_word_and_a_day_to_come_is_not_done() -> None:
    table = (
        "[exit.done]\n"
        'published_run = { on = 2026-11-02, where = "notes" }\n'
        'load_test = { on = 2026-12-01, where = "bench" }\n'
        'risk_answer = { on = 2026-12-02, where = "asked" }\n'
    )
    plan = made(Made(exit_table=table))
    pull = step(plan, "Pull the current InferenceX run")
    assert (pull.done, pull.said, pull.known_by) == (True, "2026-11-02: notes", "plan")
    assert step(plan, "Run a load test").done
    answer = step(plan, "Have the question of the security policy")
    assert (answer.done, answer.said) == (False, "recorded for 2026-12-02, which is yet to come")


def test_a_bake_off_of_every_candidate_is_a_load_test_and_tuning() -> None:
    both = (
        MeasuredCandidate(engine="near", version="1.0", figures=()),
        MeasuredCandidate(engine="far", version="2.0", figures=()),
    )
    plan = made(Made(measured=both))
    assert step(plan, "Run a load test").known_by == "seen"
    assert step(plan, "Tune every candidate").done
    doubt = Caveat(code=UNTUNED, text="Defaults alone.")
    lazy = (both[0], dataclasses.replace(both[1], caveats=(doubt,)))
    assert not step(made(Made(measured=lazy)), "Tune every candidate").done
    one = step(made(Made(measured=both[:1])), "Tune every candidate")
    assert (one.done, one.said) == (False, "a bake-off tried settings of near, and not of far")


def test_settings_that_the_plan_pins_are_no_tuning() -> None:
    tuned = step(made(Made()), "Tune every candidate")
    assert (tuned.done, tuned.said) == (False, "not recorded; the plan pins near max_running = 64")


def test_overlap_of_described_traffic_was_not_measured() -> None:
    described = PLAN.replace(
        'path = "log.jsonl"', "synthetic = { requests = 10, rate_rps = 1.0, input_tokens = 9, output_tokens = 9 }"
    )
    overlap = step(made(Made(plan_text=described)), "Measure how much prefix")
    assert (overlap.done, overlap.known_by) == (False, "")


def test_the_orchestration_layer_is_confirmed_by_a_move_through_it_alone() -> None:
    told = '[exit]\norchestration = "one Service"\n'
    moved = f'{told}[[exit.rehearsals]]\nto = "far"\non = 2026-11-24\noutcome = "fine"\n'
    assert step(made(Made(exit_table=told)), "Confirm").said == "one Service; no move through it was rehearsed"
    assert step(made(Made(exit_table=moved)), "Confirm").done


def test_the_checks_are_the_three_of_the_comparison() -> None:
    checks: tuple[Check, ...] = made(Made()).checks
    assert [(check.when, len(check.steps)) for check in checks] == [
        ("This week", 3), ("This month", 2), ("Before the next capacity commitment", 4),
    ]  # fmt: skip


def test_the_letter_is_two_lines_with_the_policy_of_both_sides_and_its_dates() -> None:
    told = '[exit]\nserves = "near"\nleave_to = "far"\nrisk_owner = "Third-Party Risk"\n'
    letter = made(Made(exit_table=told)).letter
    assert letter.to == "Third-Party Risk"
    first, second = letter.lines
    assert first == (
        "We serve org/Tiny with Near 1.0. Its security policy: Of near: security_policy is True. (published: near's "
        "pages, seen 2026-11-01)"
    )
    assert second == (
        "May we depend on Near 1.0, and on Far 2.0 (no security policy found: far's pages, seen 2026-11-01, stale "
        "after 2026-11-21: look again first), our way out, under our policy for third-party software? Please answer in "
        "writing: yes, no, or what is missing."
    )
    assert all("\n" not in line for line in letter.lines)


def test_the_letter_says_where_no_fact_is_at_hand() -> None:
    facts = msgspec.structs.replace(FACTS, facts=(fact("near", "licence", "MIT"),))
    first, second = made(Made(facts=facts)).letter.lines
    assert first.startswith("We mean to serve ")
    assert first.endswith("Its security policy: no fact at hand says whether there is one.")
    assert "and if we leave it, on Far 2.0 (no fact at hand on its security policy)," in second


def test_it_is_made_of_what_is_passed_in_alone() -> None:
    assert made(Made()) == made(Made())
    assert made(Made()).made_on == TODAY


def test_a_password_in_an_address_is_left_out_wherever_an_address_may_stand() -> None:
    where = '"https://me:quokka@ledger.example.org"'
    table = (
        f"[exit]\nevals = {where}\nrouting = {where}\nmetering = {where}\norchestration = {where}\n"
        f'[[exit.rehearsals]]\nto = "far"\non = 2026-11-12\noutcome = "fine"\nwhere = {where}\n'
        f"[exit.done]\nroadmap = {{ on = 2026-11-12, where = {where} }}\n"
    )
    told = msgspec.json.encode(made(Made(exit_table=table))).decode()
    assert "quokka" not in told
    assert told.count("ledger.example.org") >= 6
