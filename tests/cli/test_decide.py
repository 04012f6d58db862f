"""`unmoor decide` as a user runs it: a real plan, real traffic, the real prediction, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
AGENTS = ROOT / "examples" / "agents" / "plan.toml"
CHAT = ROOT / "examples" / "chat" / "plan.toml"
TRACE = ROOT.parent / "shared" / "traces" / "mooncake-conversation.jsonl"

NUMBER, MAYBE = (int, float), (int, float, type(None))
TEXT, MAYBE_TEXT = (str,), (str, type(None))
TOKENS = {"total": (int,), "mean": NUMBER, "p50": NUMBER, "p95": NUMBER, "max": (int,)}
CAVEAT = {"code": TEXT, "text": TEXT}
FIGURE = {
    "metric": TEXT, "value": MAYBE, "low": MAYBE, "high": MAYBE, "unit": TEXT, "kind": TEXT, "validated": (bool,),
    "source": TEXT, "as_of": TEXT, "detail": TEXT,
}  # fmt: skip
GATE = {
    "name": TEXT, "passed": (bool, type(None)), "reason": TEXT, "source": MAYBE_TEXT, "as_of": MAYBE_TEXT,
    "question": MAYBE_TEXT,
}  # fmt: skip
LEAVING = {"subject": TEXT, "text": TEXT, "kind": TEXT, "counts": (bool,), "source": TEXT, "as_of": TEXT}
TRAFFIC = {
    "requests": (int,), "duration_s": NUMBER, "input_tokens": (dict,), "output_tokens": (dict,), "offered_rps": MAYBE,
    "burstiness": MAYBE, "prefix_overlap": MAYBE, "overlap_block_tokens": (int, type(None)), "source": TEXT,
    "format": TEXT, "fingerprint": TEXT, "caveats": (list,),
}  # fmt: skip
COST = {
    "per_hour": MAYBE, "per_million_output_tokens": (dict, type(None)), "currency": TEXT, "source": TEXT,
    "as_of": MAYBE_TEXT, "per_million_output_tokens_at_own_rate": (dict, type(None)),
    "per_million_good_requests": (dict, type(None)), "good_requests_reason": MAYBE_TEXT,
}  # fmt: skip
CANDIDATE = {
    "engine": TEXT, "version": MAYBE_TEXT, "gates": (list,), "evidence": (list,), "cost": (dict,), "caveats": (list,),
    "headroom": (dict, type(None)), "leaving": (list,), "paired": (list,),
}  # fmt: skip
VERDICT = {
    "pick": MAYBE_TEXT, "pick_version": MAYBE_TEXT, "sentence": TEXT, "decided_by": TEXT, "against": TEXT, "risk": TEXT,
    "not_for": TEXT, "tie": (bool,),
}  # fmt: skip
WHOLE = {
    "plan": TEXT, "made_on": TEXT, "slo": TEXT, "hardware": TEXT, "model": TEXT, "traffic": (dict,),
    "candidates": (list,), "verdict": (dict,), "mend_first": (list,),
}  # fmt: skip
MEND_FIRST = {
    "what": TEXT, "share_lost": NUMBER, "gain": NUMBER, "kv_tokens": (int, type(None)), "fix": TEXT,
    "looked_at": (int,),
}  # fmt: skip


def unmoor(*args: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "unmoor.cli", *map(str, args)], capture_output=True, text=True, check=False, cwd=cwd
    )


def check(found: Any, shape: Mapping[str, tuple[type, ...]]) -> None:  # noqa: ANN401 - JSON as it was parsed
    assert set(found) == set(shape)
    assert [key for key, kinds in shape.items() if not isinstance(found[key], kinds)] == []


def check_figure(found: Any) -> None:  # noqa: ANN401 - JSON as it was parsed
    check(found, FIGURE)
    assert found["kind"] in {"measured", "published", "predicted", "claimed"}
    assert found["source"]
    assert found["as_of"]
    if not found["validated"]:
        assert found["value"] is None
        assert (found["low"], found["high"]) != (None, None)
    elif found["low"] is not None and found["high"] is not None:
        assert found["low"] <= found["value"] <= found["high"]


def check_contract(found: Any) -> None:  # noqa: ANN401 - JSON as it was parsed
    check(found, WHOLE)
    check(found["traffic"], TRAFFIC)
    for tokens in ("input_tokens", "output_tokens"):
        check(found["traffic"][tokens], TOKENS)
    for candidate in found["candidates"]:
        check(candidate, CANDIDATE)
        check(candidate["cost"], COST)
        for gate in candidate["gates"]:
            check(gate, GATE)
        for fact in candidate["leaving"]:
            check(fact, LEAVING)
        for caveat in candidate["caveats"]:
            check(caveat, CAVEAT)
        for figure in candidate["evidence"]:
            check_figure(figure)
        tokens, good = (candidate["cost"][f"per_million_{of}"] for of in ("output_tokens", "good_requests"))
        own = candidate["cost"]["per_million_output_tokens_at_own_rate"]
        for figure in (tokens, own, candidate["headroom"]):
            if figure is not None:
                check_figure(figure)
        assert (good is None) == bool(candidate["cost"]["good_requests_reason"])
    check(found["verdict"], VERDICT)
    for habit in found["mend_first"]:
        check(habit, MEND_FIRST)


def decided(done: subprocess.CompletedProcess[str]) -> Any:  # noqa: ANN401 - JSON as it was parsed
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    check_contract(found)
    return found


@pytest.fixture(scope="module")
def agents() -> subprocess.CompletedProcess[str]:
    return unmoor("decide", AGENTS, "--json", "--as-of", "2026-11-30")


def test_the_reference_plan_keeps_the_contract_for_machines(agents: subprocess.CompletedProcess[str]) -> None:
    found = decided(agents)
    assert [c["engine"] for c in found["candidates"]] == ["vllm", "sglang", "tensorrt-llm"]
    assert found["traffic"]["requests"] == 1200
    assert 3900 < found["traffic"]["input_tokens"]["mean"] < 4100
    assert 390 < found["traffic"]["output_tokens"]["mean"] < 410
    assert found["traffic"]["prefix_overlap"] > 0.7


def test_the_reference_plan_is_decided_by_its_gates(agents: subprocess.CompletedProcess[str]) -> None:
    found = decided(agents)
    verdict = found["verdict"]
    assert (verdict["pick"], verdict["decided_by"], verdict["tie"]) == ("vllm", "gates", False)
    assert verdict["sentence"].startswith("Run vLLM 0.33.0 as ")
    assert "(SGLang: security policy not found; TensorRT-LLM: does not run on AMD)" in verdict["sentence"]
    assert "80% of prompt tokens" in verdict["against"]
    failed = {c["engine"]: [g["name"] for g in c["gates"] if g["passed"] is False] for c in found["candidates"]}
    assert failed == {"vllm": [], "sglang": ["security_policy"], "tensorrt-llm": ["hardware_possible"]}


def test_every_engine_has_a_rate_for_each_layout_and_a_cost(agents: subprocess.CompletedProcess[str]) -> None:
    for candidate in decided(agents)["candidates"]:
        rates = [f for f in candidate["evidence"] if f["metric"] == "max_rate_at_slo_rps"]
        assert {"4 × TP2", "2 × TP4", "1 × TP8"} <= {f["detail"].split(",")[0] for f in rates}
        assert candidate["cost"]["per_hour"] == pytest.approx(4.14 * 8)
        assert candidate["cost"]["per_million_output_tokens"]["kind"] == "predicted"
        assert candidate["cost"]["per_million_good_requests"] is None
        own = candidate["cost"]["per_million_output_tokens_at_own_rate"]
        assert own["low"] == pytest.approx(2.9, abs=0.05), "at the traffic's own rate it does not depend on the engine"
        assert candidate["headroom"]["low"] > 2


def test_progress_goes_to_standard_error(agents: subprocess.CompletedProcess[str]) -> None:
    assert agents.stderr.startswith("plan: agents\ntraffic: 1200 requests over 150 s\n")
    assert "page:" not in agents.stderr


@pytest.mark.trace
@pytest.mark.skipif(not TRACE.exists(), reason=f"the public trace is not at {TRACE}")
def test_a_plan_on_a_real_public_trace_is_a_tie_that_the_default_wins() -> None:
    found = decided(unmoor("decide", CHAT, "--json"))
    assert found["traffic"]["requests"] == 12031
    assert found["traffic"]["prefix_overlap"] == pytest.approx(0.374, abs=0.001)
    assert (found["verdict"]["pick"], found["verdict"]["tie"]) == ("vllm", True)
    assert all(any(f["metric"] == "max_rate_at_slo_rps" for f in c["evidence"]) for c in found["candidates"])


SMALL = """
name = "small"
[traffic.synthetic]
requests = 40
rate_rps = 4.0
input_tokens = 200
output_tokens = 20
[slo]
ttft_s = 1.0
[model]
name = "m"
weights = "bf16"
[hardware]
device = "cpu"
[[candidates]]
engine = "vllm"
"""


def test_what_to_mend_in_the_prompts_is_said_before_the_verdict_without_a_word_of_them(tmp_path: Path) -> None:
    secret, rows = "zanzibar", []
    for n in range(40):
        shared = (
            f"It is 2026-11-30 {n % 24:02d}:{n:02d} now. " + f"You help {secret} customers with their orders. " * 20
        )
        messages = [{"role": "system", "content": shared}, {"role": "user", "content": f"{secret} question {n}"}]
        rows.append(
            {"timestamp": n, "request": {"model": "m", "messages": messages}, "usage": {"completion_tokens": 5}}
        )
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    plan = (
        SMALL.partition("[traffic.synthetic]")[0] + '[traffic]\npath = "log.jsonl"\n[slo]' + SMALL.partition("[slo]")[2]
    )
    (tmp_path / "plan.toml").write_text(plan)
    told = unmoor("decide", "plan.toml", "--json", cwd=tmp_path)
    (habit,) = decided(told)["mend_first"]
    assert (habit["what"], habit["looked_at"], habit["kv_tokens"]) == ("date_in_prefix", 40, None)
    assert habit["share_lost"] > 0.8
    assert habit["gain"] == habit["share_lost"]
    text = unmoor("decide", "plan.toml", "--html", "page.html", cwd=tmp_path)
    page = (tmp_path / "page.html").read_text()
    for said, verdict in ((text.stdout, "── Verdict"), (page, 'aria-label="Verdict"')):
        assert 0 < said.index("First mend your prompts") < said.index(verdict)
        assert "date in prefix: costs" in said
    assert secret not in told.stdout + text.stdout + page


def test_nothing_is_to_mend_where_there_is_no_text(agents: subprocess.CompletedProcess[str]) -> None:
    assert decided(agents)["mend_first"] == []


def test_this_machine_is_not_predicted_and_the_page_lands_under_reports(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(SMALL)
    done = unmoor("decide", "plan.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "run `unmoor bakeoff` on this" in done.stdout
    assert "not known (no rate at the SLO, or no price)" in done.stdout
    assert done.stderr.endswith("page: reports/small/report.html\n")
    assert (tmp_path / "reports" / "small" / "report.html").read_text().startswith("<!doctype html>")


def test_the_page_goes_where_html_says(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(SMALL)
    done = unmoor("decide", "plan.toml", "--json", "--html", "out/page.html", cwd=tmp_path)
    decided(done)
    assert (tmp_path / "out" / "page.html").exists()
    assert not (tmp_path / "reports").exists()


def test_a_page_that_cannot_be_written_is_the_worlds_failure(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(SMALL)
    done = unmoor("decide", "plan.toml", "--html", "plan.toml/page.html", cwd=tmp_path)
    assert done.returncode == 1
    assert "error: plan.toml/page.html: the page cannot be written" in done.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('engine = "vllm"', 'engine = "vlm"'), "plan.toml:16: unknown engine 'vlm'"),
        (('engine = "vllm"', 'engine = "vllm"\n[gates]\nhardware_possible = ["ndvidia"]'), "did you mean 'nvidia'?"),
        (('name = "small"', 'name = "small"\ndefault_engine = "sgl"'), "plan.toml:3: unknown engine 'sgl'"),
        (("ttft_s", "ttfts"), "unknown key 'ttfts'"),
        (('device = "cpu"', 'device = "H100"'), "plan.toml:14: unknown device in 'hardware.device'"),
        (
            ('engine = "vllm"', 'engine = "vllm"\nsettings = { max_runing = 4 }'),
            "plan.toml:17: vLLM has no knob 'max_runing'",
        ),
    ],
)
def test_a_mistake_in_the_plan_is_one_clear_error(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    (tmp_path / "plan.toml").write_text(SMALL.replace(*change))
    done = unmoor("decide", "plan.toml", "--json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_plan_is_said_to_be_missing(tmp_path: Path) -> None:
    done = unmoor("decide", "nothing.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: nothing.toml: cannot be read")


def test_what_was_measured_on_this_machine_is_no_evidence_for_other_hardware(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(SMALL.replace('"cpu"', '"h100_sxm"'))
    done = unmoor("decide", "plan.toml", "--run", "runs/any", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "a bake-off measures this machine's processor, which says nothing of the plan's hardware" in done.stderr
    assert "hardware.device = 'h100_sxm'" in done.stderr


def test_a_plans_name_leads_to_no_other_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "plan.toml").write_text(SMALL.replace('name = "small"', 'name = "../../UP"'))
    done = unmoor("decide", "plan.toml", cwd=tmp_path / "in")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "in" / "reports" / "up" / "report.html").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_where_the_page_cannot_be_written_nothing_is_printed(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(SMALL)
    done = unmoor("decide", "plan.toml", "--json", "--html", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the page cannot be written" in done.stderr
