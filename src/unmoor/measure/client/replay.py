"""The load generator: sends requests on an absolute schedule, whatever the engine does, and measures itself too."""

from __future__ import annotations

import gc
import resource
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic_ns
from typing import Literal

from unmoor.core.evidence import Caveat
from unmoor.core.plural import plural
from unmoor.core.record import Record, send_lag_s
from unmoor.core.slo import Slo
from unmoor.core.stats import quantile
from unmoor.measure.client.address import address_of, asked_of, request_bytes
from unmoor.measure.client.arrival_clock import ArrivalClock
from unmoor.measure.client.load import Pacing, PlannedRequest, ReplayReport, Target
from unmoor.measure.client.wire_loop import CONNECT_AHEAD_NS, WireLoop

__all__ = ["Pacing", "PlannedRequest", "ReplayReport", "Target", "replay"]

Sink = Callable[[Record], None]

_MOST_STALLS = 10_000
CLIENT_SHARE = 0.05
"""The client's own error, p99, that a figure may carry unmarked: so much of the SLO's tightest bound on a latency."""


def replay(
    target: Target,
    planned: Sequence[PlannedRequest],
    *,
    sink: Sink,
    timeout_s: float,
    stop: Callable[[], bool] | None = None,
    enough: Callable[[], bool] | None = None,
    slo: Slo | None = None,
    pacing: Pacing = Pacing(),  # noqa: B008 - frozen
    count: Callable[[str], int] | None = None,
) -> ReplayReport:
    """Sends every request at its due time, hands each record to `sink` as it ends, and reports on the sending.

    Open loop, unless `pacing` says otherwise: a slow engine delays nothing that is sent. Connections are opened ahead
    of their due time, so that connecting is in no latency, and used again after a whole answer unless the server says
    `Connection: close`. One that was used before and ends within a second without a byte had been closed already: its
    request is sent once more on a new one and counted as `retried`, so that it is late, not failed. A request has
    `timeout_s` from its sending to the end of its answer. `sent_at_ns` is when the client turned to it: that a
    connection did not stand yet, or was lost, is the server's, and in the latencies from sent.
    Times of arrival are the kernel's where it stamps what it receives (Linux). It has one stamp for what is read at
    once, that of the last byte: while this process stood still, what came before has too late a time, and
    `stood_still_ns` says when that was. Answers are understood after their end, so a record comes within a fraction of
    a second of it.
    `stop` is asked about fifty times a second; when it says yes, or at Ctrl-C, what is in flight is recorded as
    cancelled, the rest is never sent and the report is `partial`. A second Ctrl-C interrupts at once. `enough` is asked
    as often; when it says yes nothing more is sent, and what is in flight comes to its end.
    `count` counts the tokens of an answer's text where the server did not, after the answer's end.
    Where a request was sent once more there is the caveat "sent_again".
    With an `slo` that bounds a latency from when a request is due (time to first token, end to end), an error of the
    client's own above 5 % of the tightest bound gives the caveat "client_bound": the p99 of its send lag, and where
    time stamps are its own that of its stalls too. An error that `sink` raises ends the replay and is raised here.

    Raises UsageError for a target that is not this machine.
    """
    address = address_of(target)
    requests = sorted((asked_of(target, request) for request in planned), key=lambda request: request.due_s)
    wires = [request_bytes(target, address, request) for request in requests]
    with _ctrl_c() as pressed:
        run, clock = _Run(sink, stop, enough, pressed), ArrivalClock()
        pairs = list(zip(requests, wires, strict=True))
        loop = WireLoop(
            address, pairs, note=run.note, pulse=run.pulse, clock=clock, timeout_s=timeout_s, pacing=pacing, count=count
        )
        run.halt, run.finish = loop.halt, loop.finish
        with connections_allowed(), _collector_off():
            if pressed.seen:
                loop.halt()
            started_at_ns = monotonic_ns() + CONNECT_AHEAD_NS
            loop.run(started_at_ns)
            ended_at_ns = monotonic_ns()
    if run.fault is not None:
        raise run.fault
    # Pressed after the last request it still means: stop here.
    partial = loop.partial or pressed.seen
    p99_s = quantile(run.lags_s, 0.99)
    receive_lags_s = [lag_ns / 1e9 for lag_ns in clock.lags_ns] if clock.source == "kernel" else []
    return ReplayReport(
        planned=len(requests) if partial else loop.launched,
        requests=run.recorded,
        failures=run.failures,
        partial=partial,
        ended_by=_ended_by(partial=partial, enough=run.had_enough, all_sent=loop.launched == len(requests)),
        offered_rps=None if pacing.concurrency else _rate_rps([at_ns / 1e9 for at_ns in run.due_at_ns]),
        achieved_rps=_rate_rps([at_ns / 1e9 for at_ns in run.sent_at_ns]),
        send_lag_p50_s=quantile(run.lags_s, 0.5),
        send_lag_p99_s=p99_s,
        send_lag_max_s=max(run.lags_s, default=None),
        loop_stall_p99_s=quantile(loop.stalls_s, 0.99),
        loop_stall_max_s=max(loop.stalls_s, default=None),
        started_at_ns=started_at_ns,
        ended_at_ns=ended_at_ns,
        clock=clock.source,
        receive_lag_p50_s=quantile(receive_lags_s, 0.5),
        receive_lag_p99_s=quantile(receive_lags_s, 0.99),
        receive_lag_max_s=max(receive_lags_s, default=None),
        stamps_dropped=clock.dropped,
        retried=loop.retried,
        stood_still_ns=tuple(loop.stood_still_ns[:_MOST_STALLS]),
        caveats=(
            *_client_bound("sent late", p99_s, slo),
            *(_client_bound("stalled", quantile(loop.stalls_s, 0.99), slo) if clock.source == "user" else ()),
            *_own_limits(loop.own_limits),
            *_sent_again(loop.retried),
        ),
    )


