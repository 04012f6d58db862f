"""The names of an engine's metrics and routes that dashboards, alerts, autoscalers, probes and clients rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NamesUsed:
    """Names found in files of the user's: each with the places ("dashboard.json:14") where it stands."""

    metrics: Mapping[str, tuple[str, ...]]
    routes: Mapping[str, tuple[str, ...]]
    buckets: Mapping[str, tuple[str, ...]]
    files: int = 0
