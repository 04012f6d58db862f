"""The highest rate that meets an SLO: the traffic's own arrivals, drawn together in time until a bound breaks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.choose.prediction.kernel_tables import StepTable, TableOrigin
from unmoor.choose.prediction.kv_pool import Chains, chains_of
from unmoor.choose.prediction.published_error import Band
from unmoor.choose.prediction.simulate import Outcomes, Patience, simulate
from unmoor.core.slo import Slo
from unmoor.core.traffic import Request
from unmoor.engines.contract import SchedulerModel

HOST_OVERHEAD_S = 0.060
"""Host work before a first token that no table holds (tokenizing, HTTP, scheduling): the upper end of what was seen
reported, 30 to 60 ms; added to TTFT at the pessimistic end, and nothing at the other."""
_FIRST_FACTOR = 1.2
_FAR = 1e4


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How fast the simulated hardware is: iteration times multiplied, host work added to each first token."""

    step_factor: float = 1.0
    host_s: float = 0.0


def slow_end(band: Band) -> Pace:
    """The pessimistic end of a band of iteration times."""
    return Pace(step_factor=band.slow, host_s=HOST_OVERHEAD_S)


def middle(band: Band) -> Pace:
    """The median of a band of iteration times, without the host's work."""
    return Pace(step_factor=band.mid)


def fast_end(band: Band) -> Pace:
    """The optimistic end of a band of iteration times."""
    return Pace(step_factor=band.fast)


class _Paced:
    """A table whose iterations take `factor` times as long."""

    __slots__ = ("_factor", "_table", "kv_tokens", "origin")

    def __init__(self, table: StepTable, factor: float) -> None:
        self._table = table
        self._factor = factor
        self.kv_tokens: int = table.kv_tokens
        self.origin: TableOrigin = table.origin

    def step_s(
        self, prefills: int, new_tokens: int, cached_tokens: int, decodes: int, decode_kv_tokens: float
    ) -> float:
        return self._factor * self._table.step_s(prefills, new_tokens, cached_tokens, decodes, decode_kv_tokens)


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The traffic dealt over equal replicas, in turn: the neutral router, which knows nothing of load or of prefixes.

    A router that sends a prefix where it is cached does better on shared traffic, and this does not claim it.
    """

    shares: tuple[tuple[Request, ...], ...]
    chains: tuple[Chains, ...]
    own_rps: float
    table: StepTable
    scheduler: SchedulerModel

    def lasts_s(self, rate_rps: float) -> float:
        """How long the traffic takes to arrive at `rate_rps`, in seconds."""
        return (sum(map(len, self.shares)) - 1) / rate_rps


def deal(requests: Sequence[Request], replicas: int, table: StepTable, scheduler: SchedulerModel) -> Fleet:
    """`requests` dealt in turn over `replicas` replicas; an empty share where there are fewer requests.

    Raises ValueError for fewer than two requests apart in time: they have no rate.
    """
    span = requests[-1].arrival_s - requests[0].arrival_s if requests else 0.0
    if span <= 0:
        raise ValueError("no two arrivals apart in time")
    shares = tuple(tuple(requests[first::replicas]) for first in range(replicas))
    return Fleet(
        shares=shares,
        chains=tuple(map(chains_of, shares)),
        own_rps=(len(requests) - 1) / span,
        table=table,
        scheduler=scheduler,
    )


class FleetRun(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the traffic on every replica, at one rate and pace."""

    outcomes: tuple[Outcomes, ...]
    host_s: float

    def gathered(self, name: str) -> NDArray[np.float64]:
        """One array of `Outcomes`, over all replicas."""
        return np.concatenate([np.asarray(getattr(outcome, name), dtype=np.float64) for outcome in self.outcomes])

    @property
    def ttft_s(self) -> NDArray[np.float64]:
        """Arrival to first token with the host's work; infinite for a request that failed."""
        return np.where(self.gathered("failed") > 0, np.inf, self.gathered("ttft_s") + self.host_s)

    @property
    def tpot_s(self) -> NDArray[np.float64]:
        """Time per output token of requests that have one; infinite for a request that failed."""
        tpot = np.where(self.gathered("failed") > 0, np.inf, self.gathered("tpot_s"))
        return tpot[(self.gathered("output_tokens") > 1) | np.isinf(tpot)]

    @property
    def e2e_s(self) -> NDArray[np.float64]:
        """Arrival to end with the host's work; infinite for a request that failed."""
        return np.where(self.gathered("failed") > 0, np.inf, self.gathered("e2e_s") + self.host_s)

    def tail_ttft_s(self, q: float) -> float:
        """The q-quantile of `ttft_s`; infinite where it falls among failures."""
        return tail(self.ttft_s, q)

    @property
    def saturated(self) -> bool:
        """Whether KV memory ran out on any replica."""
        return any(outcome.saturated for outcome in self.outcomes)

    @property
    def failed(self) -> int:
        """Requests that could never run."""
        return int(self.gathered("failed").sum())

    @property
    def gave_up(self) -> bool:
        """Whether a replica's run stopped early."""
        return any(outcome.gave_up for outcome in self.outcomes)

    @property
    def prefix_hit_rate(self) -> float | None:
        """The share of prompt tokens (0-1) taken from the cache, over all requests; None without prompt tokens."""
        return self.hit_rate_of_first(sum(outcome.arrival_s.size for outcome in self.outcomes))

    def hit_rate_of_first(self, count: int) -> float | None:
        """The share of prompt tokens (0-1) of the first `count` requests taken from the cache; None without tokens."""
        replicas = len(self.outcomes)
        # Dealt in turn, replica r has the requests r, r + replicas, ...
        kept = [len(range(replica, count, replicas)) for replica in range(replicas)]
        pairs = list(zip(self.outcomes, kept, strict=True))
        asked = sum(int(outcome.input_tokens[:most].sum()) for outcome, most in pairs)
        return sum(int(outcome.cached_tokens[:most].sum()) for outcome, most in pairs) / asked if asked else None

    @property
    def output_tput_tps(self) -> float | None:
        """Output tokens of requests that ended, per second from first arrival to last end; None when none ended."""
        ends, tokens = self.gathered("end_s"), self.gathered("output_tokens")
        done = np.isfinite(ends)
        span = float(ends[done].max() - self.gathered("arrival_s").min()) if done.any() else 0.0
        return float(tokens[done].sum()) / span if span > 0 else None


