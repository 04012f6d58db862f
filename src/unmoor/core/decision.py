"""A decision as a value: traffic, candidates with their gates, evidence and cost, and the verdict.

Encoded as JSON by msgspec this is the contract of `unmoor decide --json` (docs/reference/decide.md).
"""

from __future__ import annotations

import msgspec

from unmoor.core.evidence import Caveat, Figure
from unmoor.core.traffic import TrafficProfile


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """One gate on one candidate. `passed` is None where no dated fact answers: an open question, not a pass."""

    name: str
    passed: bool | None
    reason: str
    source: str = ""
    as_of: str = ""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate costs. `per_hour` is for all devices of the plan.

    `per_million_output_tokens` is a figure with its kind and range at the highest rate that meets the SLO.
    `per_million_good_requests` is None unless measured; `good_requests_reason` then says why.
    """

    per_hour: float | None
    per_million_output_tokens: Figure | None
    per_million_good_requests: Figure | None
    good_requests_reason: str | None
    currency: str
    source: str
    as_of: str


class CandidateReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one candidate."""

    engine: str
    version: str | None
    gates: tuple[GateResult, ...]
    evidence: tuple[Figure, ...]
    cost: Cost
    caveats: tuple[Caveat, ...] = ()

    @property
    def excluded(self) -> bool:
        """Whether a gate bars it. A gate nobody could answer bars nothing, but is said in the verdict."""
        return any(gate.passed is False for gate in self.gates)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The pick in one sentence, and what speaks against it. `pick` is None where no candidate passes."""

    pick: str | None
    sentence: str
    decided_by: str
    against: str
    risk: str
    not_for: str
    tie: bool


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What `unmoor decide` reports."""

    plan: str
    made_on: str
    slo: str
    hardware: str
    model: str
    traffic: TrafficProfile
    candidates: tuple[CandidateReport, ...]
    verdict: Verdict
