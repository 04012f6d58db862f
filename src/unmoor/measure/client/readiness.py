"""Which sockets can be read or written: epoll where there is one (Linux), the platform's best selector elsewhere."""

from __future__ import annotations

import select
import selectors
import socket
from typing import Protocol

READABLE, WRITABLE = 0x1, 0x4
"""As Linux numbers EPOLLIN and EPOLLOUT; what else epoll says (an error, an end) is found out by reading."""


class Readiness(Protocol):
    """What the loop asks of epoll. `poll` waits for `timeout` seconds and gives (descriptor, mask) pairs."""

    def register(self, fd: socket.socket, eventmask: int, /) -> object:
        """Watches one more socket."""

    def modify(self, fd: socket.socket, eventmask: int, /) -> object:
        """Watches it for something else."""

    def unregister(self, fd: socket.socket, /) -> object:
        """Watches it no more."""

    def poll(self, timeout: float, maxevents: int, /) -> list[tuple[int, int]]:
        """Those that are ready."""

    def fileno(self) -> int:
        """A descriptor that is readable when one of them is ready; -1 where there is none."""

    def close(self) -> None:
        """Watches none."""


class SelectorReadiness:
    """The same by Python's selectors, for platforms without epoll."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: socket.socket, eventmask: int, /) -> object:
        """Watches one more socket."""
        return self._selector.register(fd, _to_selector(eventmask))

    def modify(self, fd: socket.socket, eventmask: int, /) -> object:
        """Watches it for something else."""
        return self._selector.modify(fd, _to_selector(eventmask))

    def unregister(self, fd: socket.socket, /) -> object:
        """Watches it no more."""
        return self._selector.unregister(fd)

    def poll(self, timeout: float, maxevents: int, /) -> list[tuple[int, int]]:
        """Those that are ready."""
        ready = self._selector.select(timeout)
        return [(key.fd, _from_selector(events)) for key, events in ready[:maxevents]]

    @staticmethod
    def fileno() -> int:
        """None."""
        return -1

    def close(self) -> None:
        """Watches none."""
        self._selector.close()


def readiness() -> Readiness:
    """The best of this platform."""
    return select.epoll() if hasattr(select, "epoll") else SelectorReadiness()


def _to_selector(mask: int) -> int:
    return (selectors.EVENT_READ if mask & READABLE else 0) | (selectors.EVENT_WRITE if mask & WRITABLE else 0)


def _from_selector(events: int) -> int:
    return (READABLE if events & selectors.EVENT_READ else 0) | (WRITABLE if events & selectors.EVENT_WRITE else 0)