def run_fleet(fleet: Fleet, rate_rps: float, pace: Pace, slo: Slo | None = None) -> FleetRun:
    """The traffic at `rate_rps` in all: its own arrivals, all drawn together or apart in time by the same factor.

    With an SLO the run stops as soon as it cannot be met any more, and the rest of the requests have no times.
    """
    stretch = fleet.own_rps / rate_rps
    table = _Paced(fleet.table, pace.step_factor)
    total = sum(map(len, fleet.shares))
    misses_allowed = (1 - slo.quantile) * total + 1 if slo else 0.0
    outcomes: list[Outcomes] = []
    for share, chains in zip(fleet.shares, fleet.chains, strict=True):
        patience = _patience(slo, misses_allowed, pace.host_s) if slo else None
        arrivals = [msgspec.structs.replace(request, arrival_s=request.arrival_s * stretch) for request in share]
        outcomes.append(simulate(arrivals, table, fleet.scheduler, chains=chains, patience=patience))
        if outcomes[-1].gave_up:
            break
    return FleetRun(outcomes=tuple(outcomes), host_s=pace.host_s)


def _patience(slo: Slo, misses: float, host_s: float) -> Patience:
    ttft = None if slo.ttft_s is None else slo.ttft_s - host_s
    e2e = None if slo.e2e_s is None else slo.e2e_s - host_s
    return Patience(misses=misses, ttft_s=ttft, tpot_s=slo.tpot_s, e2e_s=e2e)


def meets_slo(run: FleetRun, slo: Slo) -> bool:
    """Whether the SLO's quantile of every bounded quantity meets its bound; a failed request misses every bound."""
    if run.gave_up:
        return False
    bounded = ((slo.ttft_s, run.ttft_s), (slo.tpot_s, run.tpot_s), (slo.e2e_s, run.e2e_s))
    return all(limit is None or tail(seen, slo.quantile) <= limit for limit, seen in bounded)


def tail(seen_s: NDArray[np.float64], q: float) -> float:
    """The q-quantile by linear interpolation; infinite where it falls among failures, 0.0 for nothing."""
    if seen_s.size == 0:
        return 0.0
    with np.errstate(invalid="ignore"):  # between two infinities numpy interpolates to NaN
        found = float(np.quantile(seen_s, q))
    return np.inf if np.isnan(found) else found


def highest_rate(meets: Callable[[float], bool], near: float, tolerance: float) -> float | None:
    """The highest rate for which `meets` holds, within the relative `tolerance`, by bracketing and bisection.

    The bracket grows from `near` by a factor that squares itself: a good guess is cheap, and a bad one not dear. 0.0
    where it does not hold at a ten-thousandth of `near`; None where it still holds at ten thousand times `near`, which
    only means that nothing binds. `meets` is taken to hold below the answer and not above; finite traffic is a little
    ragged there.
    """
    factor = _FIRST_FACTOR
    low = high = near
    if meets(near):
        while low == high or meets(high):
            if high > near * _FAR:
                return None
            low, high, factor = high, high * factor, factor * factor
    else:
        while low == high or not meets(low):
            if low < near / _FAR:
                return 0.0
            low, high, factor = low / factor, low, factor * factor
    while high / low > 1 + tolerance:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low


def meets_at(fleet: Fleet, slo: Slo, pace: Pace, rate_rps: float) -> bool:
    """Whether `fleet` meets `slo` at `rate_rps` over all its replicas."""
    return meets_slo(run_fleet(fleet, rate_rps, pace, slo), slo)
