"""A probe does not outlive who started it, even where that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROBE = """
import importlib.util, os, subprocess, sys, time
spec = importlib.util.spec_from_file_location("probe", sys.argv[1])
probe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(probe)
probe.end_with_parent()
print(os.getpid(), flush=True)
time.sleep(60)
"""

PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], start_new_session=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a parent's death is told by Linux alone")
@pytest.mark.parametrize("name", ["schema_probe", "parser_probe"])
def test_a_probe_ends_when_who_started_it_is_killed(name: str) -> None:
    script = Path(__file__).parents[2] / "src" / "unmoor" / "launch" / "probes" / f"{name}.py"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, PROBE, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    probe = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 20
    while _runs(probe) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _runs(probe)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False
