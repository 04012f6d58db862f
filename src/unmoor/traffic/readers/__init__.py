"""Readers: the bytes of a log or trace into a Workload. One file per format, one line each in the registry."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter
from typing import BinaryIO

import msgspec

from unmoor.core.errors import TrafficError
from unmoor.core.evidence import Caveat
from unmoor.core.nearest import did_you_mean
from unmoor.core.traffic import Request, Workload
from unmoor.traffic.log import Traffic
from unmoor.traffic.readers import azure, mooncake, unmoor_jsonl
from unmoor.traffic.readers.contract import Cutter, FirstLine, LogFile, Reading, TraceFormat, Watch
from unmoor.traffic.readers.lines import Lines, cut, split_lines

FORMATS: dict[str, TraceFormat] = {module.FORMAT.name: module.FORMAT for module in (unmoor_jsonl, mooncake, azure)}
"""Every format that is read, by its name."""

_HINT = "docs/reference/traffic.md lists the formats, and `--format` or traffic.format names one"


def read_workload(content: bytes, *, where: str, format_name: str | None = None) -> Workload:
    """The requests in `content`, in order of arrival; `where` is the log's name, for errors and as the source.

    The format is told by the first line unless `format_name` says it. Arrivals count from the earliest, except in our
    own format, which already does. Arrivals out of order are sorted (stable), and a caveat says so. The fingerprint is
    the SHA-256 of the bytes.

    Raises TrafficError, with the line, for an empty file, an unknown format, and the first line that is broken.
    """
    lines = split_lines(content, where=where)
    trace_format = _named(format_name, where=where) if format_name else _recognised(lines)
    if next(lines.filled(), None) is None:
        raise _empty(where, "an empty file")
    reading = trace_format.read(lines)
    if not reading.requests:
        raise _empty(where, "a header without a request after it")
    requests, caveats = _in_order(reading)
    return Workload(
        requests=requests,
        source=where,
        format=trace_format.name,
        fingerprint=hashlib.sha256(content).hexdigest(),
        overlap_block_tokens=reading.overlap_block_tokens,
        caveats=caveats,
    )


def _named(name: str, *, where: str) -> TraceFormat:
    if name not in FORMATS:
        raise TrafficError(
            f"unknown format '{cut(name)}'",
            where=where,
            seen=cut(name),
            expected=f"one of {', '.join(FORMATS)}",
            hint=did_you_mean(name, FORMATS),
        )
    return FORMATS[name]


def _recognised(lines: Lines) -> TraceFormat:
    filled = next(lines.filled(), None)
    if filled is None:
        raise _empty(lines.where, "an empty file")
    number, text = filled
    first = _first_line(text)
    for trace_format in FORMATS.values():
        if trace_format.looks_like(first):
            return trace_format
    raise TrafficError(
        "no known format",
        where=f"{lines.where}:{number}",
        seen=_look_of(text, first),
        expected="; ".join(f"{f.name}: {f.expected}" for f in FORMATS.values()),
        hint=_HINT,
    )


def _look_of(text: str, first: FirstLine) -> str:
    """What the first line is, in words. Keys only: the values of a log that is not known may be somebody's prompt."""
    if first.keys:
        return cut(f"a JSON object with the keys {', '.join(first.keys)}")
    return f"no JSON object, and {len(first.columns)} columns in {len(text)} characters"


def _first_line(text: str) -> FirstLine:
    try:
        tree = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return FirstLine(columns=tuple(field.strip() for field in text.split(",")))
    return FirstLine(keys=tree) if isinstance(tree, dict) else FirstLine()


def _empty(where: str, seen: str) -> TrafficError:
    return TrafficError("no request in it", where=where, seen=seen, expected="at least one request", hint=_HINT)


def _in_order(reading: Reading) -> tuple[tuple[Request, ...], tuple[Caveat, ...]]:
    arrivals = [request.arrival_s for request in reading.requests]
    late = sum(after < before for before, after in pairwise(arrivals))
    caveats = (_out_of_order(late),) if late else ()
    requests = tuple(sorted(reading.requests, key=attrgetter("arrival_s"))) if late else reading.requests
    start = requests[0].arrival_s if reading.from_first else 0.0
    if start:
        requests = tuple(msgspec.structs.replace(r, arrival_s=round(r.arrival_s - start, 6)) for r in requests)
    return requests, caveats


def _out_of_order(late: int) -> Caveat:
    lines = "line came" if late == 1 else "lines came"
    return Caveat(code="out_of_order", text=f"{late} {lines} before the one above it in time; requests were sorted.")


def read_traffic(  # the signature others build on; the body lands next
    source: bytes | BinaryIO | Iterable[LogFile],
    *,
    where: str,
    format_name: str | None = None,
    cutter: Cutter | None = None,
    most_broken: int | None = None,
    watch: Watch | None = None,
) -> Traffic:
    """The requests of a log, in order of arrival, from its bytes, an open binary stream, or the files of a folder.

    gzip and zstd are unpacked, whatever the name. `where` names the log, in errors and as the source. The format is
    told by the first record unless `format_name` says it. `cutter` is what content as text is told apart by: bytes
    unless given. Broken lines are counted and skipped, up to `most_broken`: by default 10, or 1 % of the lines where
    that is more. `watch(line, entry)` sees every request in the order of the log.

    Raises TrafficError, with the line, for a log without a request, an unknown format, a broken header, more broken
    lines than that, and an archive that ends early.
    """
    raise NotImplementedError
