"""How much more than a load this machine's client could carry: its own loop against a server of known pace."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from math import ceil, inf, sqrt
from typing import Literal

import msgspec
from msgspec.structs import replace

from unmoor.core.calibration import Answer, Kept
from unmoor.core.evidence import Caveat
from unmoor.core.record import Record, ttft_s
from unmoor.core.slo import Slo
from unmoor.measure.client.load import PlannedRequest, ReplayReport, Target
from unmoor.measure.client.replay import CLIENT_SHARE, connections_allowed, replay
from unmoor.measure.headroom.calibration_server import MODEL, CalibrationServer

RATE_SHARE = 0.005
"""So far may the rate of sending be from the schedule's."""
LAG_BOUND_S = 0.005
"""The p99 of the client's lags that is allowed without an SLO: 5 % of 100 ms."""
WITHIN_S = 10.0

_FEWEST_FOR_A_RATE = 20
_RAMP_RPS = 1000
"""Streams that are to be open together are begun at this rate: beginning one costs as much as some ten chunks."""
_RAMP_S = 0.5
_HOLD_S = 0.5
_STEADY_S = 1.5
_OVERRUN_S = 0.25
"""The last answers may take so long to be understood, and 5 % of the run: beyond it, work was put off for good."""
_OVERRUN_SHARE = 0.05
_TIMEOUT_S = 20.0
_CLOSE_ENOUGH = 1.2
_BUSY = 0.9
"""The share of one core at which a next step aims."""
_MOST_GROWTH = 16.0
_LEAST_GROWTH = 1.3
_MOST_REQUESTS = 50_000
_TRIES = 2
_LITTLE = 2.0
_NO_GAP_LATE_S = 0.05
_FILES_KEPT = 64

