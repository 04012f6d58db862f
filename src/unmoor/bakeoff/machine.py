"""The machine that a bake-off runs on, and whether something else is busy on it before the start."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from unmoor.bakeoff.result import Machine
from unmoor.core.evidence import Caveat

_BUSY_SHARE = 0.25
_SAMPLE_S = 0.5
_PROC = Path("/proc")


def describe_machine() -> Machine:
    """The machine as it is now; takes half a second to see how busy it is.

    Caveat `busy_machine` when more than a quarter of the processor time of that half second was somebody else's: the
    load average is told but not judged, since it still remembers what was done a minute ago.
    """
    busy = _busy_share(_SAMPLE_S)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return Machine(
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=_memory_bytes(),
        system=f"{platform.system()} {platform.machine()}",
        load_1m=load,
        caveats=() if busy is None or busy <= _BUSY_SHARE else (_busy(busy),),
    )


def host_identity(machine: Machine) -> str:
    """What must be the same for two measurements to belong together: processor, cores, memory, system."""
    memory = "unknown memory" if machine.memory_bytes is None else f"{machine.memory_bytes / 2**30:.0f} GiB"
    return f"{machine.cpu}, {machine.cores} cores, {memory}, {machine.system}"


def _busy(share: float) -> Caveat:
    return Caveat(
        code="busy_machine",
        text=f"{share:.0%} of the processor was taken by other work before the start: figures are noisy",
    )


def _cpu_model() -> str:
    try:
        lines = (_PROC / "cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _busy_share(sample_s: float) -> float | None:
    """The share of processor time that was not idle over `sample_s` seconds; None where the kernel does not say."""
    before = _ticks()
    time.sleep(sample_s)
    after = _ticks()
    if before is None or after is None or after[1] <= before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1])


def _ticks() -> tuple[int, int] | None:
    """Busy and all clock ticks of all processors since boot, from the first line of /proc/stat (proc(5))."""
    try:
        fields = [int(field) for field in (_PROC / "stat").read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return None
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)
