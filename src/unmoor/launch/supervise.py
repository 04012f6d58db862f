"""Runs one engine and ends it, with all its children, when whoever asked for it has gone: even by kill -9.

Run as `python -m unmoor.launch.supervise`. Its standard input is a pipe from the asking process: one JSON line says
what to start, and the end of the pipe, which the kernel guarantees, says that the engine must end. Its standard output
tells one JSON line when the engine has started and one when it has ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from unmoor.launch.family import POLL_S, end_all, family, mapped_inodes, shared_memory, unlink_shared
from unmoor.launch.identity import MARK, Identity, identify

PR_SET_PDEATHSIG = 1  # prctl(2)
PR_SET_CHILD_SUBREAPER = 36  # prctl(2): the engine's orphans become this process's children, and so are found
STRAGGLERS_S = 2.0
KILL_S = 3.0
LOOK_S = 0.25


def main() -> int:
    """The exit code: 0 when the engine was ended as asked, 1 when it ended by itself."""
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    order = json.loads(_first_line())
    shared_before = frozenset(shared_memory())
    temporary = Path(order["temporary"])
    try:
        temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
        child = _start(order)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        _tell({"error": str(error)})
        return 1
    try:
        leader = identify(child.pid, order["mark"])
        _tell({"pid": child.pid, "started_ticks": leader.started_ticks if leader else None})
        ended = _wait(child)
    finally:
        for signum in (signal.SIGTERM, signal.SIGHUP):  # it is ending already, and must not leave that half done
            signal.signal(signum, signal.SIG_IGN)
        end(child, leader, mark=order["mark"], grace_s=order["grace_s"], shared_before=shared_before)
        shutil.rmtree(temporary, ignore_errors=True)
    _tell({"exit": child.returncode})
    return 1 if ended else 0


def _start(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    with open(order["log_path"], "ab", opener=_private) as log:
        return subprocess.Popen(  # noqa: S603 - the command line is an adapter's, no shell is involved
            order["argv"],
            env={**order["env"], "TMPDIR": order["temporary"], MARK: order["mark"]},
            cwd=order["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
        )


def end(
    child: subprocess.Popen[bytes], leader: Identity | None, *, mark: str, grace_s: float, shared_before: frozenset[int]
) -> None:
    """Asks the engine to end, waits `grace_s`, then kills what is left of it and unlinks the shared memory it leaves.

    The engine ends its own children when asked; killing them at once would only fill its log with complaints. It is
    waited for last: until then nobody else can have its id, which is also its session's.
    """
    shared: set[int] = set()

    def left() -> tuple[Identity, ...]:
        found = family(mark, leader=leader, supervisor=os.getpid())
        shared.update(mapped_inodes(found))
        return found

    if _runs(child):
        left()
        os.kill(child.pid, signal.SIGTERM)
        if not _ended_within(child, grace_s, look=left):
            os.kill(child.pid, signal.SIGKILL)
    deadline = time.monotonic() + STRAGGLERS_S
    while left() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    end_all(left, within_s=KILL_S)
    child.wait()
    unlink_shared(shared - shared_before)


def _runs(child: subprocess.Popen[bytes]) -> bool:
    """Whether it has not ended; it is not waited for."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _ended_within(child: subprocess.Popen[bytes], limit_s: float, *, look: Callable[[], object]) -> bool:
    """Whether it ended in time. `look` is called now and then, and last: one that is starting maps more meanwhile."""
    deadline = time.monotonic() + limit_s
    looked = time.monotonic()
    while _runs(child):
        now = time.monotonic()
        if now - looked >= LOOK_S or now >= deadline:
            looked = now
            look()
        if now >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def _wait(child: subprocess.Popen[bytes]) -> bool:
    """Waits for the engine to end (True) or for the pipe to end (False)."""
    ended = os.pidfd_open(child.pid)
    watch = select.poll()
    watch.register(ended, select.POLLIN)
    watch.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    ready = {descriptor for descriptor, _ in watch.poll()}
    os.close(ended)
    return ended in ready


def _first_line() -> bytes:
    """The first line, read byte by byte: a buffer would swallow the end of the pipe that `_wait` looks for."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            sys.exit(0)
        line += byte
    return line


def _tell(what: dict[str, int | str | None]) -> None:
    try:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever asked has gone: the end of its other pipe says so too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _die_with_parent() -> None:
    """The last resort, should this process itself be killed: the kernel then kills the engine."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _leave(_signum: int, _frame: object) -> NoReturn:
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
