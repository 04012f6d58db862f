"""When bytes arrived: the kernel's time stamp on the monotonic clock, or the reader's own where there is none."""

from __future__ import annotations

import socket
import struct
from array import array
from collections.abc import Sequence
from time import monotonic_ns, time_ns
from typing import Literal

import numpy as np

_SO_TIMESTAMPNS = 35
"""Linux, asm-generic/socket.h; Python 3.11 has no name for it. The message with the stamp has the same number."""

_TIMESPEC = struct.Struct("@ll")
_LONG = np.dtype(np.int_)
ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
"""Room that one stamp needs in recvmsg."""

_JITTER_NS = 50_000
_LOOK_NS = 1_000_000
_DISTRUST_NS = 100_000_000
"""How long stamps are not believed after the wall clock stepped: what arrived before is read by then."""

Read = tuple[int, bytes, bytes]
"""When it was read (monotonic, ns), what, and the kernel's stamp: a timespec as it came, empty where there is none."""

_FEW = 16
"""So few reads are translated one by one: an array costs more than it saves."""


class ArrivalClock:
    """Turns the kernel's receive stamps, which are of the wall clock, into monotonic ones.

    Between the two clocks lies an offset that changes only when the wall clock is set: Linux slews both alike. It is
    looked at once a millisecond, while something comes. A stamp is believed when it lies between what came before on
    its connection and the read, and the clock was not set since; others are dropped and counted, and the reader's time
    stands in for them.

    `lags_ns` has, for each stamp believed, how much later the reader was. `dropped` and `unstamped` count the reads
    with a stamp that was not believed and without any. With `kernel` false no stamps are asked for.
    """

    def __init__(self, *, kernel: bool = True) -> None:
        self.lags_ns: array[int] = array("q")
        self.dropped = 0
        self.unstamped = 0
        self.kernel = kernel
        self._offset_ns = _offset_ns()
        self._trusted_from_ns = 0
        self.look_at_ns = 0

    @property
    def source(self) -> Literal["kernel", "user"]:
        """Whose stamps most reads have."""
        return "kernel" if len(self.lags_ns) > self.dropped + self.unstamped else "user"

    def ask_for_stamps(self, connection: socket.socket) -> None:
        """Has the kernel stamp what arrives on a TCP connection; where it cannot, the reader's time is used."""
        if not self.kernel:
            return
        try:
            connection.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        except OSError:
            self.kernel = False

    def look(self, now_ns: int) -> None:
        """Notices that the wall clock was set."""
        self.look_at_ns = now_ns + _LOOK_NS
        if abs(time_ns() - monotonic_ns() - self._offset_ns) <= _JITTER_NS:
            return
        found_ns = _offset_ns()  # or this process was interrupted between the two readings: then they agree again
        if abs(found_ns - self._offset_ns) > _JITTER_NS:
            self._offset_ns = found_ns
            self._trusted_from_ns = monotonic_ns() + _DISTRUST_NS

    def arrivals_ns(self, reads: Sequence[Read], not_before_ns: int) -> list[int]:
        """When the bytes of each read of one connection arrived, in monotonic ns; never after it was read.

        Of several segments in one read the kernel gives the stamp of the last.
        """
        if len(reads) > _FEW:
            all_believed = self._all_believed(reads, not_before_ns)
            if all_believed is not None:
                return all_believed
        arrivals_ns = []
        for read_at_ns, _, stamp in reads:
            not_before_ns = self._arrival_ns(stamp, read_at_ns, not_before_ns)
            arrivals_ns.append(not_before_ns)
        return arrivals_ns

    def _arrival_ns(self, stamp: bytes, read_at_ns: int, not_before_ns: int) -> int:
        if not stamp:
            self.unstamped += 1
            return read_at_ns
        if len(stamp) == _TIMESPEC.size and read_at_ns >= self._trusted_from_ns:
            seconds, nanoseconds = _TIMESPEC.unpack(stamp)
            arrived_at_ns: int = seconds * 1_000_000_000 + nanoseconds - self._offset_ns
            if not_before_ns <= arrived_at_ns <= read_at_ns:
                self.lags_ns.append(read_at_ns - arrived_at_ns)
                return arrived_at_ns
        self.dropped += 1
        return read_at_ns

    def _all_believed(self, reads: Sequence[Read], not_before_ns: int) -> list[int] | None:
        """The same for many reads at once, where every stamp is believed; else None."""
        stamps = b"".join([stamp for _, _, stamp in reads])
        if len(stamps) != _TIMESPEC.size * len(reads) or reads[0][0] < self._trusted_from_ns:
            return None
        if not all(len(stamp) == _TIMESPEC.size for _, _, stamp in reads):
            return None
        pairs = np.frombuffer(stamps, dtype=_LONG).reshape(-1, 2).astype(np.int64)
        arrived_ns = pairs[:, 0] * 1_000_000_000 + pairs[:, 1] - self._offset_ns
        read_ns = np.array([read_at_ns for read_at_ns, _, _ in reads], dtype=np.int64)
        lags_ns = read_ns - arrived_ns
        if arrived_ns[0] < not_before_ns or lags_ns.min() < 0 or np.diff(arrived_ns).min() < 0:
            return None
        self.lags_ns.frombytes(lags_ns.tobytes())
        believed_ns: list[int] = arrived_ns.tolist()
        return believed_ns


def _offset_ns() -> int:
    """Wall clock - monotonic clock, from the one of several readings that took the shortest."""
    readings = []
    for _ in range(7):
        before_ns = monotonic_ns()
        wall_ns = time_ns()
        after_ns = monotonic_ns()
        readings.append((after_ns - before_ns, wall_ns - (before_ns + after_ns) // 2))
    return min(readings)[1]
