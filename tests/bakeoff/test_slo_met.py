"""Whether a trial is shown to meet the SLO, and the words for it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_blocks import TERMS, blocks, record

from unmoor.bakeoff.result import Block, SloFinding
from unmoor.bakeoff.slo_met import slo_finding, slo_sentence
from unmoor.core.slo import Slo

ONE_BOUND = msgspec.structs.replace(TERMS, slo=Slo(e2e_s=2.0), left_out=0)


@pytest.mark.parametrize(
    ("met", "missed", "finding"),
    [
        (36, 0, SloFinding.NOT_SHOWN),
        (34, 2, SloFinding.NOT_SHOWN),
        (200, 0, SloFinding.MEETS),
        (20, 16, SloFinding.MISSES),
    ],
)
def test_the_interval_of_the_share_is_held_against_the_quantile(met: int, missed: int, finding: SloFinding) -> None:
    made = blocks("a", [1.0] * met + [3.0] * missed)
    assert slo_finding(made, ONE_BOUND) is finding
    assert f"{finding.value} the SLO: " in slo_sentence(made, ONE_BOUND)


def test_the_sentence_has_the_share_its_interval_and_what_is_asked() -> None:
    said = slo_sentence(blocks("a", [1.0] * 34 + [3.0] * 2), ONE_BOUND)
    assert said == "is not shown to meet the SLO: 94.4 % of 36 requests within it (81.9 – 98.5), 95 % asked"


def test_bounds_that_are_missed_by_few_each_are_not_missed_because_together_they_are() -> None:
    """6 % miss one bound and another 6 % the other: 88 % are within both, where 90 % within each are asked."""
    late_to_start = [record(n, 1.0, ttft_share=0.9) for n in range(120)]
    late_to_end = [record(n, 3.0, ttft_share=0.1) for n in range(120, 240)]
    made = Block(
        trial="a",
        repeat=0,
        expected=2000,
        records=(*late_to_start, *late_to_end, *(record(n, 1.0) for n in range(240, 2000))),
    )
    terms = msgspec.structs.replace(ONE_BOUND, slo=Slo(ttft_s=0.45, e2e_s=2.0, quantile=0.9))
    assert slo_finding([made], terms) is SloFinding.NOT_SHOWN
    alone = msgspec.structs.replace(ONE_BOUND, slo=Slo(ttft_s=0.45, quantile=0.9))
    assert slo_finding([made], alone) is SloFinding.MEETS


def test_nothing_is_said_of_no_record_or_no_bound() -> None:
    assert slo_finding((), ONE_BOUND) is None
    free = msgspec.structs.replace(TERMS, slo=Slo())
    assert slo_finding(blocks("a", [1.0] * 5), free) is None
    assert slo_sentence(blocks("a", [1.0] * 5), free) == ""


@given(met=st.integers(0, 300), missed=st.integers(0, 300), quantile=st.floats(0.5, 0.99))
def test_what_meets_has_at_least_the_share_asked_and_what_misses_has_less(
    met: int, missed: int, quantile: float
) -> None:
    if not met + missed:
        return
    terms = msgspec.structs.replace(ONE_BOUND, slo=Slo(e2e_s=2.0, quantile=quantile))
    found = slo_finding(blocks("a", [1.0] * met + [3.0] * missed), terms)
    share = met / (met + missed)
    assert found is not SloFinding.MEETS or share >= quantile
    assert found is not SloFinding.MISSES or share < quantile
