from __future__ import annotations

import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from unmoor.core.errors import RunError, UsageError
from unmoor.core.record import Outcome, Record
from unmoor.measure.client.load import ReplayReport
from unmoor.measure.run_store import RunIdentity, RunStore, StoredRun

PLAN = """\
name = "Agents & tools"
[traffic]
path = "t.jsonl"
[slo]
ttft_s = 1.5
[model]
name = "m"
weights = "fp8"
[hardware]
device = "cpu"
[[candidates]]
engine = "vllm"
"""

WRITER = """\
import sys
from pathlib import Path
import msgspec
from unmoor.core.record import Outcome, Record
from unmoor.measure.run_store import RunIdentity, RunStore
identity = msgspec.json.decode(sys.argv[2], type=RunIdentity)
with RunStore.create_or_open(Path(sys.argv[1]), identity=identity) as store:
    index = len(store.records("b"))
    print("ready", flush=True)
    while True:
        store.append("b", Record(index=index, outcome=Outcome.OK, scheduled_at_ns=index, chunk_at_ns=(1,) * 200))
        index += 1
"""


def identity(plan: str = PLAN, traffic: str = "abc", host: str = "2 cores") -> RunIdentity:
    return RunIdentity(
        plan_name="Agents & tools",
        plan_text=plan,
        traffic_fingerprint=traffic,
        host=host,
        unmoor_version="0.1.0",
        started_on="2026-11-30",
    )


def record(index: int, outcome: Outcome = Outcome.OK) -> Record:
    return Record(index=index, outcome=outcome, scheduled_at_ns=index * 10, chunk_at_ns=(1, 2), output_tokens=3)


def report() -> ReplayReport:
    return ReplayReport(
        planned=1,
        requests=1,
        failures=0,
        partial=False,
        offered_rps=None,
        achieved_rps=None,
        send_lag_p50_s=0.001,
        send_lag_p99_s=0.001,
        send_lag_max_s=0.001,
        loop_stall_p99_s=None,
        loop_stall_max_s=None,
        started_at_ns=0,
        ended_at_ns=1,
    )


def test_what_is_appended_is_read_again(tmp_path: Path) -> None:
    with RunStore.create_or_open(tmp_path, identity=identity()) as store:
        store.block_started("a/0", {"argv": ["serve", "--x"], "version": "1.0"})
        for index in (2, 0, 1):
            store.append("a/0", record(index))
        store.append("b/0", record(0, Outcome.CUT))
        assert not store.finished("a/0")
        store.block_finished("a/0", report(), {"caveats": []})
        path = store.path
    run = StoredRun(path)
    assert run.identity == identity()
    assert run.records("a/0") == {index: record(index) for index in range(3)}
    assert run.records("b/0") == {0: record(0, Outcome.CUT)}
    assert run.records("c/0") == {}
    assert list(run.blocks()) == ["a/0", "b/0"]
    assert run.finished("a/0")
    assert run.report("a/0") == report()
    assert not run.finished("b/0")
    assert [event.kind for event in run.events()] == ["block_started", "block_finished"]
    assert run.events()[0].details == {"argv": ["serve", "--x"], "version": "1.0"}


def test_a_record_measured_again_replaces_the_one_before(tmp_path: Path) -> None:
    with RunStore.create_or_open(tmp_path, identity=identity()) as store:
        store.append("a", record(0, Outcome.CANCELLED))
        store.append("a", record(0))
        assert store.records("a") == {0: record(0)}


def test_the_same_plan_opens_the_same_run_and_a_comment_changes_nothing(tmp_path: Path) -> None:
    with RunStore.create_or_open(tmp_path, identity=identity()) as store:
        store.append("a", record(0))
        path = store.path
    with RunStore.create_or_open(tmp_path, identity=identity("# a comment\n" + PLAN)) as store:
        assert store.path == path
        assert store.records("a") == {0: record(0)}


@pytest.mark.parametrize(
    "other",
    [identity(PLAN.replace("1.5", "1.4")), identity(traffic="abd"), identity(host="4 cores")],
    ids=["plan", "traffic", "machine"],
)
def test_another_plan_traffic_or_machine_is_another_run(tmp_path: Path, other: RunIdentity) -> None:
    with RunStore.create_or_open(tmp_path, identity=identity()) as one:
        with RunStore.create_or_open(tmp_path, identity=other) as two:
            assert one.path != two.path
        assert one.path.name.startswith("agents-tools-")


def test_two_writers_are_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    with RunStore.create_or_open(tmp_path, identity=identity()) as store:
        with pytest.raises(RunError, match="another process is writing this run"):
            RunStore.create_or_open(tmp_path, identity=identity())
        store.append("a", record(0))
        assert StoredRun(store.path).records("a") == {0: record(0)}
    RunStore.create_or_open(tmp_path, identity=identity()).close()


