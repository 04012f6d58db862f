"""The whole road on real processes and sockets: interleaved, killed, resumed, reported; nothing measured twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from scripted import PLAN, Scripted, run

from unmoor.bakeoff.result import DEFAULTS, BakeoffResult, Finding, SloFinding
from unmoor.bakeoff.summary import summarise
from unmoor.measure.run_store import StoredRun

HERE = Path(__file__).parent


def lines(path: Path) -> list[tuple[str, int]]:
    """Every record's block and index, in order."""
    text = (path / "records.jsonl").read_text()
    return [(line["block"], line["record"]["index"]) for line in map(json.loads, text.splitlines())]


def only_run(runs: Path) -> Path:
    (path,) = runs.iterdir()
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[BakeoffResult, Path, list[str]]:
    end, said = run(tmp_path_factory.mktemp("runs"))
    assert end.error is None
    assert not end.interrupted
    return end.result, end.path, said


def test_the_setting_that_helps_is_found_with_a_separated_interval(
    finished: tuple[BakeoffResult, Path, list[str]],
) -> None:
    result, _, _ = finished
    (engine,) = result.engines
    assert engine.best == "prefix_caching=true"
    assert engine.effect_shown
    found = {c.metric: c for trial in engine.trials for c in trial.against_defaults}
    ttft = found["scheduled_ttft_s"]
    assert ttft.finding is Finding.BETTER
    assert ttft.high is not None
    assert ttft.high < 1
    assert ttft.pairs == 14, "two blocks of eight, less the first of each"
    assert "no engine verdict" in result.verdict
    assert result.finished


def test_settings_that_the_engine_refuses_are_recorded_and_the_others_go_on(
    finished: tuple[BakeoffResult, Path, list[str]],
) -> None:
    result, _, said = finished
    refused = result.engines[0].trial("max_running=1")
    assert refused is not None
    assert refused.failed_to_start is not None
    assert "refuses an option" in refused.failed_to_start
    assert refused.figures == ()
    assert sum("max_running=1: refused" in line for line in said) == 1, "refused once, not tried again"


def test_blocks_go_there_and_back(finished: tuple[BakeoffResult, Path, list[str]]) -> None:
    _, path, _ = finished
    blocks = list(dict.fromkeys(block for block, _ in lines(path)))
    trials = [block.split(" | ")[1] for block in blocks]
    assert trials == [DEFAULTS, "prefix_caching=true", "prefix_caching=true", DEFAULTS]


def test_settings_of_one_repeat_get_the_same_prompts_and_no_repeat_those_of_another() -> None:
    from scripted import order  # noqa: PLC0415 - beside the test that needs it

    from unmoor.bakeoff.block import BlockPlan  # noqa: PLC0415 - likewise
    from unmoor.bakeoff.result import Trial  # noqa: PLC0415 - likewise
    from unmoor.measure.prompts import planned_requests  # noqa: PLC0415 - likewise

    wanted = order()
    plans = [
        BlockPlan(
            entrant=wanted.entrants[0], trial=Trial(engine="scripted", name=name), repeat=repeat,
            requests=wanted.workload.requests, slo=wanted.plan.slo, seed=0,
        )
        for name, repeat in (("a", 0), ("b", 0), ("a", 1))
    ]  # fmt: skip
    one, same, other = (
        [p.prompt for p in planned_requests(plan.requests, range(8), overhead_tokens=3, salt=plan.salt, seed=plan.seed)]
        for plan in plans
    )
    assert one == same
    assert not set(one) & set(other)
    assert all(
        len(prompt.split()) == r.input_tokens - 3 for prompt, r in zip(one, wanted.workload.requests, strict=True)
    )


def test_a_second_bakeoff_measures_nothing_and_says_the_same(
    finished: tuple[BakeoffResult, Path, list[str]],
) -> None:
    result, path, _ = finished
    before = (path / "records.jsonl").read_bytes()
    end, said = run(path.parent)
    assert (path / "records.jsonl").read_bytes() == before
    assert end.result.engines == result.engines
    assert end.result.verdict == result.verdict
    assert said == ["everything was measured before; nothing was run"]


def test_how_busy_the_machine_was_is_kept_with_every_block(finished: tuple[BakeoffResult, Path, list[str]]) -> None:
    _, path, _ = finished
    events = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
    noted = {event["block"]: event["details"]["share"] for event in events if event["kind"] == "other_work"}
    assert set(noted) == {block for block, _ in lines(path)}
    assert all(0 <= share <= 1 for share in noted.values())


