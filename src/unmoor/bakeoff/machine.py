"""The machine that a bake-off runs on: which plans it is the hardware of, and how busy it is before the start."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from unmoor.bakeoff.other_work import BUSY_SHARE, CODE, OtherWork
from unmoor.bakeoff.result import Machine
from unmoor.core.errors import PlanError
from unmoor.core.evidence import Caveat
from unmoor.core.hardware import THIS_MACHINE
from unmoor.core.plan import Plan
from unmoor.core.plan_text import line_of

_SAMPLE_S = 0.5
_PROC = Path("/proc")


def require_this_machine(plan: Plan, text: str, *, where: str) -> None:
    """Nothing, for a plan whose hardware is this machine. Raises PlanError, at its line, for any other.

    What this processor does would be taken for what the plan's accelerators do.
    """
    if plan.hardware.device != THIS_MACHINE:
        raise PlanError(
            "a bake-off measures this machine, and the plan is for other hardware",
            where=f"{where}:{line_of(text, 'hardware', 'device')}",
            seen=f'device = "{plan.hardware.device}"',
            expected=f'device = "{THIS_MACHINE}"',
            hint=f"unmoor decide {where} predicts it; measured it can only be on such hardware, which Unmoor cannot do "
            "yet. examples/local/plan.toml is a plan for this machine",
        )


def describe_machine() -> Machine:
    """The machine as it is now; takes half a second to see how busy it is.

    Caveat `busy_machine` when more than a tenth of the processor time of that half second was somebody else's: the
    load average is told but not judged, since it still remembers what was done a minute ago.
    """
    others = OtherWork()
    time.sleep(_SAMPLE_S)
    busy = others.share()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return Machine(
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=_memory_bytes(),
        system=f"{platform.system()} {platform.machine()}",
        load_1m=load,
        caveats=() if busy is None or busy <= BUSY_SHARE else (_busy(busy),),
    )


def host_identity(machine: Machine) -> str:
    """What must be the same for two measurements to belong together: processor, cores, memory, system."""
    memory = "unknown memory" if machine.memory_bytes is None else f"{machine.memory_bytes / 2**30:.0f} GiB"
    return f"{machine.cpu}, {machine.cores} cores, {memory}, {machine.system}"


def _busy(share: float) -> Caveat:
    return Caveat(
        code=CODE,
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