@pytest.mark.parametrize("torn", [b'{"block":"a","rec', b"{", b'{"block":"a","record":{}}', b"x" * 200_000])
def test_a_torn_last_line_is_ignored_and_cut_off(tmp_path: Path, torn: bytes) -> None:
    with RunStore.create_or_open(tmp_path, identity=identity()) as store:
        store.append("a", record(0))
        lines = store.path / "records.jsonl"
    whole = lines.read_bytes()
    lines.write_bytes(whole + torn)
    assert StoredRun(lines.parent).records("a") == {0: record(0)}
    with RunStore.create_or_open(tmp_path, identity=identity()) as store:
        assert lines.read_bytes() == whole
        store.append("a", record(1))
    assert StoredRun(lines.parent).records("a") == {0: record(0), 1: record(1)}


def test_a_file_that_is_one_torn_line_is_emptied(tmp_path: Path) -> None:
    with RunStore.create_or_open(tmp_path, identity=identity()) as store:
        lines = store.path / "records.jsonl"
    lines.write_bytes(b'{"blo')
    with RunStore.create_or_open(tmp_path, identity=identity()):
        assert lines.read_bytes() == b""


@pytest.mark.parametrize("broken", [b"\n", b'{"block": 1}\n', b"\x00\x00\n", b'{"block":"a"}\n'])
def test_a_broken_line_is_an_error_that_names_it_and_nothing_is_lost(tmp_path: Path, broken: bytes) -> None:
    with RunStore.create_or_open(tmp_path, identity=identity()) as store:
        store.append("a", record(0))
        lines = store.path / "records.jsonl"
        before = lines.read_bytes()
        lines.write_bytes(before + broken + before)
        with pytest.raises(RunError) as caught:
            store.records("a")
    assert caught.value.where == f"{lines}:2"
    assert caught.value.hint is not None
    assert lines.read_bytes() == before + broken + before


def test_a_broken_identity_and_a_missing_run_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run is here"):
        StoredRun(tmp_path / "nowhere")
    with RunStore.create_or_open(tmp_path, identity=identity()) as store:
        path = store.path
    (path / "run.json").write_text("{")
    with pytest.raises(RunError, match="cannot be read"):
        RunStore.create_or_open(tmp_path, identity=identity())
    with pytest.raises(RunError, match="cannot be read"):  # and the lock was let go, or this would be another error
        RunStore.create_or_open(tmp_path, identity=identity())


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be used") as caught:
        RunStore.create_or_open(tmp_path / "file", identity=identity())
    assert caught.value.exit_code == 1


def test_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    with RunStore.create_or_open(tmp_path, identity=identity()) as store:
        store.append("a", record(0))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.path.iterdir()}
    assert modes == dict.fromkeys(("run.json", "records.jsonl", "events.jsonl", "run.lock"), 0o600)


# A file size limit is the disk that is full, as far as write() can tell; it needs a process of its own.
FULL = """\
import resource, signal, sys
from pathlib import Path
import msgspec
from unmoor.core.errors import RunError
from unmoor.core.record import Outcome, Record
from unmoor.measure.run_store import RunIdentity, RunStore
identity = msgspec.json.decode(sys.argv[2], type=RunIdentity)
with RunStore.create_or_open(Path(sys.argv[1]), identity=identity) as store:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    done = 0
    try:
        while True:
            store.append("b", Record(index=done, outcome=Outcome.OK, scheduled_at_ns=1))
            done += 1
    except RunError as error:
        print(done, type(error).__name__, error.hint)
"""


def test_a_full_disk_is_a_clear_error_and_what_was_measured_stays(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", FULL, str(tmp_path), msgspec.json.encode(identity()).decode()]
    done, kind, hint = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split(maxsplit=2)
    assert kind == "RunError"
    assert "resumes" in hint
    with RunStore.create_or_open(tmp_path, identity=identity()) as store:
        assert sorted(store.records("b")) == list(range(int(done)))
        assert int(done) > 0
        store.append("b", record(int(done)))
        assert len(store.records("b")) == int(done) + 1


def test_killed_at_any_moment_all_whole_lines_are_there_and_appending_goes_on(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", WRITER, str(tmp_path), msgspec.json.encode(identity()).decode()]
    moments = random.Random(7)  # noqa: S311 - moments, not secrets
    seen = 0
    for _ in range(4):
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            time.sleep(moments.uniform(0.005, 0.05))
            writer.send_signal(signal.SIGKILL)
        with RunStore.create_or_open(tmp_path, identity=identity()) as store:
            found = store.records("b")
        assert sorted(found) == list(range(len(found)))
        assert len(found) > seen
        seen = len(found)
