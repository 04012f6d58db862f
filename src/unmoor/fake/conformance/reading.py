"""A client's result file, read by a description of where its figures are."""

from __future__ import annotations

from math import isfinite
from typing import Literal

import msgspec

from unmoor.fake.conformance.judge import Said

_A_THOUSAND = 1000.0


class Figure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a figure is: the sum of what is at these paths, names and places parted by dots ("benchmarks.0.total").

    `per` divides it by the sum of other paths. `unit` "ms" is turned into seconds. `counts` takes the number of
    entries of a list in place of a number: "all" of them, or the "filled" ones. `absent` is what it means that none of
    the paths is there, where the client leaves a figure out for one value.
    """

    path: tuple[str, ...]
    per: tuple[str, ...] = ()
    unit: Literal["s", "ms", "1"] = "1"
    counts: Literal["all", "filled"] | None = None
    absent: float | None = None


class Reads(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A result file, `file` below the folder of the run (a glob; the last match), and where each figure is.

    With `lines` it is JSON lines, of which the last is read.
    """

    file: str = "result.json"
    lines: bool = False
    requests: Figure | None = None
    failed: Figure | None = None
    ttft_s: Figure | None = None
    tpot_s: Figure | None = None
    e2e_s: Figure | None = None
    output_tokens: Figure | None = None


def read_result(reads: Reads, content: bytes) -> Said:
    """What a result file says. Raises ValueError for one that is not JSON."""
    if reads.lines:
        content = (content.strip().splitlines() or [b""])[-1]
    try:
        found = msgspec.json.decode(content)
    except msgspec.MsgspecError:
        found = _python_json(content)
    return Said(
        requests=_figure(reads.requests, found),
        failed=_figure(reads.failed, found),
        ttft_s=_figure(reads.ttft_s, found),
        tpot_s=_figure(reads.tpot_s, found),
        e2e_s=_figure(reads.e2e_s, found),
        output_tokens=_figure(reads.output_tokens, found),
    )


def _python_json(content: bytes) -> object:
    """Python's own JSON has NaN and Infinity, which some clients write where they have no figure."""
    import json  # noqa: PLC0415 - for such files alone

    return json.loads(content)


def _figure(figure: Figure | None, found: object) -> float | None:
    if figure is None:
        return None
    value = _sum(figure.path, found, counts=figure.counts)
    if value is None:
        return figure.absent
    if figure.per:
        over = _sum(figure.per, found, counts=None)
        if not over:
            return None
        value /= over
    return value / _A_THOUSAND if figure.unit == "ms" else value


def _sum(paths: tuple[str, ...], found: object, *, counts: str | None) -> float | None:
    values = [value for value in (_number(_at(path, found), counts=counts) for path in paths) if value is not None]
    return sum(values) if values else None


def _number(value: object, *, counts: str | None) -> float | None:
    if counts is not None:
        return float(sum(1 for one in value if one or counts == "all")) if isinstance(value, list) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isfinite(value) else None


def _at(path: str, found: object) -> object:
    for step in path.split("."):
        if isinstance(found, dict):
            found = found.get(step)
        elif isinstance(found, list) and step.lstrip("-").isdigit() and -len(found) <= int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found
