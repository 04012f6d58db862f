"""A decision as plain text for a terminal of 100 columns. Seconds become milliseconds here and nowhere before."""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.core.decision import CandidateReport, Cost, Decision, GateResult
from unmoor.core.evidence import Caveat, Figure
from unmoor.core.traffic import TokenCounts, TrafficProfile
from unmoor.report.layout import heading, wrapped
from unmoor.report.mend_words import MEND_FIRST, mend_lines, mend_note
from unmoor.report.words import (
    band,
    counts_word,
    headroom_words,
    kind_of,
    name_of,
    number,
    overlap_words,
    shared_caveats,
    titled,
    unit_of,
)

_PASSED = {True: "passes", False: "FAILS", None: "open"}


def render(decision: Decision) -> str:
    """The whole decision, verdict last, without colour."""
    parts = [
        f"{decision.plan}: {decision.model} on {decision.hardware}; {decision.slo}; {decision.made_on}",
        *_traffic(decision.traffic),
    ]
    shared = shared_caveats(decision.candidates)
    for candidate in decision.candidates:
        parts += ["", *_candidate(candidate, shared)]
    parts += ["", heading("How easy each is to leave, which decides a tie"), *_leaving(decision.candidates)]
    if shared:
        parts += ["", heading("Of every candidate"), *_doubts(shared)]
    if decision.mend_first:
        parts += ["", heading(MEND_FIRST), *_mend_first(decision)]
    return "\n".join([*parts, "", *_verdict(decision)])


def _mend_first(decision: Decision) -> list[str]:
    lines = [line for said in mend_lines(decision) for line in wrapped(said, "  - ")]
    return [*lines, *wrapped(mend_note(decision), "  ")]


def _traffic(traffic: TrafficProfile) -> list[str]:
    overlap, of = overlap_words(traffic)
    rate = "" if traffic.offered_rps is None else f", {traffic.offered_rps:.3g} requests/s"
    bursts = "" if traffic.burstiness is None else f", burstiness {traffic.burstiness:.2f} (1 is Poisson)"
    lines = [
        "",
        heading("Traffic"),
        f"  {traffic.requests:,} requests over {traffic.duration_s:,.0f} s{rate}{bursts}",
        f"  input tokens   {_tokens(traffic.input_tokens)}",
        f"  output tokens  {_tokens(traffic.output_tokens)}",
        f"  prefix overlap {overlap}{':' if traffic.prefix_overlap is None else ''} {of}",
        f"  source         {traffic.source} ({traffic.format}, sha256 {traffic.fingerprint[:12]})",
    ]
    return lines + _doubts(traffic.caveats)


def _doubts(caveats: Sequence[Caveat]) -> list[str]:
    return [line for caveat in caveats for line in wrapped(caveat.text, "  ! ")]


def _tokens(counts: TokenCounts) -> str:
    return f"mean {counts.mean:,.0f}, p50 {counts.p50:,.0f}, p95 {counts.p95:,.0f}, total {counts.total:,}"


def _candidate(candidate: CandidateReport, shared: Sequence[Caveat]) -> list[str]:
    name = f"{name_of(candidate.engine)} {candidate.version or ''}".strip()
    lines = [heading(f"{name}  (out: a gate fails)" if candidate.excluded else name)]
    for gate in candidate.gates:
        lines += _gate(gate)
    lines += _evidence(candidate.evidence)
    lines += _cost(candidate.cost, candidate.headroom)
    return lines + _doubts([caveat for caveat in candidate.caveats if caveat not in shared])


def _gate(gate: GateResult) -> list[str]:
    seen = f" [{gate.source}, seen {gate.as_of}]" if gate.source else ""
    return wrapped(f"{gate.reason}{seen}", f"  {_PASSED[gate.passed]:<7}{titled(gate.name):<18} ")


def _evidence(figures: Sequence[Figure]) -> list[str]:
    if not figures:
        return ["  no figure is known of it here"]
    rows = [("figure", "value", "range", "", "kind", "holds for")]
    rows += [(titled(f.metric), number(f, f.value) or "-", band(f), unit_of(f), kind_of(f), f.detail) for f in figures]
    lines = _table(rows)
    sources = dict.fromkeys(f"{f.kind.value}: {f.source}, {f.as_of}" for f in figures)
    for source in sources:
        lines += wrapped(source, "  source ")
    return lines


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their widest cell; the last wraps under itself."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        fixed = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        lines += wrapped(row[-1], f"  {fixed}  ")
    return [line.rstrip() for line in lines]


def _cost(cost: Cost, headroom: Figure | None) -> list[str]:
    hour = "unknown" if cost.per_hour is None else f"{cost.per_hour:,.2f} {cost.currency} per hour"
    seen = f", seen {cost.as_of}" if cost.as_of else ""
    lines = wrapped(f"{hour} ({cost.source}{seen})", "  cost   ")
    own, highest = cost.per_million_output_tokens_at_own_rate, cost.per_million_output_tokens
    for label, figure, reason in (
        ("per million output tokens at the traffic's own rate", own, "no throughput, or no price"),
        ("per million output tokens at the highest rate", highest, "no rate at the SLO, or no price"),
        ("per million good requests", cost.per_million_good_requests, cost.good_requests_reason or ""),
    ):
        lines += wrapped(f"{label}: {_money(figure, reason, cost.currency)}", "         ")
    if headroom is not None:
        doubt = "" if headroom.validated else "unvalidated; "
        lines += wrapped(f"{headroom_words(headroom)} ({doubt}{headroom.detail})", "  room   ")
    return lines


def _money(figure: Figure | None, reason: str, currency: str) -> str:
    if figure is None:
        return f"not known ({reason})"
    value = number(figure, figure.value)
    amount = f"{value} {currency}, {band(figure)}" if value else f"{band(figure)} {currency}"
    return f"{amount} ({kind_of(figure)}; {figure.detail})"


def _leaving(candidates: Sequence[CandidateReport]) -> list[str]:
    """Once for each engine, however many of its versions are candidates."""
    lines = []
    engines = {candidate.engine: candidate for candidate in candidates}
    for candidate in engines.values():
        lines.append(f"  {name_of(candidate.engine)}")
        for fact in candidate.leaving:
            text = f"{fact.text} [{counts_word(fact)}: {fact.source}, seen {fact.as_of}]"
            lines += wrapped(text, f"    {titled(fact.subject):<15} ")
    return lines


def _verdict(decision: Decision) -> list[str]:
    verdict = decision.verdict
    lines = [heading("Verdict"), *wrapped(verdict.sentence, "  ")]
    for label, text in (
        ("decided by", titled(verdict.decided_by) + (" (a tie on the evidence)" if verdict.tie else "")),
        ("against", verdict.against),
        ("risk", verdict.risk),
        ("not for", verdict.not_for),
    ):
        lines += wrapped(text, f"  {label:<11}")
    return lines
