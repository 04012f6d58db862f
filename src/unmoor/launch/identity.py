"""Which process is ours: its id, its start time and a mark in its environment must all agree before it is ended."""

from __future__ import annotations

import os
import secrets
import signal
from pathlib import Path
from typing import NamedTuple

MARK = "UNMOOR_MARK"
PROC = Path("/proc")


class Identity(NamedTuple):
    """A process of ours. `started_ticks` is its start time in clock ticks since boot, as the kernel tells it."""

    pid: int
    started_ticks: int
    mark: str


def new_mark() -> str:
    """A mark that no other process has."""
    return secrets.token_hex(16)


def identify(pid: int, mark: str) -> Identity | None:
    """The identity of `pid` if it carries `mark`; None when it has ended, or is not ours."""
    started = _started_ticks(pid)
    if started is None or not _carries(pid, mark):
        return None
    return Identity(pid=pid, started_ticks=started, mark=mark)


def marked(mark: str) -> tuple[Identity, ...]:
    """Every process on this machine that carries `mark`, in order of its id."""
    pids = sorted(int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return tuple(found for pid in pids if (found := identify(pid, mark)) is not None)


def send(signum: signal.Signals, to: Identity) -> bool:
    """Whether `signum` was sent: only if id, start time and mark still agree."""
    if identify(to.pid, to.mark) != to:
        return False
    try:
        os.kill(to.pid, signum)
    except ProcessLookupError:
        return False
    return True


def _started_ticks(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat (proc(5)); None for a process that has ended, zombies included."""
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command's name, in brackets, may itself hold spaces and brackets; fields are counted after the last one.
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in {"Z", "X"} else int(fields[18])


def _carries(pid: int, mark: str) -> bool:
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")
