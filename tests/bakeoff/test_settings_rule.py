"""The tuning rule: what is tried, in which order, and why."""

from __future__ import annotations

import msgspec
import pytest

from unmoor.bakeoff.result import DEFAULTS
from unmoor.bakeoff.settings_rule import Shape, combined, screen, shape_of, spell, weight
from unmoor.core.slo import Slo
from unmoor.core.traffic import TokenCounts, TrafficProfile
from unmoor.engines.contract import Knob
from unmoor.engines.registry import engine, engine_names

SHARED = Shape(prefix_overlap=0.75, concurrency=1.5, prompt_tokens=320, prefill_share=0.9)
CROWDED = Shape(prefix_overlap=0.0, concurrency=12, prompt_tokens=100, prefill_share=0.5)
LONG = Shape(prefix_overlap=0.05, concurrency=1.1, prompt_tokens=8000, prefill_share=0.98)
PREFIX = Knob(name="prefix", flag="--p", default=True, try_values=(False,), trades="memory", bears_on="prefix_overlap")
RUNNING = Knob(name="running", flag="--r", default=8, try_values=(4, 16), trades="TPOT", bears_on="concurrency")
BATCH = Knob(name="batch", flag="--b", default=None, try_values=(256, 1024), trades="TTFT", bears_on="prefill")


@pytest.mark.parametrize(
    ("shape", "first"), [(SHARED, "prefix"), (CROWDED, "running"), (LONG, "batch")], ids=["shared", "crowded", "long"]
)
def test_the_knob_that_bears_most_on_the_traffic_comes_first(shape: Shape, first: str) -> None:
    assert max((PREFIX, RUNNING, BATCH), key=lambda knob: weight(knob, shape)).name == first


def test_requests_in_flight_are_the_rate_times_the_time_the_slo_allows() -> None:
    counts = TokenCounts(total=3000, mean=300, p50=300, p95=310, max=330)
    answers = TokenCounts(total=210, mean=21, p50=21, p95=22, max=24)
    profile = TrafficProfile(
        requests=10, duration_s=5, input_tokens=counts, output_tokens=answers, offered_rps=2.0, burstiness=None,
        prefix_overlap=0.5, overlap_block_tokens=1, source="", format="", fingerprint="",
    )  # fmt: skip
    assert shape_of(profile, Slo(ttft_s=1.0, tpot_s=0.1)).concurrency == pytest.approx(2.0 * (1.0 + 2.1))
    assert shape_of(profile, Slo(e2e_s=3.0)).concurrency == pytest.approx(6.0)
    alone = msgspec.structs.replace(profile, offered_rps=None)
    assert shape_of(alone, Slo(e2e_s=3.0)).concurrency == 1.0


@pytest.mark.parametrize("name", engine_names())
def test_every_engine_gets_its_defaults_first_then_one_knob_at_a_time(name: str) -> None:
    adapter = engine(name)
    trials = screen(adapter, {}, SHARED, at_least=4)
    assert trials[0].name == DEFAULTS
    assert trials[0].settings == {}, "the engine's own default is a knob left out"
    assert len(trials) >= 3
    assert all(len(trial.settings) == 1 and trial.knobs == tuple(trial.settings) for trial in trials[1:])
    assert len({trial.name for trial in trials}) == len(trials)
    assert all(trial.why for trial in trials)


def test_no_value_that_is_the_default_is_tried_again() -> None:
    for name in engine_names():
        defaults = {knob.name: knob.default for knob in engine(name).knobs}
        for trial in screen(engine(name), {}, CROWDED, at_least=20)[1:]:
            knob = trial.knobs[0]
            assert trial.settings[knob] != defaults[knob]


def test_what_the_plan_pins_is_in_every_trial_and_is_not_tried() -> None:
    adapter = engine("vllm")
    pinned = {adapter.knobs[0].name: adapter.knobs[0].try_values[0]}
    trials = screen(adapter, pinned, SHARED, at_least=5)
    assert all(trial.settings.items() >= pinned.items() for trial in trials)
    assert all(adapter.knobs[0].name not in trial.knobs for trial in trials)


def test_what_helped_alone_is_put_together_when_more_than_one_did() -> None:
    trials = screen(engine("vllm"), {}, SHARED, at_least=6)
    knobs = {trial.knobs[0]: trial for trial in reversed(trials[1:])}
    helped = [trial.name for trial in list(knobs.values())[:2]]
    assert combined(trials, helped[:1]) is None
    found = combined(trials, helped)
    assert found is not None
    assert len(found.knobs) == 2


def test_of_two_values_of_one_knob_the_better_stands_and_they_are_no_combination() -> None:
    trials = screen(engine("vllm"), {}, SHARED, at_least=20)
    of_one = [trial.name for trial in trials[1:] if trial.knobs == trials[1].knobs]
    assert combined(trials, of_one) is None


def test_settings_are_spelt_as_a_plan_would() -> None:
    assert spell({"prefix_caching": True, "max_running": 4}) == "prefix_caching=true, max_running=4"
    assert spell({}) == DEFAULTS
