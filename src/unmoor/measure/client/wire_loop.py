"""The loop that sends on schedule and stamps what comes: one thread, one epoll, nothing parsed while a stream runs."""

from __future__ import annotations

import errno
import select
import time
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic_ns

from unmoor.core.record import Outcome, Record
from unmoor.measure.client.address import Address
from unmoor.measure.client.arrival_clock import ANCILLARY_BYTES, ArrivalClock
from unmoor.measure.client.connection import Connection, Due
from unmoor.measure.client.exchange import Exchange, record_of, refused
from unmoor.measure.client.load import Pacing, PlannedRequest
from unmoor.measure.client.pace import Pace
from unmoor.measure.client.readiness import READABLE, WRITABLE, Readiness, readiness

CONNECT_AHEAD_NS = 250_000_000
_STANDSTILL_NS = 5_000_000
"""A stall that is longer is kept with its moment: what was read after it had the time of its last byte."""

_HEARTBEAT_NS = 20_000_000
_MS = 1_000_000
_STALE_NS = 1_000_000_000
"""A reused connection that ends this soon without a byte had been closed by the server before it was asked."""

_QUIET_NS = 200_000_000
"""After this long without a byte an answer is looked at, whether its last bytes looked like an end or not."""

_EVENTS = 64
"""Reads in one turn: what is due waits for no more than these."""

_READ_BYTES = 1 << 16

_AFTER_A_REFUSAL_NS = 250_000_000
"""A user who is refused asks again after a while: else a server that restarts meets thousands who ask all at once."""

_OWN_LIMITS = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})
"""No connection, and not by the server's doing: no descriptor, no port, no memory."""

_UNKNOWN = 0
"""No moment of the clock: what is due next is to be looked up again."""

_BURST = 32
"""Connections opened, or requests sent, in one turn."""

_SELECTABLE = 1024
"""FD_SETSIZE: select takes no descriptor from here on."""

_QUEUE = 128
_QUEUE_NS = 200_000_000
"""How many answers, and for how long, may wait for a moment in which nothing comes and nothing is due."""


