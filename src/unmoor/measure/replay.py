"""The load generator: sends requests on an absolute schedule, whatever the engine does, and measures itself too."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic_ns

from unmoor.core.evidence import Caveat
from unmoor.core.record import Outcome, Record, send_lag_s
from unmoor.core.slo import Slo
from unmoor.core.stats import quantile
from unmoor.measure.address import Address, address_of, request_bytes
from unmoor.measure.exchange import Exchange, record_of, refused
from unmoor.measure.load import PlannedRequest, ReplayReport, Target

__all__ = ["PlannedRequest", "ReplayReport", "Target", "replay"]

Sink = Callable[[Record], None]

_CONNECT_AHEAD_S = 0.25
_HEARTBEAT_S = 0.02
_LAG_SHARE = 0.05
"""The send lag that a figure may carry unmarked, as a share of the SLO's time to first token."""


def replay(
    target: Target,
    planned: Sequence[PlannedRequest],
    *,
    sink: Sink,
    timeout_s: float,
    stop: Callable[[], bool] | None = None,
    slo: Slo | None = None,
) -> ReplayReport:
    """Sends every request at its due time, hands each record to `sink` as it ends, and reports on the sending.

    Open loop: a slow engine delays nothing that is sent. Connections are opened ahead of their due time, so that
    connecting is in no latency. A request has `timeout_s` from its sending to the end of its answer.
    `stop` is asked about fifty times a second; when it says yes, or at Ctrl-C, what is in flight is recorded as
    cancelled, the rest is never sent and the report is `partial`. A second Ctrl-C interrupts at once.
    With an `slo` that bounds the time to first token, a p99 send lag above 5 % of the bound gives the caveat
    "client_bound". An error that `sink` raises ends the replay and is raised here.

    Raises UsageError for a target that is not this machine.
    """
    address = address_of(target)
    requests = sorted(planned, key=lambda request: request.due_s)
    wires = [request_bytes(target, address, request) for request in requests]
    with _ctrl_c() as pressed:
        run = _Run(address, list(zip(requests, wires, strict=True)), sink, timeout_s, stop)
        with _collector_off():
            asyncio.run(run.play(pressed))
    # Pressed after the last request it still means: stop here.
    run.partial = run.partial or pressed.seen
    return _report(run, slo)


class _Pressed:
    """Whether Ctrl-C was pressed, and what is to be done about it once something can be."""

    def __init__(self) -> None:
        self.seen = False
        self.then: Callable[[], object] | None = None

    def see(self) -> None:
        self.seen = True
        if self.then is not None:
            self.then()


