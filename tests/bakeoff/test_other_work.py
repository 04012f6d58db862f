"""How much of this machine others take: the arithmetic, and the kernel's own counts of real processes."""

from __future__ import annotations

import subprocess
import sys
import time

from unmoor.bakeoff.other_work import OtherWork, Ticks, read_ticks, share_between

BURN = "import time\nwhile True: sum(range(10000))"
A_WHILE_S = 0.8


def test_what_was_busy_and_not_ours_is_others() -> None:
    before = Ticks(busy=100, all=1000, own=50)
    assert share_between(before, Ticks(busy=160, all=1200, own=90)) == 0.1
    assert share_between(before, Ticks(busy=110, all=1200, own=90)) == 0.0, "coarse ticks give no negative share"
    assert share_between(before, before) is None


def test_a_busy_process_is_others_work_unless_it_is_named_as_ours() -> None:
    with subprocess.Popen([sys.executable, "-c", BURN]) as burning:
        try:
            alone, ours = OtherWork(), OtherWork(lambda: (burning.pid,))
            before = read_ticks((burning.pid,))
            time.sleep(A_WHILE_S)
            after = read_ticks((burning.pid,))
            others, without_it = alone.share(), ours.share()
        finally:
            burning.kill()
    assert before is not None
    assert after is not None
    assert others is not None
    assert without_it is not None
    burnt = (after.own - before.own) / (after.all - before.all)
    assert burnt > 0
    assert others - without_it > burnt / 2


def test_a_process_that_has_gone_counts_for_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    assert read_ticks((gone.pid,)) is not None
