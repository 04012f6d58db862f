"""Engines start, are watched and end, with all their children, whatever happens to us."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from scripted_engine import (
    ANSWERS,
    CRASHES,
    DIES,
    DIES_UNKNOWN,
    KILLED,
    NEVER_ANSWERS,
    WITH_STUBBORN_CHILD,
    WITH_UNMARKED_CHILDREN,
    ScriptedEngine,
    spec_for,
)

from unmoor.core.errors import EngineDiedError
from unmoor.engines.contract import LaunchSpec
from unmoor.engines.registry import engine
from unmoor.launch.family import SHARED_MEMORY
from unmoor.launch.identity import Identity, identify, marked, runs, send
from unmoor.launch.process import RunningEngine, free_port, launch, tail
from unmoor.launch.ready import ask_once


def quiet(_: str) -> None:
    pass


def until(true: Callable[[], bool], *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.02)
    return true()


def test_a_launched_engine_has_answered_and_is_gone_afterwards(tmp_path: Path, log_path: Path) -> None:
    said: list[str] = []
    with launch(
        ScriptedEngine(ANSWERS), spec_for(tmp_path), {}, log_path=log_path, ready_timeout_s=20, say=said.append
    ) as running:
        assert running.alive()
        assert running.pid in {process.pid for process in running.children()}
        assert ask_once(running.url, running.served_name) is None
        identity = running.identity
    assert identity is not None
    assert marked(identity.mark) == ()
    assert not running.alive()
    assert "answers on port" in said[-1]


def test_a_killed_engine_is_dead_at_once_while_its_supervisor_still_cleans_up(tmp_path: Path, log_path: Path) -> None:
    with launch(
        ScriptedEngine(ANSWERS), spec_for(tmp_path), {}, log_path=log_path, ready_timeout_s=20, say=quiet
    ) as running:
        assert running.identity is not None
        assert send(signal.SIGKILL, running.identity)
        assert until(lambda: not running.alive(), within_s=1.0)
        with pytest.raises(EngineDiedError):
            running.check_alive()


def test_children_that_ignore_polite_requests_are_gone_too(tmp_path: Path, log_path: Path) -> None:
    with launch(
        ScriptedEngine(WITH_STUBBORN_CHILD), spec_for(tmp_path), {}, log_path=log_path, ready_timeout_s=20, say=quiet
    ) as running:
        assert len(running.children()) == 2
    assert running.children() == ()


def test_an_engine_is_gone_when_what_happens_inside_fails(tmp_path: Path, log_path: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        launch(
            ScriptedEngine(ANSWERS), spec_for(tmp_path), {}, log_path=log_path, ready_timeout_s=20, say=quiet
        ) as running,
    ):
        raise ZeroDivisionError
    assert running.children() == ()


def temporary_of(running: RunningEngine) -> Path:
    assert running.pid is not None
    environment = Path(f"/proc/{running.pid}/environ").read_bytes().split(b"\0")
    return Path(next(one for one in environment if one.startswith(b"TMPDIR=")).decode().partition("=")[2])


def test_children_that_lost_their_mark_are_known_and_gone_with_all_they_leave(tmp_path: Path, log_path: Path) -> None:
    with launch(
        ScriptedEngine(WITH_UNMARKED_CHILDREN), spec_for(tmp_path), {}, log_path=log_path, ready_timeout_s=20, say=quiet
    ) as running:
        family, temporary = running.children(), temporary_of(running)
        shared = SHARED_MEMORY / f"unmoor-test-{temporary.name}"
        assert len(family) == 3
        assert len(marked(family[0].mark)) == 1
        assert (temporary / "left").exists()
        assert shared.exists()
    assert not any(runs(process) for process in family)
    assert not temporary.exists()
    assert not shared.exists()


def test_shared_memory_that_was_there_before_or_is_anothers_stays(tmp_path: Path, log_path: Path) -> None:
    shared = SHARED_MEMORY / f"unmoor-test-{os.getpid()}"
    shared.write_bytes(b"x" * 4096)
    maps = f"import mmap\nheld = open({str(shared)!r}, 'r+b')\nshared = mmap.mmap(held.fileno(), 4096)\n"
    try:
        with launch(
            ScriptedEngine(maps + ANSWERS), spec_for(tmp_path), {}, log_path=log_path, ready_timeout_s=20, say=quiet
        ):
            pass
        assert shared.exists()
    finally:
        shared.unlink()


def test_a_killed_supervisor_leaves_the_sweep_to_us(tmp_path: Path, log_path: Path) -> None:
    with launch(
        ScriptedEngine(WITH_UNMARKED_CHILDREN), spec_for(tmp_path), {}, log_path=log_path, ready_timeout_s=20, say=quiet
    ) as running:
        temporary = temporary_of(running)
        family = running.children()
        in_session = [one for one in family if os.getsid(one.pid) == running.pid]
        os.kill(int(Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        assert until(lambda: not running.alive(), within_s=2)
        assert len(in_session) == 2
        assert len(family) == 3
    assert not any(runs(process) for process in family)
    assert not temporary.exists()
    (SHARED_MEMORY / f"unmoor-test-{temporary.name}").unlink(missing_ok=True)


LAUNCHER = """
import sys, time
from pathlib import Path
sys.path.insert(0, {here!r})
from scripted_engine import WITH_STUBBORN_CHILD, ScriptedEngine, spec_for
from unmoor.launch.process import launch
folder = Path({folder!r})
with launch(ScriptedEngine(WITH_STUBBORN_CHILD), spec_for(folder), {{}}, log_path=folder / "engine.log",
            ready_timeout_s=20, say=lambda _: None) as running:
    print(running.identity.pid, running.identity.started_ticks, running.identity.mark, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_engine_outlives_us_however_we_end(tmp_path: Path, how: signal.Signals) -> None:
    code = LAUNCHER.format(here=str(Path(__file__).parent), folder=str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
    ) as us:
        assert us.stdout is not None
        pid, ticks, mark = us.stdout.readline().split()
        assert identify(int(pid), mark) == Identity(int(pid), int(ticks), mark)
        us.send_signal(how)
        us.wait(30)
    assert until(lambda: marked(mark) == (), within_s=15)


def test_an_early_death_is_told_within_a_second_in_our_words(tmp_path: Path, log_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(EngineDiedError) as raised:
        start(ScriptedEngine(DIES), spec_for(tmp_path), log_path)
    assert time.monotonic() - started < 5  # starting two interpreters on a busy machine included
    assert raised.value.message == "Scripted went boom"
    assert raised.value.seen == "engine: boom, the widget is missing"
    assert raised.value.hint == "find the widget"
    assert raised.value.where == str(log_path)


def test_an_unknown_death_shows_the_last_line_and_the_exit_code(tmp_path: Path, log_path: Path) -> None:
    with pytest.raises(EngineDiedError, match=r"exit code 3") as raised:
        start(ScriptedEngine(DIES_UNKNOWN), spec_for(tmp_path), log_path)
    assert raised.value.seen == "last words nobody knows"


def test_a_kill_from_outside_is_told_as_memory(tmp_path: Path, log_path: Path) -> None:
    with pytest.raises(EngineDiedError, match="was killed, most likely because memory ran out"):
        start(ScriptedEngine(KILLED), spec_for(tmp_path), log_path)


def test_a_crash_points_at_the_model(tmp_path: Path, log_path: Path) -> None:
    with pytest.raises(EngineDiedError, match=r"crashed \(SIGSEGV\), perhaps of a damaged model") as raised:
        start(ScriptedEngine(CRASHES), spec_for(tmp_path), log_path)
    assert "unmoor engines fetch" in (raised.value.hint or "")


def test_an_engine_that_never_answers_is_given_up_and_ended(tmp_path: Path, log_path: Path) -> None:
    with pytest.raises(EngineDiedError, match="has not answered within 1 s"):
        start(ScriptedEngine(NEVER_ANSWERS), spec_for(tmp_path), log_path, timeout_s=1)


def test_an_interpreter_that_is_not_there_names_the_install_command(tmp_path: Path, log_path: Path) -> None:
    with pytest.raises(EngineDiedError, match="could not be started") as raised:
        start(ScriptedEngine(ANSWERS), spec_for(tmp_path, python=str(tmp_path / "none")), log_path)
    assert raised.value.hint == "install it again: unmoor engines install scripted"


def test_a_taken_port_is_told_before_anything_starts(tmp_path: Path, log_path: Path) -> None:
    spec = spec_for(tmp_path)
    with socket.create_server((spec.host, spec.port)), pytest.raises(EngineDiedError, match="is taken"):
        start(ScriptedEngine(ANSWERS), spec, log_path)
    assert not log_path.exists()


def start(one: ScriptedEngine, spec: LaunchSpec, log_path: Path, *, timeout_s: float = 20) -> None:
    with launch(one, spec, {}, log_path=log_path, ready_timeout_s=timeout_s, say=quiet):
        pytest.fail("it answered")


def test_only_what_an_engine_needs_is_passed_on_and_its_log_is_private(tmp_path: Path, log_path: Path) -> None:
    shows = "import json, os; print(json.dumps(dict(os.environ)), flush=True)"
    with pytest.raises(EngineDiedError):
        start(ScriptedEngine(shows), spec_for(tmp_path), log_path)
    seen = json.loads(tail(log_path))
    assert seen["OURS"] == "1"
    assert "PYTEST_CURRENT_TEST" in os.environ
    assert "PYTEST_CURRENT_TEST" not in seen
    assert log_path.stat().st_mode & 0o077 == 0


def test_files_that_a_command_line_names_lie_where_it_starts(tmp_path: Path, log_path: Path) -> None:
    reads = "print(open('beside.txt').read(), flush=True)"
    with (
        pytest.raises(EngineDiedError) as raised,
        launch(ScriptedEngine(reads), spec_for(tmp_path), {"any": 1}, log_path=log_path, ready_timeout_s=9, say=quiet),
    ):
        pytest.fail("it answered")
    assert raised.value.seen == "read me"


def test_a_process_that_is_not_ours_is_never_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        assert identify(stranger.pid, "a mark it lacks") is None
        ours = identify(os.getpid(), "") or Identity(stranger.pid, 1, "a mark it lacks")
        assert not send(signal.SIGKILL, ours)
        assert stranger.poll() is None
        stranger.communicate(b"\n")


def test_the_same_id_with_another_start_time_is_another_process(tmp_path: Path, log_path: Path) -> None:
    with launch(
        ScriptedEngine(ANSWERS), spec_for(tmp_path), {}, log_path=log_path, ready_timeout_s=20, say=quiet
    ) as running:
        assert running.identity is not None
        earlier = running.identity._replace(started_ticks=running.identity.started_ticks - 1)
        assert not send(signal.SIGKILL, earlier)
        assert running.alive()


REAL_LAUNCHER = """
import sys, time, msgspec
from pathlib import Path
from unmoor.engines.contract import LaunchSpec
from unmoor.engines.registry import engine
from unmoor.launch.process import launch
spec = msgspec.json.decode(sys.argv[1], type=LaunchSpec)
log = Path(sys.argv[2])
with launch(engine("openvino"), spec, {}, log_path=log, ready_timeout_s=120, say=lambda _: None) as running:
    print(running.identity.mark, flush=True)
    time.sleep(600)
"""


@pytest.mark.real_engine
def test_the_real_engine_is_gone_after_a_kill_of_its_launcher(embedded_spec: LaunchSpec, tmp_path: Path) -> None:
    spec = msgspec.json.encode(msgspec.structs.replace(embedded_spec, port=free_port())).decode()
    argv = [sys.executable, "-c", REAL_LAUNCHER, spec, str(tmp_path / "engine.log")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as us:
        assert us.stdout is not None
        mark = us.stdout.readline().strip()
        assert marked(mark)
        us.kill()
    assert until(lambda: marked(mark) == (), within_s=20)


@pytest.mark.real_engine
def test_the_real_engine_dies_of_an_impossible_context_in_our_words(embedded_spec: LaunchSpec, log_path: Path) -> None:
    spec = msgspec.structs.replace(embedded_spec, port=free_port(), context_tokens=100_000)
    with (
        pytest.raises(EngineDiedError, match="the model's own is shorter") as raised,
        launch(engine("openvino"), spec, {}, log_path=log_path, ready_timeout_s=120, say=quiet),
    ):
        pytest.fail("it answered")
    assert raised.value.exit_code == 1
    assert raised.value.hint


@pytest.mark.real_engine
def test_the_real_engine_answers_and_leaves_no_prompt_in_its_log(embedded: RunningEngine) -> None:
    assert ask_once(embedded.url, embedded.served_name) is None
    assert "One two three" not in tail(embedded.log_path)
