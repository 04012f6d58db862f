"""Prefix overlap of a workload: how much of its prompts an earlier request also began with."""

from __future__ import annotations

from unmoor.core.traffic import Workload
from unmoor.traffic.conversion import traffic_of
from unmoor.traffic.reuse.curve import ideal


def prefix_overlap(workload: Workload) -> float | None:
    """The share of prompt tokens (0-1) that an earlier request also began with, under an unlimited cache.

    Segments are compared whole, from the start, and count when name and tokens are equal: no part of a segment counts.
    "Earlier" is the order of arrival; of two requests at one moment, the first in the log. The adapter is not looked
    at: this is a property of prompts. None where the source says nothing of content.

    Not the same as an engine's hit rate, which is bounded by its cache and counted in its blocks.
    """
    return ideal(traffic_of(workload)).tokens
