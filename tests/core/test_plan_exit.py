"""The `[exit]` table of a plan: read strictly, and nothing in it where the plan has none."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from unmoor.core.errors import PlanError
from unmoor.core.plan import DoneStep, DoneSteps, ExitTable, RehearsedMove
from unmoor.core.plan_text import read_plan

AGENTS = (Path(__file__).parent.parent.parent / "examples" / "agents" / "plan.toml").read_text()
LINE = len(AGENTS.splitlines()) + 1


def test_a_plan_without_the_table_records_nothing() -> None:
    assert read_plan(AGENTS, where="plan.toml").exit == ExitTable()


def test_every_key_is_read() -> None:
    told = """
[exit]
serves = "vllm"
leave_to = "sglang"
model = "models/m"
evals = "evals"
routing = "routing.toml"
metering = "https://ledger.example.org"
orchestration = "one Service"
start = "start.sh"
adapters = "adapters"
schemas = "schemas"
dashboards = ["a.json", "b.yaml"]
risk_owner = "Third-Party Risk"

[[exit.rehearsals]]
to = "sglang"
on = 2026-11-12
outcome = "served"

[exit.done]
roadmap = { on = "2026-11-01", where = "notes" }
"""
    found = read_plan(AGENTS + told, where="plan.toml").exit
    assert found == ExitTable(
        serves="vllm", leave_to="sglang", model="models/m", evals="evals", routing="routing.toml",
        metering="https://ledger.example.org", orchestration="one Service", start="start.sh", adapters="adapters",
        schemas="schemas", dashboards=("a.json", "b.yaml"), risk_owner="Third-Party Risk",
        rehearsals=(RehearsedMove(to="sglang", on=date(2026, 11, 12), outcome="served"),),
        done=DoneSteps(roadmap=DoneStep(on=date(2026, 11, 1), where="notes")),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "line", "said"),
    [
        ('[exit]\nserves = "vlm"', 1, "expected: one of sglang, tensorrt-llm, vllm"),
        ('[exit]\nserves = "vllm"\nleave_to = "vllm"', 2, "another candidate than serves"),
        ('[exit]\nevals = " "', 1, "'exit.evals' is empty"),
        ("[exit]\nevals = 3", 1, "wrong value for 'exit.evals'"),
        ('[exit]\neval = "x"', 1, "did you mean 'evals'?"),
        ('[exit]\ndashboards = "x"', 1, "expected: a list"),
        ('[exit]\ndashboards = [""]', 1, "'exit.dashboards' is empty"),
        ('[[exit.rehearsals]]\nto = "x"\non = 2026-01-01\noutcome = "y"', 1, "'exit.rehearsals.to' is no candidate"),
        ('[[exit.rehearsals]]\nto = "vllm"\noutcome = "x"', 0, "missing key 'on'"),
        ("[exit.done]\ntuning = { on = 2026-11-01 }", 1, "missing key 'where'"),
        ('[exit.done]\ntuning = { on = "soon", where = "x" }', 1, "a date, like 2026-11-30"),
        ('[exit.done]\ntuned = { on = 2026-11-01, where = "x" }', 1, "did you mean 'tuning'?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(told: str, line: int, said: str) -> None:
    with pytest.raises(PlanError) as refused:
        read_plan(f"{AGENTS}{told}\n", where="plan.toml")
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"plan.toml:{LINE + line}: ")
    assert refused.value.hint


def test_versions_of_one_engine_are_named_with_their_version() -> None:
    two = AGENTS.replace('engine = "sglang"\nversion = "0.5.23"', 'engine = "vllm"\nversion = "0.32.0"')
    told = '[exit]\nserves = "vllm@0.32.0"\nleave_to = "vllm@0.33.0"\n'
    assert read_plan(two + told, where="plan.toml").exit.serves == "vllm@0.32.0"
    with pytest.raises(PlanError, match=r"'exit\.serves' may be several candidates") as refused:
        read_plan(f'{two}[exit]\nserves = "vllm"\n', where="plan.toml")
    assert refused.value.expected == "vllm@0.33.0 or vllm@0.32.0"
