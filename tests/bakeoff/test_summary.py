"""The sentences of a bake-off: what they name is what was found, and no more."""

from __future__ import annotations

from made_blocks import TERMS, blocks

from unmoor.bakeoff.ledger import Contender
from unmoor.bakeoff.result import DEFAULTS, Trial
from unmoor.bakeoff.summary import method_of, sentence_of
from unmoor.bakeoff.tuned import Tuned
from unmoor.bakeoff.versus import verdict_of
from unmoor.core.plan_text import read_plan

PLAN = """
name = "p"
traffic.path = "t.jsonl"
slo.ttft_s = 0.5
model = { name = "m", weights = "w" }
hardware.device = "cpu"
candidates = [{ engine = "e" }]
"""


def tuned(before: list[float | None], after: list[float | None]) -> Tuned:
    name = "max_running=4"
    trials = (Trial(engine="e", name=DEFAULTS), Trial(engine="e", name=name, knobs=("max_running",)))
    measured = {DEFAULTS: blocks(DEFAULTS, before, before), name: blocks(name, after, after)}
    contender = Contender(engine="e", title="E", version="1", weights="q4")
    return Tuned(contender, trials, measured, refused={}, terms=TERMS, margin=0.05)


def test_a_gain_in_time_alone_says_nothing_of_points() -> None:
    said = sentence_of(tuned([1.0, 1.1] * 20, [0.5, 0.55] * 20))
    assert "it beat the defaults: end-to-end time 0.50× as long" in said
    assert "points" not in said


def test_a_gain_in_attainment_is_said_in_points() -> None:
    said = sentence_of(tuned([1.6, *[2.4] * 11] * 4, [1.4, *[1.5] * 11] * 4))
    assert "+93.6 points of requests within the SLO" in said


def test_the_verdict_says_whether_the_slo_is_met() -> None:
    assert "E with max_running=4 misses the SLO: 0 % of 78 requests" in verdict_of((), [tuned([9.0] * 40, [5.0] * 40)])
    assert "E with max_running=4 meets the SLO: 100 % of 398" in verdict_of((), [tuned([1.0] * 200, [0.5] * 200)])


def test_defaults_that_nothing_beat_stand_and_are_not_called_best() -> None:
    said = verdict_of((), [tuned([1.0] * 40, [1.0] * 40)])
    assert said.startswith("Of E 1, its defaults stand; no engine verdict")
    assert "E with its defaults meets the SLO: 100 % of 78" in said


def test_one_request_that_is_left_out_is_one_and_none_is_not_mentioned() -> None:
    def said(left_out: int) -> str:
        return " ".join(method_of(read_plan(f"{PLAN}\nbakeoff.warmup_requests = {left_out}", where="p"), 1))

    assert "The first request of each block is sent" in said(1)
    assert "The first 2 requests of each block are sent" in said(2)
    assert "left out of every figure" not in said(0)
    assert "the same 1 request on" in said(2)
