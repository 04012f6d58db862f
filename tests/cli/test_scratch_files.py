from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from unmoor.cli.scratch_files import ScratchFiles
from unmoor.core.errors import RunError

_MAKES_ONE_AND_WAITS = """
import sys, numpy as np
from unmoor.cli.scratch_files import ScratchFiles
made = ScratchFiles(in_memory=0).zeros(1 << 20, np.int64)
made[:] = 7
print("made", flush=True)
sys.stdin.read()
"""


def test_what_was_written_stays_when_its_pages_are_let_go() -> None:
    scratch = ScratchFiles(in_memory=100)
    made = scratch.zeros(10_000, np.int64)
    assert not made.any()
    made[:] = np.arange(10_000)
    scratch.let_go()
    assert np.array_equal(made, np.arange(10_000))


def test_a_file_is_its_owners_alone_has_no_name_and_goes_with_its_array() -> None:
    def open_files() -> set[str]:
        return {fd for fd in os.listdir("/dev/fd") if Path("/dev/fd", fd).exists()}  # noqa: PTH208 - names are wanted

    before, named = open_files(), set(Path(tempfile.gettempdir()).glob("unmoor-*"))
    made = ScratchFiles(in_memory=100).zeros(10_000, np.int64)
    (fd,) = (int(fd) for fd in open_files() - before)
    assert os.fstat(fd).st_mode & 0o777 == 0o600
    assert os.fstat(fd).st_nlink == 0
    assert set(Path(tempfile.gettempdir()).glob("unmoor-*")) == named
    del made
    gc.collect()
    assert open_files() == before


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_is_killed_or_interrupted_leaves_no_file(tmp_path: Path, end: signal.Signals) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", _MAKES_ONE_AND_WAITS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"made\n"
        process.send_signal(end)
        process.wait()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_one_error_with_a_way_out() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(RunError) as caught:
            ScratchFiles(in_memory=100).zeros(1000, np.int64)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.where == tempfile.gettempdir()
    assert caught.value.hint == "set TMPDIR to a folder with more room, on a disk"