def test_the_verdict_says_whether_the_best_settings_meet_the_slo(
    finished: tuple[BakeoffResult, Path, list[str]],
) -> None:
    result, _, _ = finished
    best = result.engines[0].trial("prefix_caching=true")
    assert best is not None
    assert best.slo is SloFinding.NOT_SHOWN, "fourteen requests show no 95 %, however quick they were"
    assert "not shown to meet the SLO: 100 % of 14 requests within it" in result.verdict


def test_a_run_is_reported_again_from_its_directory_alone(finished: tuple[BakeoffResult, Path, list[str]]) -> None:
    result, path, _ = finished
    assert summarise(StoredRun(path)).engines == result.engines


def test_no_prompt_is_in_the_runs_directory(finished: tuple[BakeoffResult, Path, list[str]]) -> None:
    _, path, _ = finished
    for file in ("records.jsonl", "events.jsonl", "traffic.json", "run.json"):
        assert '"prompt"' not in (path / file).read_text()
        assert "messages" not in (path / file).read_text()


def test_kill_9_in_the_middle_loses_nothing_and_the_next_start_repeats_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, str(HERE / "scripted.py"), str(tmp_path)], stdout=subprocess.PIPE)
    try:
        _wait_for_records(tmp_path, at_least=11)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    path = only_run(tmp_path)
    kept = lines(path)
    assert 11 <= len(kept) < 32
    end, _ = run(tmp_path)
    after = lines(path)
    assert after[: len(kept)] == kept, "what was measured stays"
    assert set(Counter(after).values()) == {1}, "each request of each block was measured once"
    assert len(after) == 32
    resumed = [trial.name for trial in end.result.engines[0].trials for c in trial.caveats if c.code == "resumed"]
    cut = {block for block, count in Counter(block for block, _ in kept).items() if count < 8}
    assert len(resumed) == len(cut)
    assert end.result.engines[0].best == "prefix_caching=true"
    assert summarise(StoredRun(path)).engines == end.result.engines


def _wait_for_records(runs: Path, *, at_least: int) -> None:
    for _ in range(1200):
        found = list(runs.glob("*/records.jsonl"))
        if found and found[0].read_bytes().count(b"\n") >= at_least:
            return
        time.sleep(0.01)
    raise AssertionError("the bake-off measured nothing")


def test_ctrl_c_ends_in_good_order_with_a_partial_result(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path; from scripted import run; "
        "end, said = run(Path(sys.argv[1])); print(end.interrupted, end.result.finished, end.result.engines[0].best)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), str(HERE)], stdout=subprocess.PIPE, text=True
    )
    _wait_for_records(tmp_path, at_least=3)
    os.kill(process.pid, signal.SIGINT)
    told, _ = process.communicate(timeout=60)
    assert told.split() == ["True", "False", DEFAULTS]
    assert process.returncode == 0
    run(tmp_path)
    answered = [line for line in _records(only_run(tmp_path)) if line["record"]["outcome"] == "ok"]
    assert len(answered) == 32, "what was cut off is sent again"


def test_ctrl_c_in_a_warm_up_is_no_failure_of_the_engine(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path; from scripted import Scripted, run; "
        "end, said = run(Path(sys.argv[1]), Scripted(first_token_s=3.0)); print(end.interrupted, end.error)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), str(HERE)], stdout=subprocess.PIPE, text=True
    )
    while not list(tmp_path.glob("*/engine-logs/*.log")):
        time.sleep(0.02)
    time.sleep(5.0)  # three for the first answer, by which it is ready; then two warm-up requests of three each
    os.kill(process.pid, signal.SIGINT)
    told, _ = process.communicate(timeout=60)
    assert told.split() == ["True", "None"]
    events = (only_run(tmp_path) / "events.jsonl").read_text()
    assert "failed_trial" not in events
    assert "block_started" not in events


def _records(path: Path) -> list[dict[str, dict[str, str]]]:
    return [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]


def test_where_no_setting_matters_repeats_are_added_and_then_the_effect_is_said_to_be_absent(tmp_path: Path) -> None:
    end, said = run(tmp_path, Scripted(spared_s=0.0), plan_text=PLAN.replace("blocks = 2", "blocks = 1"))
    (engine,) = end.result.engines
    assert engine.best == DEFAULTS
    assert not engine.effect_shown
    assert "no effect was shown in 2 repeats" in engine.sentence
    assert any("one more repeat" in line for line in said)
    _, said_again = run(tmp_path, Scripted(spared_s=0.0), plan_text=PLAN.replace("blocks = 2", "blocks = 1"))
    assert said_again == ["everything was measured before; nothing was run"]


