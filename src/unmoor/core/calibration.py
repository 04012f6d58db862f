"""What a calibration server, which streams at a known pace to measure clients, is asked for and says of itself."""

from __future__ import annotations

import msgspec

_MOST_CHUNKS = 1_000_000
_LONGEST_S = 60.0


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every request gets: `chunks` of one token each, the first `first_s` after the request, then one a `gap_s`.

    With a gap of 0 all of them go out in one write.
    """

    chunks: int = 20
    gap_s: float = 0.05
    first_s: float = 0.05

    def __post_init__(self) -> None:
        """Raises ValueError for an answer that cannot be sent."""
        if not 1 <= self.chunks <= _MOST_CHUNKS:
            raise ValueError(f"chunks from 1 to {_MOST_CHUNKS:,}, not {self.chunks}")
        if not (0 <= self.gap_s <= _LONGEST_S and 0 <= self.first_s <= _LONGEST_S):
            raise ValueError(f"gap_s and first_s from 0 to {_LONGEST_S:g} seconds")

    @property
    def writes(self) -> int:
        """How many writes an answer takes."""
        return self.chunks if self.gap_s > 0 else 1

    @property
    def lasts_s(self) -> float:
        """From the request to the last chunk, in seconds."""
        return self.first_s + (self.chunks - 1) * self.gap_s


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """How a calibration server kept its pace. `late_s` is sent - due of every write; None where nothing was sent.

    A write is due at a time that counts from when the kernel had the request (Linux; else from its reading), so that a
    server too slow to read is late too. `gap_s` is between two writes of an answer, as they were sent. `request_rps`
    are the gaps per second between the first request and the last; None under two. `blocked` writes found a client
    that had not read what came before; `cut` answers, one that went away. `cpu_s` is the server's own. All in seconds.
    """

    requests: int
    request_rps: float | None
    chunks: int
    writes: int
    late_p50_s: float | None
    late_p99_s: float | None
    late_max_s: float | None
    gap_p50_s: float | None
    gap_p99_s: float | None
    gap_max_s: float | None
    blocked: int
    cut: int
    open_connections: int
    cpu_s: float
    wall_s: float
