"""How much of this machine other work took while something of ours ran, from the kernel's own counts (proc(5))."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from unmoor.core.evidence import Caveat

BUSY_SHARE = 0.1
"""Of the processors we may use: with more than this taken by others, times are said to be also of theirs."""

CODE = "busy_machine"
_PROC = Path("/proc")
_CHILDREN_TOO = slice(11, 15)  # utime, stime, cutime, cstime: fields 14 to 17, counted after the command's name


class Ticks(msgspec.Struct, frozen=True, kw_only=True):
    """Clock ticks since boot of the processors we may use, busy and in all, and those of our own processes."""

    busy: int
    all: int
    own: int


class OtherWork:
    """Other work's share of the processors between the making of this value and `share`.

    `pids` names our processes, and is asked at both ends: those that ended between are counted with the parent that
    waited for them. This process is always one of ours.
    """

    def __init__(self, pids: Callable[[], Iterable[int]] = tuple) -> None:
        self._pids = pids
        self._before = read_ticks(pids())

    def share(self) -> float | None:
        """The share, 0-1; None where the kernel does not say or no time has passed."""
        after = read_ticks(self._pids())
        return None if self._before is None or after is None else share_between(self._before, after)


def share_between(before: Ticks, after: Ticks) -> float | None:
    """What was busy and not ours, of all; None where no tick passed. Ticks are coarse, so never under 0."""
    total = after.all - before.all
    if total <= 0:
        return None
    own = max(0, after.own - before.own)
    return min(1.0, max(0, after.busy - before.busy - own) / total)


def busy_in_blocks(shares: Sequence[tuple[int, float]]) -> Caveat | None:
    """The doubt about blocks, given as repeat (from 0) and other work's share, that others took too much of."""
    over = [(repeat, share) for repeat, share in shares if share > BUSY_SHARE]
    if not over:
        return None
    said = ", ".join(f"{share:.0%} in repeat {repeat + 1}" for repeat, share in over)
    text = f"other work took over {BUSY_SHARE:.0%} of the processor ({said}): these times are in part its doing"
    return Caveat(code=CODE, text=text)


def read_ticks(pids: Iterable[int] = ()) -> Ticks | None:
    """The counts as they are now; None where the kernel does not say."""
    ours = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    try:
        lines = [line.split() for line in (_PROC / "stat").read_text().splitlines()]
        counts = [[int(field) for field in line[1:9]] for line in lines if line and line[0] in ours]
    except (OSError, ValueError):
        return None
    if not counts:
        return None
    idle = sum(fields[3] + fields[4] for fields in counts)
    total = sum(map(sum, counts))
    return Ticks(busy=total - idle, all=total, own=sum(_own(pid) for pid in {os.getpid(), *pids}))


def _own(pid: int) -> int:
    """The ticks of a process and of its children that have ended; 0 for one that is gone."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0
    return sum(map(int, stat.rpartition(")")[2].split()[_CHILDREN_TOO]))
