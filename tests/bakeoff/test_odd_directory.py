"""A run's directory that was changed by hand, or by a failing disk: one clear error with its place, or none at all."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted as Engine
from scripted import entrant, order, run

from unmoor.bakeoff import ledger
from unmoor.bakeoff.machine import describe_machine, host_identity
from unmoor.bakeoff.result import DEFAULTS, Trial
from unmoor.bakeoff.summary import summarise
from unmoor.core.errors import RunError
from unmoor.core.record import Outcome, Record
from unmoor.measure.client.load import ReplayReport
from unmoor.measure.run_store import RunIdentity, RunStore, StoredRun
from unmoor.traffic.shape import profile

HERE = Path(__file__).parent
BLOCK = f"scripted 1 | {DEFAULTS} | 0"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of one block, written as a bake-off writes it."""
    wanted, machine = order(), describe_machine()
    identity = RunIdentity(
        plan_name=wanted.plan.name, plan_text=wanted.plan_text, traffic_fingerprint=wanted.workload.fingerprint,
        host=host_identity(machine), unmoor_version="0", started_on="2026-11-30",
    )  # fmt: skip
    contender = entrant(Engine()).contender
    report = ReplayReport(
        planned=8, requests=8, failures=0, partial=False, offered_rps=None, achieved_rps=None, send_lag_p50_s=None,
        send_lag_p99_s=None, send_lag_max_s=None, loop_stall_p99_s=None, loop_stall_max_s=None, started_at_ns=0,
        ended_at_ns=1,
    )  # fmt: skip
    with RunStore.create_or_open(tmp_path_factory.mktemp("made"), identity=identity) as store:
        ledger.keep_traffic(store, profile(wanted.workload), wanted.workload.requests)
        ledger.note_start(store, machine, [contender], ())
        ledger.note_trials(store, contender, [Trial(engine="scripted", name=DEFAULTS)])
        store.block_started(BLOCK, {})
        for index in range(8):
            store.append(BLOCK, Record(index=index, outcome=Outcome.OK, scheduled_at_ns=0, last_token_at_ns=10**8))
        ledger.note_other_work(store, BLOCK, 0.0)
        store.block_finished(BLOCK, report)
        ledger.note_finished(store)
        return store.path


def changed(made: Path, folder: Path, file: str, change: Callable[[dict[str, Any]], object], *, kind: str = "") -> Path:
    """A copy of the run in which one line of a file, the first of that kind of event, is another."""
    copy = folder / made.name
    shutil.copytree(made, copy)
    lines = [json.loads(line) for line in (copy / file).read_text().splitlines()]
    change(next(line for line in lines if line.get("kind", "") == kind))
    (copy / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return copy


def test_the_run_as_it_was_made_is_whole(made: Path) -> None:
    result = summarise(StoredRun(made))
    assert result.finished
    assert result.engines[0].trials[0].requests == 7


@pytest.mark.parametrize("block", ["| x", f"scripted 1 | {DEFAULTS} | x", f"scripted 1 | {DEFAULTS} | 01", ""])
def test_a_record_of_a_block_that_is_none_is_named_by_line(made: Path, tmp_path: Path, block: str) -> None:
    odd = changed(made, tmp_path, "records.jsonl", lambda line: line.update(block=block))
    with pytest.raises(RunError, match=r"records\.jsonl:1: "):
        summarise(StoredRun(odd))


@pytest.mark.parametrize("index", [99, 8, -1])
def test_a_record_of_a_request_that_is_not_in_the_traffic_is_named_by_line(
    made: Path, tmp_path: Path, index: int
) -> None:
    odd = changed(made, tmp_path, "records.jsonl", lambda line: line["record"].update(index=index))
    with pytest.raises(RunError, match=r"records\.jsonl:1: (.|\n)*of a traffic of 8 requests"):
        summarise(StoredRun(odd))


@pytest.mark.parametrize("kind", ["machine", "contenders", "trials", "other_work", "block_finished"])
@pytest.mark.parametrize("wrong", [{}, None, 5, "text", [], [5], {"a": 1}])
def test_an_event_without_its_details_or_with_others_is_named_by_line(
    made: Path, tmp_path: Path, kind: str, wrong: object
) -> None:
    def change(line: dict[str, Any]) -> None:
        line["details"] = dict.fromkeys(line["details"], wrong) if wrong else {}

    odd = changed(made, tmp_path, "events.jsonl", change, kind=kind)
    if (kind, wrong) == ("other_work", 5):
        return  # a number is what it must be
    with pytest.raises(RunError, match=r"events\.jsonl:\d+: "):
        summarise(StoredRun(odd))


def test_a_plan_that_cannot_be_read_any_more_is_the_directorys_failure_and_names_run_json(
    made: Path, tmp_path: Path
) -> None:
    odd = changed(made, tmp_path, "run.json", lambda line: line.update(plan_text="name = 5"))
    with pytest.raises(RunError, match=re.escape(str(odd / "run.json"))) as caught:
        summarise(StoredRun(odd))
    assert "move it away" in str(caught.value)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000, b"5"])
