from __future__ import annotations

import pytest

from unmoor.core.errors import PlanError
from unmoor.core.plan_text import read_plan

GOOD = """\
name = "a"
[traffic]
path = "t.jsonl"
[slo]
ttft_s = 1.5
[model]
name = "m"
weights = "fp8"
[hardware]
device = "h100_sxm"
count = 8
[[candidates]]
engine = "vllm"
"""


def test_a_plan_is_read() -> None:
    plan = read_plan(GOOD, where="p.toml")
    assert plan.slo.describe() == "p95 TTFT <= 1500 ms"
    assert [c.engine for c in plan.candidates] == ["vllm"]
    assert plan.default_engine == "vllm"


@pytest.mark.parametrize(
    ("old", "new", "message", "line", "hint"),
    [
        ("ttft_s = 1.5", "ttft = 1.5", "unknown key 'ttft' in [slo]", 5, "did you mean 'ttft_s'?"),
        ("[slo]", "[sloo]", "unknown key 'sloo'", 4, "did you mean 'slo'?"),
        ('engine = "vllm"', 'engin = "vllm"', "unknown key 'engin' in [candidates]", 13, "did you mean 'engine'?"),
        ("count = 8", 'count = "8"', "wrong value for 'hardware.count'", 11, None),
        ("count = 8", "count = 0", "'hardware.count' is out of range", 11, None),
        ("ttft_s = 1.5", "ttft_s = nan", "'slo.ttft_s' is out of range", 5, None),
        ('weights = "fp8"\n', "", "missing key 'weights' in [model]", 6, None),
        ('path = "t.jsonl"', "", "no traffic is named", 2, None),
        ('name = "m"', "name = ", "not valid TOML", 7, None),
    ],
)
def test_a_mistake_names_its_line(old: str, new: str, message: str, line: int, hint: str | None) -> None:
    with pytest.raises(PlanError) as caught:
        read_plan(GOOD.replace(old, new), where="p.toml")
    assert caught.value.message == message
    assert caught.value.where == f"p.toml:{line}"
    assert caught.value.exit_code == 2
    if hint:
        assert caught.value.hint == hint
