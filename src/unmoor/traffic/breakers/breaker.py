"""What a finding is: which habit ruins sharing, where it is first seen, what it costs, and what mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from unmoor.traffic.entry import Prompt

LEAST_SHARE = 0.01
"""A habit that costs less than this share of prompt tokens is no finding."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where two prompts that could share first differ.

    `unit` is "message" or "tool", `index` counts from 0 in the prompt, `offset_bytes` is from the unit's start (UTF-8).
    `excerpts` are a few words of both prompts from there on; empty unless text was asked for.
    """

    unit: str
    index: int
    role: str | None
    offset_bytes: int
    lines: tuple[int, int]
    excerpts: tuple[str, ...] = ()


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """One habit that ruins prefix sharing, and what it would bring to mend it.

    `what` is a stable code, one of `kinds.KINDS`. `share_lost` is the share (0-1) of prompt tokens that would be shared
    as well if this were mended after the findings before it in the list: unlimited cache, computed by applying the fix
    and looking again. The shares of a list therefore add up to what mending all of it brings. `gain` is the same at the
    KV capacity that was asked for (hit rate after less hit rate before), and equals `share_lost` without one.
    `overlap_after` is the prefix overlap once this one and those before it are mended. `requests` are those of the
    window that the fix changes; `lines` are two lines of the log that differ at `where`.
    """

    what: str
    where: Place
    share_lost: float
    gain: float
    overlap_after: float
    fix: str
    requests: int
    lines: tuple[int, int]


Normalise = Callable[[Prompt], Prompt]
"""A fix: the prompt with the same text in an order or at a place that lets others share it. Pure."""


@dataclass(frozen=True, slots=True)
class Differing:
    """Two prompts of a scene, by their row, that first differ at `offset` (characters) of one unit in each."""

    rows: tuple[int, int]
    unit: str
    indices: tuple[int, int]
    offset: int


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Evidence that a kind is present, before its price is known. Of its `fixes`, the one that shares most is taken."""

    what: str
    fix: str
    differing: Differing
    fixes: tuple[Normalise, ...]
