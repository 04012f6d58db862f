"""Comparisons of settings: what must hold whatever was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_blocks import TERMS, blocks

from unmoor.bakeoff.comparison import beats, compare, standing
from unmoor.bakeoff.result import DEFAULTS, Comparison, Finding

MARGIN = 0.05
TURNED = {
    Finding.BETTER: Finding.WORSE,
    Finding.WORSE: Finding.BETTER,
    Finding.TIE: Finding.TIE,
    Finding.NO_EFFECT: Finding.NO_EFFECT,
}
STEADY = (1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 1.1, 0.9, 1.0)

seconds = st.one_of(st.none(), st.floats(0.01, 10.0))
repeats = st.lists(st.lists(seconds, min_size=3, max_size=8), min_size=1, max_size=3)


def by_metric(found: Sequence[Comparison]) -> dict[str, Comparison]:
    return {comparison.metric: comparison for comparison in found}


@given(before=repeats, after=repeats)
@settings(deadline=None, max_examples=60)
def test_swapping_the_two_turns_every_effect_round(
    before: list[list[float | None]], after: list[list[float | None]]
) -> None:
    there = compare(blocks("a", *before), blocks("b", *after), TERMS, margin=MARGIN)
    back = compare(blocks("b", *after), blocks("a", *before), TERMS, margin=MARGIN)
    for one, other in zip(there, back, strict=True):
        assert other.finding is TURNED[one.finding]
        assert (one.pairs, one.failed_before, one.failed_after) == (
            other.pairs,
            other.failed_after,
            other.failed_before,
        )
        if one.effect is None or other.effect is None:
            assert one.effect is other.effect
        elif one.kind == "ratio":
            assert one.effect * other.effect == pytest.approx(1)
        else:
            assert one.effect + other.effect == pytest.approx(0)


@given(times=repeats)
@settings(deadline=None, max_examples=40)
def test_identical_records_are_a_tie_and_the_defaults_stand(times: list[list[float | None]]) -> None:
    found = by_metric(compare(blocks("a", *times), blocks("b", *times), TERMS, margin=MARGIN))
    assert found["slo_attainment"].finding is Finding.TIE
    answered = any(time is not None for block in times for time in block[1:])
    assert found["scheduled_e2e_s"].finding is (Finding.TIE if answered else Finding.NO_EFFECT)
    assert standing([blocks(DEFAULTS, *times), blocks("x=1", *times)], TERMS, margin=MARGIN).best == DEFAULTS


@given(times=repeats, share=st.floats(0.2, 0.8))
@settings(deadline=None, max_examples=40)
def test_a_shift_that_was_put_in_is_found(times: list[list[float | None]], share: float) -> None:
    whole = [[time or 1.0 for time in block] for block in times]
    faster = [[time * share for time in block] for block in whole]
    found = by_metric(compare(blocks("a", *whole), blocks("b", *faster), TERMS, margin=MARGIN))["scheduled_e2e_s"]
    assert found.effect == pytest.approx(share, rel=1e-6)
    assert found.finding is (Finding.BETTER if len(times) > 1 else Finding.NO_EFFECT), "one start alone shows nothing"


@given(times=repeats, faster=st.floats(0.2, 0.9), failed=st.integers(0, 7))
@settings(deadline=None, max_examples=60)
def test_a_failure_never_makes_a_setting_better(times: list[list[float | None]], faster: float, failed: int) -> None:
    before = [[time or 1.0 for time in block] for block in times]
    after: list[list[float | None]] = [[time * faster for time in block] for block in before]
    worse: list[list[float | None]] = [[None if n == failed else t for n, t in enumerate(block)] for block in after]
    whole = compare(blocks("a", *before), blocks("b", *after), TERMS, margin=MARGIN)
    broken = compare(blocks("a", *before), blocks("b", *worse), TERMS, margin=MARGIN)
    for one, other in zip(whole, broken, strict=True):
        assert other.finding is not Finding.BETTER or one.finding is Finding.BETTER
    assert (broken[0].effect or 0.0) <= (whole[0].effect or 0.0)


def test_pairs_are_of_the_same_request_in_the_same_repeat() -> None:
    before = blocks("a", (9.0, 1.0, 2.0, 4.0), (9.0, 1.0))
    after = blocks("b", (9.0, 2.0, 4.0, 8.0))
    found = by_metric(compare(before, after, TERMS, margin=MARGIN))["scheduled_e2e_s"]
    assert found.pairs == 3, "the request left out and the repeat that only one has are no pairs"
    assert found.effect == pytest.approx(2.0)


def test_an_effect_of_one_restart_alone_is_not_separated() -> None:
    before = blocks("a", STEADY, STEADY)
    after = blocks("b", [t * 0.5 for t in STEADY], [t * 1.05 for t in STEADY])
    found = by_metric(compare(before, after, TERMS, margin=MARGIN))["scheduled_e2e_s"]
    assert found.effect == pytest.approx(math.sqrt(0.5 * 1.05))
    assert found.finding is Finding.NO_EFFECT


def test_repeats_that_do_not_agree_show_no_effect() -> None:
    before = blocks("a", STEADY, STEADY)
    after = blocks("b", [t * 0.3 for t in STEADY], [t * 0.85 for t in STEADY])
    found = by_metric(compare(before, after, TERMS, margin=MARGIN))["scheduled_e2e_s"]
    assert found.high is not None
    assert found.high < 1, "the interval alone would call it an effect"
    assert found.finding is Finding.NO_EFFECT


def test_a_separated_difference_within_the_margin_is_a_tie() -> None:
    found = by_metric(
        compare(blocks("a", STEADY, STEADY), blocks("b", *[[t * 0.97 for t in STEADY]] * 2), TERMS, margin=MARGIN)
    )
    assert found["scheduled_e2e_s"].finding is Finding.TIE


def test_a_pair_with_a_failure_is_counted_and_in_no_ratio() -> None:
    before = blocks("a", STEADY)
    after = blocks("b", [None if n in {2, 3} else t * 0.5 for n, t in enumerate(STEADY)])
    found = by_metric(compare(before, after, TERMS, margin=MARGIN))["scheduled_e2e_s"]
    assert (found.pairs, found.failed_before, found.failed_after) == (7, 0, 2)
    assert found.finding is Finding.NO_EFFECT, "failing more often is no way to be faster"


def test_attainment_comes_before_speed() -> None:
    slow_but_met = blocks(DEFAULTS, [1.5] * 10, [1.5] * 10)
    fast_but_missed = blocks("x=1", *[[0.5 if n % 2 else 2.5 for n in range(10)]] * 2)
    assert not beats(compare(slow_but_met, fast_but_missed, TERMS, margin=MARGIN))
    assert beats(compare(fast_but_missed, slow_but_met, TERMS, margin=MARGIN))


def test_of_two_that_tie_the_one_with_fewer_flags_is_best() -> None:
    defaults = blocks(DEFAULTS, STEADY, STEADY)
    one = blocks("x=1", *[[t * 0.5 for t in STEADY]] * 2)
    both = blocks("x=1, y=2", *[[t * 0.49 for t in STEADY]] * 2)
    found = standing([defaults, one, both], TERMS, margin=MARGIN)
    assert found.best == "x=1"
    assert set(found.helped) == {"x=1", "x=1, y=2"}


def test_nothing_measured_in_common_shows_no_effect() -> None:
    found = compare(blocks("a", STEADY), (), TERMS, margin=MARGIN)
    assert {comparison.finding for comparison in found} == {Finding.NO_EFFECT}
    assert {comparison.effect for comparison in found} == {None}
