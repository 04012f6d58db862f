"""A decision as a value: traffic, candidates with their gates, evidence and cost, and the verdict.

Encoded as JSON by msgspec this is the contract of `unmoor decide --json` (docs/reference/decide.md).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from unmoor.core.evidence import Caveat, EvidenceKind, Figure
from unmoor.core.traffic import TrafficProfile


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """One gate on one candidate. `passed` is None where no dated fact answers: an open question, not a pass.

    `question` says, where it is open, what to find out and of whom.
    """

    name: str
    passed: bool | None
    reason: str
    source: str | None = None
    as_of: str | None = None
    question: str | None = None


class LeavingFact(msgspec.Struct, frozen=True, kw_only=True):
    """One fact on how easy a candidate is to leave: these decide a tie. `counts` is False for a mere claim."""

    subject: str
    text: str
    kind: EvidenceKind
    counts: bool
    source: str
    as_of: str


class Outcome(StrEnum):
    """What a comparison found of a candidate against another."""

    BETTER = "better"
    WORSE = "worse"
    TIE = "tie"
    NOT_COMPARABLE = "not comparable"
    NO_EVIDENCE = "no evidence that may rank"


class PairedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What one bake-off found of a candidate against another engine of the same run, request by request.

    `effect` is a difference of shares (`kind` "difference"; 0 is none) or a ratio of durations ("ratio"; 1 is none),
    this candidate's against the other's, with its 95 % interval; None without a pair. `reason` says what bars it.
    """

    engine: str
    version: str
    outcome: Outcome
    metric: str
    effect: float | None
    low: float | None
    high: float | None
    kind: str
    reason: str = ""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate costs. `per_hour` is for all devices of the plan.

    `per_million_output_tokens` is a figure with its kind and range at the highest rate that meets the SLO, `detail`
    names that rate; `per_million_output_tokens_at_own_rate` is the same at the traffic's own rate.
    `per_million_good_requests` is None unless measured; `good_requests_reason` then says why.
    """

    per_hour: float | None
    per_million_output_tokens: Figure | None
    per_million_output_tokens_at_own_rate: Figure | None = None
    per_million_good_requests: Figure | None
    good_requests_reason: str | None
    currency: str
    source: str
    as_of: str | None


class CandidateReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one candidate.

    `headroom` is its highest rate at the SLO as a multiple of the traffic's own; `leaving` is what decides a tie.
    `paired` is what the bake-off that measured it found against each other engine of that run.
    """

    engine: str
    version: str | None
    gates: tuple[GateResult, ...]
    evidence: tuple[Figure, ...]
    cost: Cost
    headroom: Figure | None = None
    leaving: tuple[LeavingFact, ...] = ()
    paired: tuple[PairedFinding, ...] = ()
    caveats: tuple[Caveat, ...] = ()

    @property
    def excluded(self) -> bool:
        """Whether a gate bars it. A gate nobody could answer bars nothing, but is said in the verdict."""
        return any(gate.passed is False for gate in self.gates)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The pick in one sentence, and what speaks against it. `pick` is None where no candidate passes.

    `pick_version` tells versions of one engine apart; None where the plan and the facts name none.
    """

    pick: str | None
    pick_version: str | None = None
    sentence: str
    decided_by: str
    against: str
    risk: str
    not_for: str
    tie: bool


class MendFirst(msgspec.Struct, frozen=True, kw_only=True):
    """A habit in the traffic's prompts that ruins prefix sharing, whatever engine serves them.

    `what`, `fix` and `share_lost` (0-1 of prompt tokens, unlimited cache, after those before it in the list are mended)
    are a breaker's of `unmoor profile`; `gain` is at `kv_tokens` of KV, the most that a replica of the plan has, and
    without a limit where that is None. `looked_at` is in how many of the traffic's first requests.
    """

    what: str
    share_lost: float
    gain: float
    kv_tokens: int | None
    fix: str
    looked_at: int


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What `unmoor decide` reports; `mend_first` is empty also where the traffic has no text to look at."""

    plan: str
    made_on: str
    slo: str
    hardware: str
    model: str
    traffic: TrafficProfile
    mend_first: tuple[MendFirst, ...] = ()
    candidates: tuple[CandidateReport, ...]
    verdict: Verdict
