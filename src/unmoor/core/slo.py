"""The service-level objective: what a request must meet, and for which share of requests."""

from __future__ import annotations

import msgspec

_SHOWN_IN_SECONDS_FROM = 10


class Slo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds in seconds; a bound left out binds nothing. Met when the `quantile` of each bounded quantity meets it.

    A failed or unanswered request misses every bound.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    quantile: float = 0.95

    def describe(self) -> str:
        """The objective in words, for tables: "p95 TTFT <= 1500 ms, p95 TPOT <= 50 ms"."""
        label = f"p{self.quantile * 100:g}"
        bounds = (("TTFT", self.ttft_s), ("TPOT", self.tpot_s), ("E2E", self.e2e_s))
        said = [f"{label} {name} <= {_shown(bound)}" for name, bound in bounds if bound is not None]
        return ", ".join(said) or "no bound"


def _shown(bound_s: float) -> str:
    """Milliseconds below 10 s, seconds from there."""
    if bound_s < _SHOWN_IN_SECONDS_FROM:
        return f"{bound_s * 1000:g} ms"
    return f"{bound_s:,.3f}".rstrip("0").rstrip(".") + " s"
