"""Every process of one engine, and what it leaves on the machine: found, ended and swept.

A mark in the environment alone does not find them all: a process that sets its own title writes over it. So three signs
count, each of which only what we started can bear: the mark; the session that the engine's own process leads; and
descent from one that bears a sign, or from the supervisor, to whom the kernel gives the engine's orphans.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from unmoor.launch.identity import PROC, Identity, Stat, carries, read_stat, send

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's place for it; only read here, and unlinked by name
POLL_S = 0.05


def family(mark: str, *, leader: Identity | None, supervisor: int | None) -> tuple[Identity, ...]:
    """Every running process of the engine that was started with `mark`, in order of its id.

    `leader` is the engine's own process, whether it still runs or not; `supervisor` the id of the process that started
    it, itself not counted. A supervisor's id must be one that cannot have passed to another: our own, or a child's that
    nobody has waited for.
    """
    stats = {stat.pid: stat for stat in _every_process()}
    ours = {pid for pid, stat in stats.items() if carries(pid, mark) or _in_session(stat, leader, stats)}
    roots = ours | ({supervisor} if supervisor is not None else set())
    while more := {pid for pid, stat in stats.items() if stat.parent in roots} - roots:
        ours |= more
        roots |= more
    ours.discard(supervisor or os.getpid())
    return tuple(Identity(pid, stats[pid].started_ticks, mark) for pid in sorted(ours) if not stats[pid].ended)


def end_all(find: Callable[[], Iterable[Identity]], *, within_s: float) -> tuple[Identity, ...]:
    """Kills what `find` finds until that is nothing; what is still there after `within_s` comes back."""
    deadline = time.monotonic() + within_s
    while left := tuple(find()):
        for process in left:
            send(signal.SIGKILL, process)
        if time.monotonic() >= deadline:
            return left
        time.sleep(POLL_S)
    return ()


def shared_memory() -> dict[int, Path]:
    """What lies directly in the machine's shared memory now, by its inode."""
    try:
        return {entry.lstat().st_ino: entry for entry in SHARED_MEMORY.iterdir()}
    except OSError:  # there is none, or something went while we looked: nothing is said to lie there
        return {}


def mapped_inodes(processes: Iterable[Identity]) -> frozenset[int]:
    """What `processes` have mapped of the machine's shared memory (proc(5), maps).

    By inode: who makes a semaphore has mapped it under a name of the moment, which is gone once it has its own.
    """
    lines = (line.split(maxsplit=5)[4:] for process in processes for line in _maps(process.pid))
    return frozenset(int(inode) for inode, *path in lines if path and path[0].startswith(f"{SHARED_MEMORY}/"))


def unlink_shared(inodes: Iterable[int]) -> None:
    """Unlinks `inodes` from the machine's shared memory, except what a process that still runs has mapped."""
    there = shared_memory()
    wanted = frozenset(inodes) & there.keys()
    if not wanted:
        return
    in_use = mapped_inodes(Identity(stat.pid, stat.started_ticks, "") for stat in _every_process() if not stat.ended)
    for inode in wanted - in_use:
        # What cannot be unlinked is another user's, or a folder: not the engine's.
        with suppress(OSError):
            there[inode].unlink()


def _every_process() -> Iterable[Stat]:
    pids = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return [stat for pid in pids if (stat := read_stat(pid)) is not None]


def _in_session(stat: Stat, leader: Identity | None, stats: dict[int, Stat]) -> bool:
    """Whether `leader` leads the session of `stat`: while one process is in a session, no other can take its id."""
    if leader is None or stat.session != leader.pid or stat.started_ticks < leader.started_ticks:
        return False
    leading = stats.get(leader.pid)
    return leading is None or leading.started_ticks == leader.started_ticks


def _maps(pid: int) -> list[str]:
    try:
        return (PROC / str(pid) / "maps").read_text(errors="replace").splitlines()
    except OSError:
        return []
