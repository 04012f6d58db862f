"""Reads a page again and again, in a process of its own: the load's loop is not disturbed by it.

    python -m unmoor.measure.server.metrics_poll HOST PORT PATH EVERY_S NAME...

An empty line says that it has begun. It ends when its standard input does, and then writes what it kept: a JSON object
a line, {"at_ns", "page"}, of each page only the lines with one of the names; "page" is null for one not to be had.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Sequence

import msgspec

from unmoor.measure.server.http_page import page_at
from unmoor.measure.server.metrics_page import lines_of

_NICE = 10
_LONGEST_S = 3.0


class Polled(msgspec.Struct, frozen=True):
    """One page, as far as it matters; None for one that could not be had."""

    at_ns: int
    page: str | None


def main(arguments: Sequence[str]) -> None:
    """Polls until standard input ends."""
    host, port, path, every_s, *names = arguments
    os.nice(_NICE)
    kept: list[Polled] = []
    sys.stdout.write("\n")
    sys.stdout.flush()
    next_s = time.monotonic()
    while not _over(next_s - time.monotonic()):
        at_ns = time.monotonic_ns()
        page = page_at(host, int(port), path, timeout_s=_LONGEST_S)
        lines = None if page is None else lines_of(page, names)
        kept.append(Polled(at_ns, None if lines is None else lines.decode("utf-8", "replace")))
        next_s = max(next_s + float(every_s), time.monotonic())
    encoder = msgspec.json.Encoder()
    for one in kept:
        sys.stdout.buffer.write(encoder.encode(one) + b"\n")
    sys.stdout.flush()


def _over(wait_s: float) -> bool:
    """Waits so long, and no longer than until standard input ends; whether it has."""
    readable, _, _ = select.select([sys.stdin], [], [], max(0.0, wait_s))
    return bool(readable) and not os.read(sys.stdin.fileno(), 1)


if __name__ == "__main__":
    main(sys.argv[1:])
