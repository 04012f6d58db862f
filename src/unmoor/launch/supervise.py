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
import signal
import subprocess
import sys
import time
from typing import NoReturn

from unmoor.launch.identity import MARK, identify, marked, send

PR_SET_PDEATHSIG = 1  # prctl(2)
POLL_S = 0.05
STRAGGLERS_S = 2.0


def main() -> int:
    """The exit code: 0 when the engine was ended as asked, 1 when it ended by itself."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = json.loads(_first_line())
    with open(order["log_path"], "ab", opener=_private) as log:
        try:
            child = subprocess.Popen(  # noqa: S603 - the command line is an adapter's, no shell is involved
                order["argv"],
                env={**order["env"], MARK: order["mark"]},
                cwd=order["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
            )
        except OSError as error:
            _tell({"error": str(error)})
            return 1
    try:
        identity = identify(child.pid, order["mark"])
        _tell({"pid": child.pid, "started_ticks": identity.started_ticks if identity else None})
        ended = _wait(child)
    finally:
        end(child, mark=order["mark"], grace_s=order["grace_s"])
    _tell({"exit": child.returncode})
    return 1 if ended else 0


def end(child: subprocess.Popen[bytes], *, mark: str, grace_s: float) -> None:
    """Asks the engine to end, waits `grace_s`, and then kills what still carries its mark.

    The engine ends its own children when asked; killing them at once would only fill its log with complaints.
    """
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(grace_s)
        except subprocess.TimeoutExpired:
            child.kill()
    deadline = time.monotonic() + (STRAGGLERS_S if child.returncode is not None else 0)
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    for process in left:
        send(signal.SIGKILL, process)
    child.wait()


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
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _leave(_signum: int, _frame: object) -> NoReturn:
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
