"""What every format's file provides: how its first line looks, and how its lines become requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from unmoor.core.traffic import Request
from unmoor.traffic.readers.lines import Lines


@dataclass(frozen=True)
class FirstLine:
    """The first line that is not blank, as formats are told apart by it.

    `keys` are the keys and their values when it is a JSON object, `columns` its fields when it is not.
    """

    keys: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """Requests as they stand in the log, in its order; their arrivals need not be sorted.

    `from_first` says that arrivals are readings of some clock, and are to be counted from the earliest.
    """

    requests: tuple[Request, ...]
    overlap_block_tokens: int | None
    from_first: bool = True


@dataclass(frozen=True)
class TraceFormat:
    """One format. `read` raises TrafficError for the first line that is broken."""

    name: str
    expected: str
    looks_like: Callable[[FirstLine], bool]
    read: Callable[[Lines], Reading]
