from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from breakers import score
from breakers_logs import cases


@pytest.mark.parametrize("held_out", [False, True], ids=["tuned", "held out"])
def test_on_other_seeds_than_the_benchmarks_findings_are_right_and_little_is_missed(*, held_out: bool) -> None:
    logs = cases(31, held_out=held_out)
    slice_of = [case for case in logs if not case.kinds] + [case for case in logs if case.kinds][::4]
    total = score(slice_of)
    assert total.clean >= 10
    assert total.logs - total.clean >= 7
    assert total.clean_with_findings == 0
    assert total.precision() >= 0.95
    assert total.recall() >= 0.85