Tell = Callable[[str], None]
Limit = Literal["client", "server", "time", "stopped"]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A load: `rate_rps` requests per second, whose answers have so many chunks; `prompt_bytes` is a request's text.

    The first chunk comes `first_s` after its request, the others `gap_s` apart; with a gap of 0 all at once.
    """

    rate_rps: float
    chunks: int
    gap_s: float
    first_s: float = 0.05
    prompt_bytes: int = 1000

    @property
    def answer(self) -> Answer:
        """The answer, as a calibration server gives it."""
        return Answer(chunks=self.chunks, gap_s=self.gap_s, first_s=self.first_s)

    @property
    def streams(self) -> float:
        """How many answers are under way at a time (Little's law)."""
        return self.rate_rps * self.answer.lasts_s


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One run against the calibration server, at `factor` times the load. Lags in seconds, p99; None: not measured.

    `requests` and `chunks` are those that the figures are of; `streams` were open together. `receive_lag_p99_s` is the
    stall of the client's loop where time stamps are its own. `server_late_p99_s` is the server's own error. `held`: the
    client stayed within its bounds, and had understood all answers soon after their end. `spoilt`: the server did not
    keep its pace, so that nothing is said of the client. `chunk_rate_tps` is over the whole step, its beginning and end
    included. `overrun_s` is how much longer the step took than its answers. `cpu_s` is the client's, user and system.
    """

    factor: float
    streams: int
    rate_rps: float
    achieved_rps: float | None
    requests: int
    failures: int
    chunks: int
    chunk_rate_tps: float | None
    send_lag_p99_s: float | None
    receive_lag_p99_s: float | None
    loop_stall_p99_s: float | None
    loop_stall_max_s: float | None
    server_late_p99_s: float | None
    clock: Literal["kernel", "user"]
    cpu_s: float
    wall_s: float
    overrun_s: float
    held: bool
    spoilt: bool
    partial: bool = False

    @property
    def carried(self) -> bool:
        """Whether the client kept within its bounds, on a server that kept its pace."""
        return self.held and not self.spoilt

    @property
    def cpu_us_per_chunk(self) -> float | None:
        """All of the client's CPU over its chunks, in microseconds."""
        return self.cpu_s * 1e6 / self.chunks if self.chunks else None

    @property
    def cpu_us_per_request(self) -> float | None:
        """All of the client's CPU over its requests, in microseconds."""
        return self.cpu_s * 1e6 / self.requests if self.requests else None


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """How many times the load this machine's client carried; None where it did not carry it once.

    `limited_by`: "client" was not within its bounds at the next step, "server": the calibration server did not keep its
    pace there, "time": the search ended before either, "stopped": by Ctrl-C. Only for "client" is the factor about as
    much as can be; else it is as much as was tried. `steps` are in the order in which they ran.
    """

    factor: float | None
    limited_by: Limit
    lag_bound_s: float
    clock: Literal["kernel", "user"]
    took_s: float
    steps: tuple[Step, ...]

    @property
    def most(self) -> Step | None:
        """The largest step that was carried."""
        return max((step for step in self.steps if step.carried), key=lambda step: step.factor, default=None)

    @property
    def cpu_us_per_chunk(self) -> float | None:
        """Of the largest step that was carried, in microseconds."""
        return self.most.cpu_us_per_chunk if self.most else None

    @property
    def cpu_us_per_request(self) -> float | None:
        """Of the largest step that was carried, in microseconds."""
        return self.most.cpu_us_per_request if self.most else None


def shape_of(records: Sequence[Record], *, prompt_bytes: int) -> Shape | None:
    """The shape of a load that has run, by its answers that came whole; None where they say too little."""
    ok = [record for record in records if record.ok and record.chunk_at_ns]
    sent_ns = sorted(record.sent_at_ns for record in records if record.sent_at_ns is not None)
    if not ok or len(sent_ns) < 2 or sent_ns[0] == sent_ns[-1]:  # noqa: PLR2004 - a rate is of two
        return None
    gaps = [(record.chunk_at_ns[-1] - record.chunk_at_ns[0]) / 1e9 for record in ok]
    gap_count = sum(len(record.chunk_at_ns) - 1 for record in ok)
    first_s = statistics.fmean([found for record in ok if (found := ttft_s(record)) is not None])
    return Shape(
        rate_rps=(len(sent_ns) - 1) * 1e9 / (sent_ns[-1] - sent_ns[0]),
        chunks=max(1, round(statistics.fmean([len(record.chunk_at_ns) for record in ok]))),
        gap_s=min(60.0, sum(gaps) / gap_count) if gap_count else 0.0,
        first_s=min(60.0, first_s),
        prompt_bytes=prompt_bytes,
    )


def lag_bound_s(slo: Slo | None) -> float:
    """What the p99 of the client's lags may be: 5 % of the SLO's tightest bound on a latency, or 5 ms without one."""
    bounds = [] if slo is None else [bound for bound in (slo.ttft_s, slo.e2e_s) if bound is not None]
    return CLIENT_SHARE * min(bounds) if bounds else LAG_BOUND_S


def headroom(
    shape: Shape, *, slo: Slo | None = None, within_s: float = WITHIN_S, tell: Tell = lambda _: None
) -> Headroom:
    """Runs the client's own loop at the load's shape, and at multiples until its error is more than may be.

    `tell` gets a line for each step. It takes about `within_s`, at least one step of some two seconds.
    Raises WorldError where the calibration server cannot run.
    """
    with CalibrationServer() as server, connections_allowed():
        return search(server, shape, lag_bound_s(slo), within_s=within_s, tell=tell)


def search(server: CalibrationServer, shape: Shape, bound_s: float, *, within_s: float, tell: Tell) -> Headroom:
    """The search of `headroom`, against a server that runs."""
    began_s = time.monotonic()
    steps: list[Step] = []
    held, failed = 0.0, inf
    limited_by: Limit = "time"
    factor: float | None = 1.0
    while factor is not None and (not steps or time.monotonic() - began_s + _takes_s(shape, factor) < within_s):
        steps += _tried(server, shape, factor, bound_s, tell)
        last = steps[-1]
        if last.partial:
            limited_by = "stopped"
            break
        if last.carried:
            held = factor
        else:
            failed, limited_by = factor, "server" if last.spoilt else "client"
        factor = _next_factor(shape, held, failed, last)
    return Headroom(
        factor=held or None,
        limited_by=limited_by,
        lag_bound_s=bound_s,
        clock=steps[0].clock,
        took_s=time.monotonic() - began_s,
        steps=tuple(steps),
    )


def _tried(server: CalibrationServer, shape: Shape, factor: float, bound_s: float, tell: Tell) -> list[Step]:
    """A step, and once more if it was not carried: another process may have had the core."""
    steps: list[Step] = []
    while len(steps) < _TRIES and not (steps and (steps[-1].carried or steps[-1].partial)):
        steps.append(run_step(server, shape, factor, bound_s))
        tell(said(steps[-1]))
    return steps


def _next_factor(shape: Shape, held: float, failed: float, last: Step) -> float | None:
    """Where the next step is worth its time; None where none is.

    Upwards it is where the CPU of the last step says that the core is full, then halfway between held and failed.
    """
    if failed < inf:
        if failed <= held * _CLOSE_ENOUGH or failed <= 1.0:
            return None
        return sqrt(held * failed)
    busy = (last.cpu_us_per_chunk or 0.0) / 1e6 * shape.rate_rps * last.factor * shape.chunks
    growth = min(_MOST_GROWTH, max(_LEAST_GROWTH, _BUSY / max(busy, 1e-6)))
    # A process may hold so many connections, and a step may take so long.
    streams = (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _FILES_KEPT) / max(shape.streams, 1e-9)
    factor = min(held * growth, streams, _MOST_REQUESTS / max(shape.rate_rps, shape.streams))
    return factor if factor > held else None


def _plan(shape: Shape, factor: float) -> tuple[Answer, int, float]:
    """The answer, the number of requests and their rate that stand for `factor` times the load, in little time.

    Answers that last longer than the streams take to begin are cut: all streams are begun, and held open for a while.
    """
    streams = max(1.0, shape.streams * factor)
    ramp_s = max(_RAMP_S, streams / max(_RAMP_RPS, shape.rate_rps * factor))
    answer = shape.answer
    if answer.lasts_s <= ramp_s + _HOLD_S:
        return answer, max(1, ceil(shape.rate_rps * factor * (answer.lasts_s + _STEADY_S))), shape.rate_rps * factor
    first_s = min(answer.first_s, _HOLD_S)
    chunks = max(1, min(answer.chunks, 1 + int((ramp_s + _HOLD_S - first_s) / answer.gap_s))) if answer.gap_s else 1
    cut = Answer(chunks=chunks, gap_s=answer.gap_s, first_s=first_s)
    return cut, ceil(streams), streams / ramp_s


def _takes_s(shape: Shape, factor: float) -> float:
    answer, requests, rate_rps = _plan(shape, factor)
    return requests / rate_rps + answer.lasts_s + 0.5


def run_step(server: CalibrationServer, shape: Shape, factor: float, bound_s: float) -> Step:
    """One run at `factor` times the load's shape. Raises WorldError where the server died."""
    answer, requests, rate_rps = _plan(shape, factor)
    prompt = ("word " * (shape.prompt_bytes // 5 + 1))[: shape.prompt_bytes]
    # Answers of a real engine come at no common beat: these neither.
    beat_s = answer.gap_s / max(1.0, requests / 7)
    planned = [
        PlannedRequest(index=i, due_s=i / rate_rps + (i % 7) * beat_s / 7, prompt=prompt, max_tokens=answer.chunks)
        for i in range(requests)
    ]
    chunks = 0

    def sink(record: Record) -> None:
        nonlocal chunks
        chunks += len(record.chunk_at_ns)

    expected_s = (requests - 1) / rate_rps + answer.lasts_s
    server.answer_with(answer)
    cpu_s = time.process_time()
    report = replay(Target(url=server.url, served_name=MODEL), planned, sink=sink, timeout_s=_TIMEOUT_S)
    cpu_s = time.process_time() - cpu_s
    step = _step(shape, factor, bound_s, report, server.kept(), chunks=chunks, cpu_s=cpu_s)
    overrun_s = max(0.0, step.wall_s - expected_s)
    in_time = overrun_s <= expected_s * _OVERRUN_SHARE + _OVERRUN_S
    return replace(step, overrun_s=overrun_s, held=step.held and in_time)


def _step(
    shape: Shape, factor: float, bound_s: float, report: ReplayReport, kept: Kept, *, chunks: int, cpu_s: float
) -> Step:
    wall_s = (report.ended_at_ns - report.started_at_ns) / 1e9
    receive_lag_s = report.receive_lag_p99_s if report.clock == "kernel" else report.loop_stall_p99_s
    lags_s = [lag for lag in (report.send_lag_p99_s, receive_lag_s) if lag is not None]
    off = 0.0
    if report.requests >= _FEWEST_FOR_A_RATE and report.offered_rps and report.achieved_rps:
        off = abs(report.achieved_rps / report.offered_rps - 1)
    late_s = kept.late_p99_s or 0.0
    held = bool(lags_s) and max(lags_s) <= bound_s and off <= RATE_SHARE and not report.failures
    return Step(
        factor=factor,
        streams=ceil(shape.streams * factor),
        rate_rps=report.offered_rps or shape.rate_rps * factor,
        achieved_rps=report.achieved_rps,
        requests=report.requests,
        failures=report.failures,
        chunks=chunks,
        chunk_rate_tps=chunks / wall_s if wall_s > 0 else None,
        send_lag_p99_s=report.send_lag_p99_s,
        receive_lag_p99_s=receive_lag_s,
        loop_stall_p99_s=report.loop_stall_p99_s,
        loop_stall_max_s=report.loop_stall_max_s,
        server_late_p99_s=kept.late_p99_s,
        clock=report.clock,
        cpu_s=cpu_s,
        wall_s=wall_s,
        overrun_s=0.0,
        held=held,
        # A whole gap late is no pace at all; and what a late server sends at once, a client cannot read at once.
        spoilt=late_s > (shape.gap_s or _NO_GAP_LATE_S) or (not held and late_s > bound_s),
        partial=report.partial,
    )


def headroom_caveats(found: Headroom) -> tuple[Caveat, ...]:
    """What is to stand beside a load's figures: that its client had little to spare, or that this is not known."""
    last = found.steps[-1]
    if found.limited_by == "stopped":
        text = "How much more this machine's client could have carried was not found out: it was stopped."
        return (Caveat(code="headroom_unknown", text=text),)
    if found.factor is None and found.limited_by == "client":
        text = f"The client could not carry this load against a server of known pace: {said(last)}."
        return (Caveat(code="headroom_little", text=text),)
    if found.factor is None:
        why = f"the calibration server was late itself: {said(last)}"
        text = f"How much more this machine's client could have carried was not found out: {why}."
        return (Caveat(code="headroom_unknown", text=text),)
    if found.factor < _LITTLE and found.limited_by == "client":
        text = (
            f"The client carried {found.factor:.2g} times this load and not {last.factor:.2g}: it had little to spare."
        )
        return (Caveat(code="headroom_little", text=text),)
    return ()


def said(step: Step) -> str:
    """A step in a line."""
    came = (
        "carried" if step.held and not step.spoilt else "not judged: the server was late" if step.spoilt else "missed"
    )
    lags = ", ".join(
        f"{name} p99 {lag * 1000:.1f} ms"
        for name, lag in (("sent late", step.send_lag_p99_s), ("received late", step.receive_lag_p99_s))
        if lag is not None
    )
    lags += f", done {step.overrun_s * 1000:.0f} ms after the last answer"
    return f"{step.factor:.3g}x: {step.streams:,} streams, {step.rate_rps:,.0f} requests/s: {lags}: {came}"