def test_files_that_are_no_json_are_errors_with_a_way_out(made: Path, tmp_path: Path, content: bytes) -> None:
    for file in ("run.json", "traffic.json", "events.jsonl", "records.jsonl"):
        copy = tmp_path / file / made.name
        shutil.copytree(made, copy)
        (copy / file).write_bytes(content + b"\n")
        with pytest.raises(RunError, match=re.escape(file)) as caught:
            summarise(StoredRun(copy))
        assert caught.value.hint


def test_records_that_are_gone_make_a_run_unfinished(made: Path, tmp_path: Path) -> None:
    copy = tmp_path / made.name
    shutil.copytree(made, copy)
    (copy / "records.jsonl").unlink()
    assert not summarise(StoredRun(copy)).finished


@pytest.mark.parametrize("content", [None, b"{", b'{"profile": 1}'])
def test_the_traffic_is_written_again_on_a_resume(made: Path, tmp_path: Path, content: bytes | None) -> None:
    copy = tmp_path / made.name
    shutil.copytree(made, copy)
    whole = (copy / "traffic.json").read_bytes()
    (copy / "traffic.json").unlink()
    if content is not None:
        (copy / "traffic.json").write_bytes(content)
    wanted = order()
    with RunStore.create_or_open(tmp_path, identity=StoredRun(copy).identity) as store:
        ledger.keep_traffic(store, profile(wanted.workload), wanted.workload.requests)
    assert (copy / "traffic.json").read_bytes() == whole


def test_a_file_where_the_engines_logs_go_is_a_clear_error_and_what_was_measured_is_shown(
    made: Path, tmp_path: Path
) -> None:
    shutil.copytree(made, tmp_path / made.name)
    (tmp_path / made.name / "engine-logs").write_text("")
    end, _ = run(tmp_path)
    assert isinstance(end.error, RunError)
    assert "engine-logs" in str(end.error)
    assert end.result.engines[0].trials[0].requests == 7


# A file size limit is the disk that is full, as far as write() can tell; it needs a process of its own.
FULL = """\
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from scripted import run
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
end, said = run(Path(sys.argv[1]))
print(type(end.error).__name__, end.error.exit_code, end.result.engines[0].trials[0].requests, end.result.finished)
"""


def test_on_a_full_disk_what_was_measured_so_far_is_shown(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / made.name)
    room = (made / "events.jsonl").stat().st_size + 10
    argv = [sys.executable, "-c", FULL, str(tmp_path), str(HERE), str(room)]
    told = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
    assert told == ["RunError", "1", "7", "True"]


def test_a_page_that_cannot_be_written_leaves_standard_output_empty(made: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    argv = [sys.executable, "-m", "unmoor.cli", "report", str(made), "--json", "--html"]
    failed = subprocess.run([*argv, str(tmp_path / "file" / "p.html")], check=False, capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert "the page cannot be written" in failed.stderr
    written = subprocess.run([*argv, str(tmp_path / "p.html")], check=True, capture_output=True, text=True)
    assert json.loads(written.stdout)["plan"] == "scripted"
    assert (tmp_path / "p.html").is_file()
