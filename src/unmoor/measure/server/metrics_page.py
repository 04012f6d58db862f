"""A server's own metrics as it publishes them: which engine it is, and the figures that have a name of ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from unmoor.engines.contract import Engine, Metric
from unmoor.engines.registry import engine, engine_names

_MOST_BYTES = 1 << 19
_LARGEST: Final = frozenset({"kv_use"})
"""Shares: of several replicas the fullest is told. All others are added up."""


class Scrape(msgspec.Struct, frozen=True, kw_only=True):
    """What one page said, by our names; what it did not say, or said as no number, is missing."""

    at_ns: int
    values: dict[Metric, float]


def engines_with_metrics() -> Sequence[Engine]:
    """Every engine that has a name for any metric."""
    return [known for known in map(engine, engine_names()) if known.scrape]


def whose(page: bytes, engines: Iterable[Engine]) -> Engine | None:
    """The engine whose names the page has most of; None where it has none of any."""
    engines = list(engines)
    ours = lines_of(page, {name for known in engines for name in known.scrape.values()})
    names = set() if ours is None else set(_values(ours))
    counted = [(len(names & set(known.scrape.values())), known) for known in engines]
    most, found = max(counted, key=lambda pair: pair[0], default=(0, None))
    return found if most else None


def scrape_of(page: bytes, at_ns: int, names: Mapping[Metric, str]) -> Scrape:
    """The figures of a page, over all its replicas and models; a count below 0 and a share above 1 are none.

    A page that is none has no figures.
    """
    ours = lines_of(page, names.values())
    found = {} if ours is None else _values(ours)
    values: dict[Metric, float] = {}
    for metric, name in names.items():
        most = 1.0 if metric in _LARGEST else math.inf
        known = [value for value in found.get(name, ()) if math.isfinite(value) and 0 <= value <= most]
        if known:
            values[metric] = max(known) if metric in _LARGEST else sum(known)
    return Scrape(at_ns=at_ns, values=values)


def lines_of(page: bytes, names: Iterable[str]) -> bytes | None:
    """Only the lines of a page that have one of these names: it can have thousands. None where these are too many."""
    wanted = tuple(name.encode() for name in names)
    lines = b"\n".join(line for line in page.splitlines() if line.startswith(wanted)) + b"\n"
    return lines if len(lines) <= _MOST_BYTES else None


def _values(page: bytes) -> dict[str, list[float]]:
    """Every sample by its name."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - for who scrapes

    found: dict[str, list[float]] = {}
    try:
        for family in text_string_to_metric_families(page.decode("utf-8", "replace")):
            for sample in family.samples:
                found.setdefault(sample.name, []).append(float(sample.value))
    except (ValueError, KeyError, IndexError):  # not the format, or broken off: what came before stands
        return found
    return found