class WireLoop:
    """Sends requests at their moments and hands over the record of each when it has ended.

    `pulse` is called some fifty times a second. Neither it nor `note` may raise: they call `halt`.
    """

    def __init__(
        self,
        address: Address,
        requests: Sequence[tuple[PlannedRequest, bytes]],
        *,
        note: Callable[[Record], None],
        pulse: Callable[[], None],
        clock: ArrivalClock,
        timeout_s: float,
        pacing: Pacing = Pacing(),  # noqa: B008 - frozen
        watch: Callable[[], Readiness] = readiness,
        count: Callable[[str], int] | None = None,
    ) -> None:
        self.stalls_s: list[float] = []
        self.stood_still_ns: list[tuple[int, int]] = []  # from and to, of the longer ones
        self.retried = 0
        self.own_limits = 0  # requests that this machine's own limits kept from being sent
        self.partial = False
        self._address = address
        self._clock = clock
        self._requests = requests
        self._note = note
        self._count = count
        self._pulse = pulse
        self._timeout_ns = round(timeout_s * 1e9)
        self._timeout_reason = f"no end of the answer within {timeout_s:g} s"
        self._pacing = pacing
        self._pace = Pace((), pacing, started_at_ns=0)
        self._prepared = 0  # of those that wait for no other, so many have, or had, a connection ahead of their time
        self._in_flight = 0  # launched, and neither ended nor given up
        self._halted = False
        self._heartbeat_at_ns = 0
        self._next_ns = _UNKNOWN
        self._look_at_ns = 0
        self._epoll = watch()
        self._connections: dict[int, Connection] = {}
        self._idle: dict[Connection, None] = {}  # the last used first: the others may time out
        self._opening = 0  # connections that nothing is due on yet
        self._deadlines: deque[tuple[int, Connection, int]] = deque()  # all have the same timeout, so they are in order
        self._to_settle: deque[tuple[int, Connection]] = deque()
        self._to_record: deque[tuple[int, Callable[[], Record]]] = deque()

    def run(self, started_at_ns: int) -> None:
        """Sends everything and returns when every request has ended."""
        planned = [request for request, _ in self._requests]
        self._pace = Pace(planned, self._pacing, started_at_ns=started_at_ns)
        if self._halted:
            self.halt()
        self._heartbeat_at_ns = monotonic_ns() + _HEARTBEAT_NS
        try:
            while self._in_flight or self._to_record or self._pace.next_at_ns() is not None:
                self._turn()
        finally:
            for connection in list(self._connections.values()):
                self._drop(connection)
            self._epoll.close()

    @property
    def launched(self) -> int:
        """How many requests were due so far."""
        return self._pace.taken

    def finish(self) -> None:
        """Sends nothing more; what is in flight goes on to its end."""
        self._pace.end()
        self._next_ns = _UNKNOWN

    def halt(self) -> None:
        """Sends nothing more and ends what is in flight. Before `run` it means that nothing is sent at all."""
        self._halted = True
        self._next_ns = _UNKNOWN
        self.partial = self._pace.end() or self.partial
        for connection in list(self._connections.values()):
            if connection.exchange is not None:
                self._give_up(connection, Outcome.CANCELLED, "the run was stopped")
            elif connection.due is not None:
                self.partial = True
                self._in_flight -= 1
                connection.due = None
                self._drop(connection)

    # What comes

    def _turn(self) -> None:
        events = self._wait()
        for descriptor, kinds in events:
            connection = self._connections.get(descriptor)
            if connection is None:
                continue
            if kinds == READABLE and connection.connected:
                self._receive(connection)
            else:
                self._serve(connection, kinds)
        now_ns = monotonic_ns()
        if now_ns >= self._clock.look_at_ns:
            self._clock.look(now_ns)
        if now_ns >= self._next_ns:
            self._keep_time(now_ns)
            self._next_ns = _UNKNOWN
        if self._to_settle or self._to_record:
            self._work_off(now_ns, calm=not events)

    def _wait(self) -> list[tuple[int, int]]:
        """Waits for bytes or for what is due next, without spinning: the engine is on the same machine.

        epoll counts in milliseconds, so the last one is waited for by select, on the epoll itself.
        """
        now_ns = monotonic_ns()
        if self._next_ns == _UNKNOWN:
            self._next_ns = self._next_at_ns()
        working = (self._to_settle or self._to_record) and not self._due_soon(now_ns)
        wait_ns = 0 if working else self._next_ns - now_ns
        whole_ms = (wait_ns - _MS // 10) // _MS
        if whole_ms > 0:
            return self._epoll.poll((whole_ms - 0.5) / 1000, _EVENTS)  # rounded up by Python
        if wait_ns > 0:
            self._wait_briefly(wait_ns / 1e9)
        return self._epoll.poll(0, _EVENTS)

    def _wait_briefly(self, wait_s: float) -> None:
        descriptor = self._epoll.fileno()
        if 0 <= descriptor < _SELECTABLE:
            select.select([descriptor], [], [], wait_s)
        else:
            time.sleep(wait_s)

    def _serve(self, connection: Connection, kinds: int) -> None:
        if not connection.connected:
            self._stands(connection)
            return
        if kinds & WRITABLE and connection.write_on():
            self._epoll.modify(connection.socket, READABLE)
        if kinds & ~WRITABLE:
            self._receive(connection)

    def _receive(self, connection: Connection) -> None:
        try:
            data, stamps, _, _ = connection.receive(_READ_BYTES, ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._lose(connection, clean=False)
            return
        read_at_ns = monotonic_ns()
        exchange = connection.exchange
        if not data or exchange is None:
            self._lose(connection, clean=True)
            return
        # No other message than the stamp was asked for.
        if exchange.take(read_at_ns, data, stamps[0][2] if stamps else b"") and not connection.queued:
            self._may_be_over(connection, read_at_ns)

    def _may_be_over(self, connection: Connection, now_ns: int) -> None:
        """Has an answer looked at: in a quiet moment, but at once where another request may wait for its end."""
        if self._pacing.waits:
            self._settle(connection)
        else:
            connection.queued = True
            self._to_settle.append((now_ns, connection))

    def _lose(self, connection: Connection, *, clean: bool) -> None:
        """The server closed or broke a connection, or spoke on it unasked."""
        due, exchange = connection.due, connection.exchange
        self._drop(connection)
        now_ns = monotonic_ns()
        if due is None or exchange is None:
            if connection.served and self._spare < self._prepared - self._pace.fixed_taken:
                self._open(None)  # one that the server kept and then tired of; what it never kept is not tried for ever
            return
        if exchange.first_byte_at_ns is None and not due.again and self._was_stale(connection, exchange, now_ns):
            self.retried += 1
            exchange.abandon(now_ns)
            connection.exchange = connection.due = None
            connection.turn += 1
            self._open(Due(due.place, due.request, due.wire, due.at_ns, due.begun_at_ns, again=True))
            return
        exchange.lost(now_ns, clean=clean)
        self._may_be_over(connection, now_ns)

    @staticmethod
    def _was_stale(connection: Connection, exchange: Exchange, now_ns: int) -> bool:
        return connection.served > 0 and now_ns - exchange.sent_at_ns < _STALE_NS

    # What is due

    def _next_at_ns(self) -> int:
        next_ns = self._heartbeat_at_ns
        due_ns = self._pace.next_at_ns()
        if due_ns is not None:
            next_ns = min(next_ns, due_ns)
        fixed_ns = self._pace.fixed_at_ns(self._prepared)
        if fixed_ns is not None:
            next_ns = min(next_ns, fixed_ns - CONNECT_AHEAD_NS)
        return min(next_ns, self._deadlines[0][0]) if self._deadlines else next_ns

    def _keep_time(self, now_ns: int) -> None:
        for _ in range(_BURST):
            due_ns = self._pace.next_at_ns()
            if due_ns is None or due_ns > now_ns:
                break
            self._launch()
        for _ in range(_BURST):
            fixed_ns = self._pace.fixed_at_ns(self._prepared)
            if fixed_ns is None or fixed_ns - CONNECT_AHEAD_NS > now_ns:
                break
            self._prepared += 1
            if self._spare < self._prepared - self._pace.fixed_taken:
                self._open(None)
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            _, connection, turn = self._deadlines.popleft()
            if turn == connection.turn:
                self._time_out(connection)
        if now_ns >= self._heartbeat_at_ns:
            self._beat(now_ns)

    @property
    def _spare(self) -> int:
        return len(self._idle) + self._opening

    def _launch(self) -> None:
        at_ns, place = self._pace.take()
        request, wire = self._requests[place]
        due = Due(place, request, wire, at_ns, monotonic_ns())
        self._prepared = max(self._prepared, self._pace.fixed_taken)
        self._in_flight += 1
        if self._idle:
            self._send(self._idle.popitem()[0], due)
        else:
            self._open(due)

    def _open(self, due: Due | None) -> None:
        """Begins a connection: for a request that is due, or to have one when the next is."""
        try:
            connection = Connection(self._address, self._clock, due)
        except OSError as error:
            if due is not None and error.errno in _OWN_LIMITS:
                self.own_limits += 1
            self._refuse(due, error.strerror or str(error))
            return
        self._connections[connection.socket.fileno()] = connection
        self._epoll.register(connection.socket, WRITABLE)
        if due is None:
            self._opening += 1
        else:
            self._deadlines.append((monotonic_ns() + self._timeout_ns, connection, connection.turn))

    def _stands(self, connection: Connection) -> None:
        failure = connection.failure()
        if failure is not None:
            due, connection.due = connection.due, None
            self._drop(connection, opening=due is None)
            self._refuse(due, failure)
            return
        connection.connected = True
        self._epoll.modify(connection.socket, READABLE)
        if connection.due is not None:
            self._send(connection, connection.due)
        else:
            self._opening -= 1
            self._idle[connection] = None

    def _refuse(self, due: Due | None, reason: str) -> None:
        if due is not None:
            now_ns = monotonic_ns()
            self._in_flight -= 1
            self._over(due, now_ns + _AFTER_A_REFUSAL_NS)
            self._to_record.append((now_ns, lambda: refused(due.request, due.at_ns, now_ns, reason)))

    def _over(self, due: Due, at_ns: int) -> None:
        """A request has ended: what waits for it gets its time."""
        if self._pacing.waits:
            self._pace.ended(due.place, at_ns)
            self._next_ns = _UNKNOWN

    def _send(self, connection: Connection, due: Due) -> None:
        connection.due = due
        connection.turn += 1
        connection.exchange = Exchange(due.begun_at_ns, self._clock)
        connection.write(due.wire)
        if connection.unsent is not None:
            self._epoll.modify(connection.socket, READABLE | WRITABLE)
        self._deadlines.append((monotonic_ns() + self._timeout_ns, connection, connection.turn))

    def _time_out(self, connection: Connection) -> None:
        if connection.exchange is not None:
            self._give_up(connection, Outcome.TIMEOUT, self._timeout_reason)
        elif connection.due is not None and not connection.connected:
            due, connection.due = connection.due, None
            self._drop(connection, opening=False)
            self._refuse(due, "no connection in time")

    def _beat(self, now_ns: int) -> None:
        """Measures how late this loop's own timer wakes, asks whether to stop, and looks at answers gone quiet."""
        self.stalls_s.append((now_ns - self._heartbeat_at_ns) / 1e9)
        if now_ns - self._heartbeat_at_ns > _STANDSTILL_NS:
            self.stood_still_ns.append((self._heartbeat_at_ns, now_ns))
        self._heartbeat_at_ns = now_ns + _HEARTBEAT_NS
        self._pulse()
        while self._deadlines and self._deadlines[0][1].turn != self._deadlines[0][2]:
            self._deadlines.popleft()
        if now_ns >= self._look_at_ns:
            self._look_at_ns = now_ns + _QUIET_NS
            for connection in list(self._connections.values()):
                exchange = connection.exchange
                since_ns = None if exchange is None or connection.queued else exchange.unsettled_since_ns
                if since_ns is not None and now_ns - since_ns >= _QUIET_NS:
                    self._may_be_over(connection, now_ns)

    # What has ended

    def _work_off(self, now_ns: int, *, calm: bool) -> None:
        """Settles or records one answer, when nothing comes and nothing is due, or when it has waited long enough."""
        queue = self._to_settle or self._to_record
        waited = len(self._to_settle) + len(self._to_record) > _QUEUE or now_ns - queue[0][0] > _QUEUE_NS
        if waited or (calm and not self._due_soon(now_ns)):
            if self._to_settle:
                self._settle(self._to_settle.popleft()[1])
            else:
                self._note(self._to_record.popleft()[1]())

    def _due_soon(self, now_ns: int) -> bool:
        due_ns = self._pace.next_at_ns()
        return due_ns is not None and due_ns - now_ns < _MS

    def _settle(self, connection: Connection) -> None:
        connection.queued = False
        exchange = connection.exchange
        if exchange is not None:
            exchange.settle()
            if exchange.over:
                self._end(connection)

    def _give_up(self, connection: Connection, outcome: Outcome, reason: str) -> None:
        """Ends an exchange from this side, unless what came is whole already."""
        exchange = connection.exchange
        if exchange is None:
            return
        exchange.settle()
        if exchange.over:
            self._end(connection)
            return
        self.partial = self.partial or outcome is Outcome.CANCELLED
        exchange.abandon(monotonic_ns())
        self._end(connection, outcome, reason)

    def _end(self, connection: Connection, stopped: Outcome | None = None, reason: str = "") -> None:
        exchange, due = connection.exchange, connection.due
        if exchange is None or due is None:
            return
        connection.exchange = connection.due = None
        connection.turn += 1
        self._in_flight -= 1
        self._over(due, exchange.closed_at_ns or monotonic_ns())
        self._to_record.append(
            (
                monotonic_ns(),
                lambda: record_of(exchange, due.request, due.at_ns, stopped, stop_reason=reason, count=self._count),
            )
        )
        if connection.gone:
            return
        if exchange.leaves_connection_usable and connection.unsent is None:
            connection.served += 1
            self._idle[connection] = None
        else:
            self._drop(connection)

    def _drop(self, connection: Connection, *, opening: bool = False) -> None:
        if connection.gone:
            return
        self._opening -= opening
        self._idle.pop(connection, None)
        self._connections.pop(connection.socket.fileno(), None)
        self._epoll.unregister(connection.socket)
        connection.drop()
