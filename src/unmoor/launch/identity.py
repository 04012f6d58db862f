"""Which process is ours: told by a mark in its environment, and from then on by its id and its start time."""

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


class Stat(NamedTuple):
    """What the kernel tells of a process; `session` is the id of the process that leads its session."""

    pid: int
    parent: int
    session: int
    started_ticks: int
    ended: bool


def identify(pid: int, mark: str) -> Identity | None:
    """The identity of `pid` if it carries `mark`; None when it has ended, or is not ours."""
    stat = read_stat(pid)
    if stat is None or stat.ended or not carries(pid, mark):
        return None
    return Identity(pid=pid, started_ticks=stat.started_ticks, mark=mark)


def marked(mark: str) -> tuple[Identity, ...]:
    """Every process on this machine that carries `mark`, in order of its id."""
    pids = sorted(int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return tuple(found for pid in pids if (found := identify(pid, mark)) is not None)


def runs(one: Identity) -> bool:
    """Whether it still runs, whatever it has written over its environment since."""
    stat = read_stat(one.pid)
    return stat is not None and not stat.ended and stat.started_ticks == one.started_ticks


def send(signum: signal.Signals, to: Identity) -> bool:
    """Whether `signum` was sent: only if the id still belongs to the process that started at that time."""
    try:
        # The descriptor holds on to the process: between the look and the signal its id cannot pass to another.
        held = os.pidfd_open(to.pid)
    except OSError:
        return False
    try:
        if not runs(to):
            return False
        signal.pidfd_send_signal(held, signum)
    except OSError:
        return False
    finally:
        os.close(held)
    return True


def read_stat(pid: int) -> Stat | None:
    """Fields 3, 4, 6 and 22 of /proc/PID/stat (proc(5)); None where there is no such process."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command's name, in brackets, may itself hold spaces and brackets; fields are counted after the last one.
    state, *fields = stat.rpartition(")")[2].split()
    return Stat(
        pid=pid,
        parent=int(fields[0]),
        session=int(fields[2]),
        started_ticks=int(fields[18]),
        ended=state in {"Z", "X"},
    )


def carries(pid: int, mark: str) -> bool:
    """Whether the environment of `pid` holds `mark`; a process that has set its own title may have lost it."""
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")
