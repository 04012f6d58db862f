"""What to mend in a plan's own prompts before any engine is chosen for them."""

from __future__ import annotations

from unmoor.choose.prediction.kernel_tables import TableFinder
from unmoor.choose.reuse_meaning import plan_fleets
from unmoor.core.decision import MendFirst
from unmoor.core.plan import Plan
from unmoor.traffic.breakers import Watch
from unmoor.traffic.readers.contract import Cutter

WINDOW_BYTES = 4 * 2**20
"""Text that is looked at: enough to see a habit, in seconds. `unmoor profile` looks at eight times as much."""


def mend_first(
    plan: Plan, watch: Watch, cutter: Cutter, *, bytes_per_token: float, tables: TableFinder
) -> tuple[MendFirst, ...]:
    """What ruins sharing in the text that `watch` saw, in the order in which to mend it; empty without text.

    Gains are at the KV capacity of the plan's largest replica, as in `unmoor profile --plan`.
    """
    kv_tokens = max((fleet.kv_tokens for fleet in plan_fleets(plan, tables)), default=None)
    looked = watch.look(cutter, kv_tokens=kv_tokens, bytes_per_token=bytes_per_token)
    return tuple(
        MendFirst(
            what=one.what,
            share_lost=one.share_lost,
            gain=one.gain,
            kv_tokens=kv_tokens,
            fix=one.fix,
            looked_at=len(looked.mended) if looked.mended else 0,
        )
        for one in looked.breakers or ()
    )
