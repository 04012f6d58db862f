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


def shared_memory_names() -> frozenset[str]:
    """What lies in the machine's shared memory now."""
    try:
        return frozenset(entry.name for entry in SHARED_MEMORY.iterdir())
    except OSError:
        return frozenset()


def mapped_names(processes: Iterable[Identity]) -> frozenset[str]:
    """What `processes` have mapped of the machine's shared memory, by the names that lie directly in it."""
    found: set[str] = set()
    for process in processes:
        for line in _maps(process.pid):
            path = Path(line.partition("/")[1] + line.partition("/")[2])
            if path.parent == SHARED_MEMORY and not path.name.endswith(" (deleted)"):
                found.add(path.name)
    return frozenset(found)


def unlink_shared(names: Iterable[str]) -> None:
    """Unlinks `names` from the machine's shared memory, except what a process that still runs has mapped."""
    wanted = frozenset(names) & shared_memory_names()
    if not wanted:
        return
    in_use = mapped_names(Identity(stat.pid, stat.started_ticks, "") for stat in _every_process() if not stat.ended)
    for name in wanted - in_use:
        try:
            (SHARED_MEMORY / name).unlink(missing_ok=True)
        except OSError:  # another user's, or a folder: not the engine's
            continue


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