class _Run:
    """One replay while it goes on."""

    def __init__(
        self,
        address: Address,
        requests: list[tuple[PlannedRequest, bytes]],
        sink: Sink,
        timeout_s: float,
        stop: Callable[[], bool] | None,
    ) -> None:
        self.requests = requests
        self.started_at_ns = 0
        self.ended_at_ns = 0
        self.lags_s: list[float] = []
        self.sent_at_ns: list[int] = []
        self.stalls_s: list[float] = []
        self.recorded = 0
        self.failures = 0
        self.partial = False
        self._address = address
        self._sink = sink
        self._timeout_s = timeout_s
        self._stop = stop
        self._stopping = asyncio.Event()
        self._fault: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._flying: set[Exchange] = set()

    async def play(self, pressed: _Pressed) -> None:
        """Sends everything and returns when every request has ended."""
        loop = asyncio.get_running_loop()
        pressed.then = lambda: loop.call_soon_threadsafe(self._halt)
        if pressed.seen:
            self._halt()
        self.started_at_ns = monotonic_ns() + round(_CONNECT_AHEAD_S * 1e9)
        heart = asyncio.create_task(self._beat())
        await self._dispatch()
        while self._tasks:
            await asyncio.wait(self._tasks)
        heart.cancel()
        await asyncio.wait([heart])
        pressed.then = None
        self.ended_at_ns = monotonic_ns()
        if self._fault is not None:
            raise self._fault

    async def _dispatch(self) -> None:
        for request, wire in self.requests:
            due_at_ns = self.started_at_ns + round(request.due_s * 1e9)
            if await self._stopped_before(due_at_ns - round(_CONNECT_AHEAD_S * 1e9)):
                self.partial = True
                return
            task = asyncio.create_task(self._guarded(request, wire, due_at_ns))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _guarded(self, request: PlannedRequest, wire: bytes, due_at_ns: int) -> None:
        try:
            await self._one(request, wire, due_at_ns)
        except BaseException as error:  # noqa: BLE001 - kept, and raised by play() when the others have ended
            self._fault = self._fault or error
            self._halt()

    async def _one(self, request: PlannedRequest, wire: bytes, due_at_ns: int) -> None:
        exchange = await self._connect(quiet=True)
        if not await self._stopped_before(due_at_ns) and (exchange is None or not exchange.usable):
            try:
                exchange = await self._connect()
            except (OSError, TimeoutError) as error:
                self._note(refused(request, due_at_ns, _reason(error)))
                return
        if exchange is None or self._stopping.is_set():
            self._leave(exchange)
            return
        exchange.send(wire)
        stopped, reason = await self._watch(exchange)
        self._note(record_of(exchange, request, due_at_ns, stopped, stop_reason=reason))

    def _leave(self, exchange: Exchange | None) -> None:
        self.partial = True
        if exchange is not None:
            exchange.abandon()

    async def _connect(self, *, quiet: bool = False) -> Exchange | None:
        """A connection; when quiet, None where there is none to be had yet."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_AHEAD_S if quiet else self._timeout_s):
                _, exchange = await loop.create_connection(Exchange, self._address.host, self._address.port)
        except (OSError, TimeoutError):
            if quiet:
                return None
            raise
        return exchange

    async def _watch(self, exchange: Exchange) -> tuple[Outcome | None, str]:
        """Waits for the end of an exchange; says so when it is we who end it."""
        self._flying.add(exchange)
        try:
            async with asyncio.timeout(self._timeout_s):
                await exchange.ended.wait()
        except TimeoutError:
            exchange.abandon()
            return Outcome.TIMEOUT, f"no end of the answer within {self._timeout_s:g} s"
        finally:
            self._flying.discard(exchange)
        if exchange.abandoned:
            self.partial = True
            return Outcome.CANCELLED, "the run was stopped"
        return None, ""

    def _halt(self) -> None:
        """Sends nothing more and ends what is in flight."""
        self._stopping.set()
        for exchange in list(self._flying):
            exchange.abandon()

    async def _stopped_before(self, at_ns: int) -> bool:
        """Waits until a moment, to the millisecond that epoll can tell; whether the run was stopped meanwhile.

        Nothing spins for the last millisecond: that time would be taken from an engine on the same machine.
        """
        wait_s = (at_ns - monotonic_ns()) / 1e9
        if wait_s > 0 and not self._stopping.is_set():
            try:
                async with asyncio.timeout(wait_s):
                    await self._stopping.wait()
            except TimeoutError:
                pass
        return self._stopping.is_set()

    async def _beat(self) -> None:
        """Asks whether to stop, and measures how late this loop's own timer wakes."""
        while True:
            due_at_ns = monotonic_ns() + round(_HEARTBEAT_S * 1e9)
            await asyncio.sleep(_HEARTBEAT_S)
            self.stalls_s.append(max(0, monotonic_ns() - due_at_ns) / 1e9)
            try:
                if self._stop is not None and not self._stopping.is_set() and self._stop():
                    self._halt()
            except Exception as error:  # noqa: BLE001 - the caller's; kept, and raised by play()
                self._fault = self._fault or error
                self._halt()

    def _note(self, record: Record) -> None:
        self.recorded += 1
        self.failures += not record.ok
        lag_s = send_lag_s(record)
        if lag_s is not None and record.sent_at_ns is not None:
            self.lags_s.append(lag_s)
            self.sent_at_ns.append(record.sent_at_ns)
        if self._fault is None:
            self._sink(record)


@contextmanager
def _ctrl_c() -> Iterator[_Pressed]:
    """The first Ctrl-C stops the run in good order; the second is Python's own.

    Held from before the loop is there: raised while the collector or a destructor runs, Ctrl-C would be swallowed.
    """
    pressed = _Pressed()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.getsignal(signal.SIGINT)

    def stop(_signal: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        pressed.see()

    signal.signal(signal.SIGINT, stop)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


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


def _reason(error: OSError | TimeoutError) -> str:
    if isinstance(error, TimeoutError):
        return "no connection in time"
    return os.strerror(error.errno) if error.errno else str(error)


def _rate_rps(times_s: Sequence[float]) -> float | None:
    """Gaps per second between the first and the last of some moments; None where that says nothing."""
    span_s = max(times_s) - min(times_s) if times_s else 0.0
    return (len(times_s) - 1) / span_s if span_s > 0 else None


def _report(run: _Run, slo: Slo | None) -> ReplayReport:
    p99_s = quantile(run.lags_s, 0.99)
    return ReplayReport(
        planned=len(run.requests),
        requests=run.recorded,
        failures=run.failures,
        partial=run.partial,
        offered_rps=_rate_rps([request.due_s for request, _ in run.requests]),
        achieved_rps=_rate_rps([at_ns / 1e9 for at_ns in run.sent_at_ns]),
        send_lag_p50_s=quantile(run.lags_s, 0.5),
        send_lag_p99_s=p99_s,
        send_lag_max_s=max(run.lags_s, default=None),
        loop_stall_p99_s=quantile(run.stalls_s, 0.99),
        loop_stall_max_s=max(run.stalls_s, default=None),
        started_at_ns=run.started_at_ns,
        ended_at_ns=run.ended_at_ns,
        caveats=_caveats(p99_s, slo),
    )


def _caveats(p99_s: float | None, slo: Slo | None) -> tuple[Caveat, ...]:
    if slo is None or slo.ttft_s is None or p99_s is None or p99_s <= _LAG_SHARE * slo.ttft_s:
        return ()
    text = (
        f"the client itself sent late: p99 {p99_s * 1000:.1f} ms, more than {_LAG_SHARE:.0%} of the "
        f"{slo.ttft_s * 1000:g} ms allowed to the first token"
    )
    return (Caveat(code="client_bound", text=text),)
