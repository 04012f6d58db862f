"""What this machine's client can carry, found out by running it against a server of known pace."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from unmoor.core.stats import quantile
from unmoor.measure.client.replay import connections_allowed
from unmoor.measure.headroom.calibration_server import CalibrationServer
from unmoor.measure.headroom.headroom import (
    LAG_BOUND_S,
    RATE_SHARE,
    Headroom,
    Limit,
    Shape,
    Step,
    search,
)

STREAM_TPS = 20.0
WITHIN_S = 30.0
SHORT_CHUNKS = 4
_FOR_STREAMS = 2 / 3
_WAKES = 500
_WAKE_S = 0.002
_STREAMS = Shape(rate_rps=20.0, chunks=100, gap_s=1 / STREAM_TPS, first_s=1 / STREAM_TPS)
"""100 streams at a time."""
_SHORT = Shape(rate_rps=200.0, chunks=SHORT_CHUNKS, gap_s=0.0, first_s=0.01)


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """How much later than asked this process was woken with nothing to do, in seconds: the machine's own noise."""

    p50_s: float | None
    p99_s: float | None
    max_s: float | None
    n: int


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The client's CPU, user and system, for one chunk or one request, in microseconds, over `n` of them."""

    cpu_us: float | None
    n: int


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """The most that was carried within the bounds; each None where not even the first step was.

    `limited_by` as in Headroom. `streams` were open together, each at its pace; the client read `chunk_rate_tps` over
    the whole step, its beginning and end included. `request_rps` were begun in a second.
    """

    streams: int | None
    chunk_rate_tps: float | None
    request_rps: float | None
    receive_lag_p99_s: float | None
    send_lag_p99_s: float | None
    requests: int
    chunks: int
    limited_by: Limit


class SelfCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What `unmoor load` can carry here. Every figure was run, for about a second each; a longer run meets more noise.

    `clock` says whose time stamps are on what arrives. `chunk` is the cost of a chunk of streams at 20 tokens a second,
    `short_request` that of an answer of four chunks in one write, both with all that the client does, at the largest
    load that was carried. `lag_bound_s` and `rate_share` are the bounds: p99 of send lag and receive lag, and of
    achieved against offered rate. What Ctrl-C came before is None, and the check `partial`.
    """

    clock: Literal["kernel", "user"]
    lag_bound_s: float
    rate_share: float
    noise: Noise
    chunk: Cost
    short_request: Cost | None
    streams: Carried
    short_requests: Carried | None
    took_s: float
    steps: tuple[Step, ...]
    partial: bool


def self_check(*, within_s: float = WITHIN_S, tell: Callable[[str], None] = lambda _: None) -> SelfCheck:
    """Runs the client against a calibration server for about `within_s`; `tell` gets a line for each step.

    Raises WorldError where the calibration server cannot run, KeyboardInterrupt where Ctrl-C came before any figure.
    """
    began_s = time.monotonic()

    def left_s() -> float:
        return within_s - (time.monotonic() - began_s)

    tell("the machine's own noise")
    noise = _noise()
    with CalibrationServer() as server, connections_allowed():
        tell(f"streams at {STREAM_TPS:g} tokens/s")
        streams = search(server, _STREAMS, LAG_BOUND_S, within_s=left_s() * _FOR_STREAMS, tell=tell)
        short = None
        if streams.limited_by != "stopped":
            tell(f"answers of {SHORT_CHUNKS} chunks in one write")
            short = search(server, _SHORT, LAG_BOUND_S, within_s=left_s(), tell=tell)
    return SelfCheck(
        clock=streams.clock,
        lag_bound_s=LAG_BOUND_S,
        rate_share=RATE_SHARE,
        noise=noise,
        chunk=_cost_of_a_chunk(streams),
        short_request=None if short is None else _cost_of_a_request(short),
        streams=_carried(streams),
        short_requests=None if short is None else _carried(short),
        took_s=time.monotonic() - began_s,
        steps=(*streams.steps, *(() if short is None else short.steps)),
        partial=short is None or short.limited_by == "stopped",
    )


def _noise() -> Noise:
    late_s = []
    due_s = time.monotonic()
    for _ in range(_WAKES):
        due_s += _WAKE_S
        time.sleep(max(0.0, due_s - time.monotonic()))
        late_s.append(time.monotonic() - due_s)
        due_s = max(due_s, time.monotonic() - _WAKE_S)
    return Noise(p50_s=quantile(late_s, 0.5), p99_s=quantile(late_s, 0.99), max_s=max(late_s), n=len(late_s))


def _cost_of_a_chunk(found: Headroom) -> Cost:
    """Of the largest step that was carried, else of the first: there are most chunks, and turns that serve several."""
    step = found.most or found.steps[0]
    return Cost(cpu_us=step.cpu_us_per_chunk, n=step.chunks)


def _cost_of_a_request(found: Headroom) -> Cost:
    step = found.most or found.steps[0]
    return Cost(cpu_us=step.cpu_us_per_request, n=step.requests)


def _carried(found: Headroom) -> Carried:
    most = found.most
    return Carried(
        streams=None if most is None else most.streams,
        chunk_rate_tps=None if most is None else most.chunk_rate_tps,
        request_rps=None if most is None else most.achieved_rps,
        receive_lag_p99_s=None if most is None else most.receive_lag_p99_s,
        send_lag_p99_s=None if most is None else most.send_lag_p99_s,
        requests=0 if most is None else most.requests,
        chunks=0 if most is None else most.chunks,
        limited_by=found.limited_by,
    )
