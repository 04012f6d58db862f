"""A synthetic twin of a log: its lengths, arrivals, sessions and shared prefixes, with invented words."""

from __future__ import annotations

from unmoor.core.traffic import Workload
from unmoor.traffic.log import Traffic


def twin_of(traffic: Traffic, *, seed: int = 0, requests: int | None = None, rate_rps: float | None = None) -> Workload:
    """Requests with the lengths, arrivals, sessions and prefix overlap of `traffic`, at its grain, under new names.

    The structure is copied, not drawn: every capacity's hit rate is the log's own at its grain. `seed` gives the names,
    and so the words that stand for prompts. `requests` takes the first ones only. `rate_rps` stretches time so that
    this is the mean rate; where the log has no times, arrivals are drawn at it (Poisson, by `seed`).

    Raises UsageError for more requests than there are, and where the log lacks times or answers' lengths.
    """
    raise NotImplementedError