class _Pressed:
    """Whether Ctrl-C was pressed."""

    seen = False


class _Run:
    """What is kept of one replay: its counts, its lags, and the first error of the caller's own functions."""

    def __init__(
        self, sink: Sink, stop: Callable[[], bool] | None, enough: Callable[[], bool] | None, pressed: _Pressed
    ) -> None:
        self.due_at_ns: list[int] = []
        self.lags_s: list[float] = []
        self.sent_at_ns: list[int] = []
        self.recorded = 0
        self.failures = 0
        self.fault: BaseException | None = None
        self.had_enough = False
        self.halt: Callable[[], None] = lambda: None
        self.finish: Callable[[], None] = lambda: None
        self._sink = sink
        self._stop = stop
        self._enough = enough
        self._pressed = pressed

    def note(self, record: Record) -> None:
        """Counts a record and hands it over; an error of the sink is kept, and ends the run."""
        self.recorded += 1
        self.failures += not record.ok
        self.due_at_ns.append(record.scheduled_at_ns)
        lag_s = send_lag_s(record)
        if lag_s is not None and record.sent_at_ns is not None:
            self.lags_s.append(lag_s)
            self.sent_at_ns.append(record.sent_at_ns)
        if self.fault is None:
            with self._kept():
                self._sink(record)

    def pulse(self) -> None:
        """Ends the run when that is wished; an error of `stop` is kept, and ends it too."""
        with self._kept():
            if self._pressed.seen or (self._stop is not None and self.fault is None and self._stop()):
                self.halt()
            elif self._enough is not None and not self.had_enough and self.fault is None and self._enough():
                self.had_enough = True
                self.finish()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - the caller's; kept, and raised when what is in flight has ended
            self.fault = self.fault or error
            self.halt()


@contextmanager
def _ctrl_c() -> Iterator[_Pressed]:
    """The first Ctrl-C, or SIGTERM, stops the run in good order; the second is as it was before.

    Held from before the loop is there: raised while the collector or a destructor runs, Ctrl-C would be swallowed.
    """
    pressed = _Pressed()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def as_before() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(_signal: int, _frame: object) -> None:
        as_before()
        pressed.seen = True

    for number in before:
        signal.signal(number, stop)
    try:
        yield pressed
    finally:
        as_before()


@contextmanager
def connections_allowed() -> Iterator[None]:
    """Lets this process open as many connections as it may for a while; the usual limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def _collector_off() -> Iterator[None]:
    """No garbage collection for a while: a full one stalls the loop by milliseconds. As it was, afterwards."""
    was_on, ours = gc.isenabled(), gc.get_freeze_count() == 0
    gc.collect()
    if ours:
        gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()
        if was_on:
            gc.enable()


def _rate_rps(times_s: Sequence[float]) -> float | None:
    """Gaps per second between the first and the last of some moments; None where that says nothing."""
    span_s = max(times_s) - min(times_s) if times_s else 0.0
    return (len(times_s) - 1) / span_s if span_s > 0 else None


def _ended_by(*, partial: bool, enough: bool, all_sent: bool) -> Literal["all", "duration", "enough", "stopped"]:
    if partial:
        return "stopped"
    if all_sent:
        return "all"
    return "enough" if enough else "duration"


def _client_bound(how: str, p99_s: float | None, slo: Slo | None) -> tuple[Caveat, ...]:
    bounds = [] if slo is None else [bound for bound in (slo.ttft_s, slo.e2e_s) if bound is not None]
    if p99_s is None or not bounds or p99_s <= CLIENT_SHARE * min(bounds):
        return ()
    text = (
        f"the client itself {how}: p99 {p99_s * 1000:.1f} ms, more than {CLIENT_SHARE:.0%} of the "
        f"{min(bounds) * 1000:g} ms allowed"
    )
    return (Caveat(code="client_bound", text=text),)


def _own_limits(count: int) -> tuple[Caveat, ...]:
    if not count:
        return ()
    text = (
        f"{plural(count, 'request')} could not be sent for want of descriptors, ports or memory on this machine: "
        "`ulimit -n` says how many connections a process may open"
    )
    return (Caveat(code="client_bound", text=text),)


def _sent_again(retried: int) -> tuple[Caveat, ...]:
    if not retried:
        return ()
    text = f"{plural(retried, 'request')} went out on a kept connection that the server had closed, and were sent again"
    return (Caveat(code="sent_again", text=text),)
