from __future__ import annotations

from datetime import date

import pytest

from unmoor.core.errors import PlanError
from unmoor.core.plan_text import read_plan
from unmoor.core.slo import Slo

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
        ("count = 8", "count = 8\n[prices]\ndevice_hour = -1", "'prices.device_hour' is out of range", 13, None),
        ("count = 8", 'count = 8\n[prices]\nas_of = "June"', "wrong value for 'prices.as_of'", 13, None),
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


@pytest.mark.parametrize("written", ["2026-10-01", '"2026-10-01"'])
def test_a_date_is_one_of_toml_or_text(written: str) -> None:
    plan = read_plan(f"{GOOD}[prices]\nas_of = {written}\n", where="p.toml")
    assert plan.prices.as_of == date(2026, 10, 1)


@pytest.mark.parametrize(
    ("line", "seen", "expected"),
    [
        ('device_hour = "2.10"', '"2.10"', "a number"),
        ("source = 3", "3", "text"),
        ('as_of = "June"', '"June"', "a date, like 2026-11-30"),
        ("as_of = 2026-10-01T10:00:00", "2026-10-01 10:00:00", "a date, like 2026-11-30"),
        ("device_hour = nan", "nan", "0 or more"),
    ],
)
def test_a_wrong_value_is_shown_and_what_was_expected_is_said_in_words(line: str, seen: str, expected: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_plan(f"{GOOD}[prices]\n{line}\n", where="p.toml")
    assert (caught.value.seen, caught.value.expected) == (seen, expected)


def test_long_bounds_are_said_in_seconds() -> None:
    assert Slo(ttft_s=1500, tpot_s=0.05).describe() == "p95 TTFT <= 1,500 s, p95 TPOT <= 50 ms"
    assert Slo(e2e_s=12.5).describe() == "p95 E2E <= 12.5 s"


WHOLE = """
name = "agents"
[traffic.synthetic]
requests = 40
rate_rps = 8.0
input_tokens = 4000
output_tokens = 40
[slo]
ttft_s = 1.5
[model]
name = "m"
weights = "fp8"
[hardware]
device = "cpu"
count = 8
[[candidates]]
engine = "vllm"
optional = true
[[candidates]]
engine = "sglang"
optional = false
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("requests = 40", "requests = 1_000_000_000", "from 1 to 1,000,000"),
        ("requests = 40", f"requests = {'9' * 5000}", "too many digits"),
        ("input_tokens = 4000", "input_tokens = 9_999_999_999", "from 1 to 10,000,000"),
        ("rate_rps = 8.0", "rate_rps = 1e-300", "from 0.000001 to 1,000,000"),
        ("rate_rps = 8.0", "rate_rps = 8.0\nburstiness = 1e200", "from 0.01 to 100"),
        ("rate_rps = 8.0", "rate_rps = 8.0\nburstiness = 1e-200", "from 0.01 to 100"),
        ("count = 8", "count = 80_000_000", "from 1 to 1,024"),
        ('name = "agents"', 'name = "a\\u0000b"', "a control character"),
        ('name = "agents"', 'name = "\\u001b[31mred"', "a control character"),
        ('name = "agents"', '"\\u001b" = 1', "a control character"),
        ('name = "agents"', 'name = " "', "'name' is empty"),
        ('device = "cpu"', 'device = ""', "'hardware.device' is empty"),
        ("optional = false", f"settings = {'[' * 5000}{']' * 5000}", "nested too deeply"),
        ("optional = false", f"{'a.' * 20000}a = 1", "nested too deeply"),
    ],
)
def test_what_no_plan_can_mean_is_refused_at_once_and_with_a_way_out(old: str, new: str, told: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_plan(WHOLE.replace(old, new, 1), where="p.toml")
    assert told in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("bad", ['optional = "yes"', "optionl = true"])
def test_a_mistake_in_the_second_candidate_is_placed_there(bad: str) -> None:
    text = WHOLE.replace("optional = false", bad)
    with pytest.raises(PlanError) as caught:
        read_plan(text, where="p.toml")
    assert caught.value.where == f"p.toml:{text.splitlines().index(bad) + 1}"
