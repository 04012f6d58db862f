"""One TCP connection to the engine, non-blocking, which carries one request after the other."""

from __future__ import annotations

import errno
import os
import socket

from unmoor.measure.client.address import Address
from unmoor.measure.client.arrival_clock import ArrivalClock
from unmoor.measure.client.exchange import Exchange
from unmoor.measure.client.load import PlannedRequest


class Due:
    """A request with its place, its bytes and the moment it is due; `again` when a stale connection had lost it."""

    __slots__ = ("again", "at_ns", "begun_at_ns", "place", "request", "wire")

    def __init__(
        self, place: int, request: PlannedRequest, wire: bytes, at_ns: int, begun_at_ns: int, *, again: bool = False
    ) -> None:
        self.place = place
        self.request = request
        self.wire = wire
        self.at_ns = at_ns
        self.begun_at_ns = begun_at_ns
        self.again = again


class Connection:
    """A connection that is being opened, idle, or busy with an exchange.

    `due` is what it carries, or will once it stands. `turn` counts what it carried, so that a deadline knows whether
    it is still meant. `served` are the whole answers that it brought.
    """

    __slots__ = ("connected", "due", "exchange", "gone", "queued", "receive", "served", "socket", "turn", "unsent")

    def __init__(self, address: Address, clock: ArrivalClock, due: Due | None) -> None:
        """Begins to connect. Raises OSError where that fails at once."""
        self.connected = False
        self.due = due
        self.exchange: Exchange | None = None
        self.gone = False
        self.queued = False
        self.served = 0
        self.turn = 0
        self.unsent: memoryview | None = None
        self.socket = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_STREAM)
        self.receive = self.socket.recvmsg
        try:
            self.socket.settimeout(0.0)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            clock.ask_for_stamps(self.socket)
            self._begin_to_connect(address)
        except OSError:
            self.socket.close()
            raise

    def _begin_to_connect(self, address: Address) -> None:
        code = self.socket.connect_ex((address.host, address.port))
        if code not in {0, errno.EINPROGRESS}:
            raise OSError(code, os.strerror(code))

    def failure(self) -> str | None:
        """Why the connection could not be had, once it is decided; None when it stands."""
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return os.strerror(code) if code else None

    def write(self, data: bytes | memoryview) -> None:
        """Hands over as much as the socket takes; the rest is in `unsent`, for `write_on`.

        What a broken connection does not take is dropped: reading finds out how it ended.
        """
        try:
            taken = self.socket.send(data)
        except BlockingIOError:
            taken = 0
        except OSError:
            taken = len(data)
        self.unsent = memoryview(data)[taken:] if taken < len(data) else None

    def write_on(self) -> bool:
        """Hands over more of what was left; whether nothing is left now."""
        if self.unsent is not None:
            self.write(self.unsent)
        return self.unsent is None

    def drop(self) -> None:
        """Closes at once; unread bytes are nobody's."""
        self.gone = True
        self.unsent = None
        self.socket.close()