def test_where_two_knobs_help_alone_they_are_tried_together_and_a_second_start_repeats_nothing(tmp_path: Path) -> None:
    text = PLAN.replace("blocks = 2", "blocks = 1").replace("settings = 3", "settings = 4")
    engine = Scripted(spared_s=0.07, spared_by_four_s=0.1)
    end, said = run(tmp_path, engine, plan_text=text)
    (report,) = end.result.engines
    together = report.trials[-1]
    assert set(together.settings) == {"prefix_caching", "max_running"}
    assert report.best == together.name
    assert "not_interleaved" in {caveat.code for caveat in together.caveats}
    assert any("more than one knob helped" in line for line in said)
    again, said_again = run(tmp_path, engine, plan_text=text)
    assert again.result.engines == end.result.engines
    assert any("nothing was run" in line for line in said_again)


def test_an_engine_that_does_not_start_stops_itself_and_not_the_others(tmp_path: Path) -> None:
    text = PLAN.replace("blocks = 2", "blocks = 1")
    end, _ = run(tmp_path, Scripted("broken", broken=True), Scripted("whole"), plan_text=text)
    assert end.error is not None
    assert "refuses an option" in end.error.message
    assert [engine.best for engine in end.result.engines] == [None, "prefix_caching=true"]
    assert not end.result.finished


@pytest.mark.parametrize(("weights", "comparable"), [("q4", True), ("float32", False)])
def test_engines_are_ranked_tuned_against_tuned_and_only_at_one_precision(
    tmp_path: Path, weights: str, *, comparable: bool
) -> None:
    text = PLAN.replace("blocks = 2", "blocks = 1") + '\n[[candidates]]\nengine = "vllm"\n'
    text = text.replace('name = "scripted"', 'name = "scripted"\ndefault_engine = "plain"')
    end, _ = run(tmp_path, Scripted("other"), Scripted("plain", spared_s=0.05, weights=weights), plan_text=text)
    (versus,) = end.result.versus
    assert versus.comparable is comparable
    assert versus.before.startswith("Plain"), "the default engine is what others must beat"
    assert all(found.effect is not None for found in versus.comparisons), "the gap is told either way"
    if comparable:
        assert "Other 1 (prefix_caching=true) is better" in end.result.verdict
    else:
        assert end.result.verdict.startswith("NOT COMPARABLE")
        assert {found.finding for found in versus.comparisons} == {Finding.NOT_COMPARABLE}


def _kill_engine_of(runs: Path, trial: str) -> threading.Thread:
    """Kills the engine that measures `trial` once the block has a record, by a thread of its own."""

    def kill() -> None:
        for _ in range(3000):
            for path in runs.glob("*/records.jsonl"):
                if any(f"| {trial} |" in block for block, _ in lines(path.parent)):
                    told = (path.parent / "events.jsonl").read_text().splitlines()
                    begun = [event for event in map(json.loads, told) if event["kind"] == "block_started"]
                    _kill_by_command(begun[-1]["details"]["argv"])
                    return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    return killer


def _kill_by_command(argv: list[str]) -> None:
    wanted = b"\0".join(word.encode() for word in argv) + b"\0"
    (pid,) = [
        int(folder.name)
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and _command_of(folder) == wanted
    ]
    os.kill(pid, signal.SIGKILL)


def _command_of(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("trial", [DEFAULTS, "prefix_caching=true"])
def test_what_met_a_dead_engine_is_sent_again_and_its_block_was_not_finished(tmp_path: Path, trial: str) -> None:
    text = PLAN.replace("blocks = 2", "blocks = 1").replace("rate_rps = 20.0", "rate_rps = 8.0")
    killer = _kill_engine_of(tmp_path, trial)
    end, _ = run(tmp_path, plan_text=text)
    killer.join()
    assert end.error is not None
    assert end.error.exit_code == 1
    assert not end.result.finished
    events = [json.loads(line) for line in (end.path / "events.jsonl").read_text().splitlines()]
    name = f"scripted 1 | {trial} | 0"
    assert [e["kind"] for e in events if e.get("block") == name and e["kind"] != "other_work"] == [
        "block_started", "engine_died",
    ]  # fmt: skip
    report = end.result.engines[0].trial(trial)
    assert report is not None
    assert report.failures == 0, "no request that met no engine is held against it"
    again, _ = run(tmp_path, plan_text=text)
    assert again.error is None
    assert again.result.finished
    answered = Counter(
        (line["block"], line["record"]["index"])
        for line in map(json.loads, (end.path / "records.jsonl").read_text().splitlines())
        if line["record"]["outcome"] == "ok"
    )
    assert {index for block, index in answered if block == name} == set(range(8))
    assert set(answered.values()) == {1}, "what was answered is not sent again"
    assert all(t.failures == 0 for t in again.result.engines[0].trials)
