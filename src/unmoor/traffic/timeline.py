"""Prefix reuse over time: what one replica's KV pool serves while running requests occupy it."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.log import Traffic


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a replica is taken to be, where the log does not say how long a request took.

    A request reads its prompt at `prefill_tps` tokens per second, whatever else runs, and writes a token every
    `tpot_s`. An assumption of the caller's, never a measurement; `math.inf` and 0 make requests that take no time.
    """

    prefill_tps: float
    tpot_s: float


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The requests that arrived from `start_s` to `end_s` (the last window includes its end), and who ran meanwhile.

    `hit_rate` and `still_computing` are shares (0-1) of the window's prompt tokens; None where it has none, or where
    the log says nothing of content. `mean_running` is weighted by time.
    """

    start_s: float
    end_s: float
    requests: int
    prompt_tokens: int
    hit_rate: float | None
    still_computing: float | None
    peak_running: int
    mean_running: float


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica's pool served of a log over time. Shares are 0-1 of all prompt tokens.

    `block_tokens` are the blocks that were simulated: the log's own where it tells content apart more coarsely than was
    asked for (a caveat says so). `hit_rate` is None where the log says nothing of content, or has no prompt tokens.
    `still_computing` is what would have been a hit had it not been in the midst of being computed for another request:
    the price of concurrency, beside that of the memory that running requests hold. `too_large` requests need more than
    the whole pool: they never run, and their tokens are misses; `too_large_tokens` are their prompts'. `waited` requests
    could not be admitted when they arrived. `peak_pinned_tokens` is the most that running requests held at once, in
    whole blocks. `mean_running` is weighted by time, from the first arrival to the last.

    A log without times is taken one request after another: everything that needs a clock is None, `windows` is empty.
    """

    kv_tokens: int
    block_tokens: int
    requests: int
    prompt_tokens: int
    hit_tokens: int | None
    hit_rate: float | None
    still_computing: float | None
    too_large: int
    too_large_tokens: int
    waited: int | None
    mean_wait_s: float | None
    longest_wait_s: float | None
    peak_running: int | None
    mean_running: float | None
    peak_pinned_tokens: int
    windows: tuple[Window, ...] = ()
    caveats: tuple[Caveat, ...] = ()


def simulate(
    traffic: Traffic,
    *,
    kv_tokens: int,
    block_tokens: int | None,
    service: Service,
    salt: NDArray[np.int64] | None = None,
    windows: int = 24,
) -> Timeline:
    """What a pool of `kv_tokens` in blocks of `block_tokens` (None: the log's own) serves of the log as it arrives."""
    raise NotImplementedError
