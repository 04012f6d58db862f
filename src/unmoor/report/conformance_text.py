"""A client's conformance as text and as JSON: each case, what was said, and what was true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from unmoor.core.plural import plural
from unmoor.fake.conformance.cases import Case
from unmoor.fake.conformance.clients import Client
from unmoor.fake.conformance.judge import (
    LATENCY_TOLERANCE_S,
    TPOT_TOLERANCE,
    TPOT_TOLERANCE_S,
    CaseResult,
    Check,
    Standing,
)
from unmoor.report.layout import heading, wrapped

_MS = 1000
_WORDS = {
    "requests": "requests",
    "failed": "failed",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "e2e_s": "end to end",
    "output_tokens": "output tokens",
}


def listed(cases: Sequence[Case], clients: Mapping[str, Client], *, as_json: bool) -> str:
    """The cases with what is expected in each, and the clients that are known."""
    if as_json:
        told = [{"case": case.code, "title": case.title, "expect": case.expect} for case in cases]
        return msgspec.json.encode({"cases": told, "clients": list(clients)}).decode()
    lines = []
    for case in cases:
        lines += [f"{case.code}", *wrapped(case.title, "    "), *wrapped(case.expect, "    -> ")]
    lines += ["", heading("Clients")]
    lines += [f"  {name:<16}{client.about}" for name, client in clients.items()]
    return "\n".join(lines)


def rendered(client: str, results: Sequence[CaseResult], *, as_json: bool) -> str:
    """The whole result, 100 columns wide, without colour; or one JSON object."""
    counts = {one.value: sum(result.standing is one for result in results) for one in Standing}
    if as_json:
        return msgspec.json.encode({"client": client, "counts": counts, "cases": results}).decode()
    lines = [f"{client}: {', '.join(_count(name, count) for name, count in counts.items() if count)}", ""]
    for result in results:
        lines += wrapped(_line(result), f"  {result.case:<18}{result.standing.value.replace('_', ' '):<12}")
    lines += ["", *wrapped(_TOLERANCES, "  ")]
    return "\n".join(lines)


_TOLERANCES = (
    "A figure is a mean over the answers that the client counts as good. TTFT and end to end are right within "
    f"{LATENCY_TOLERANCE_S * _MS:.0f} ms of the server's own timing, TPOT within {TPOT_TOLERANCE_S * _MS:.0f} ms or "
    f"{TPOT_TOLERANCE:.0%}, counts exactly. unmoor conformance --list says what each case plays."
)


def _count(name: str, count: int) -> str:
    words = name.replace("_", " ")
    return f"{plural(count, 'case')} {words}"


def _line(result: CaseResult) -> str:
    if result.why:
        return result.why
    wrong = [check for check in result.checks if check.standing is Standing.WRONG]
    silent = [_WORDS[check.figure] for check in result.checks if check.standing is Standing.NOT_SAID]
    notes = [f"{_WORDS[check.figure]} {check.note}" for check in result.checks if check.note and check not in wrong]
    parts = [difference(check) for check in wrong]
    if silent:
        parts.append(f"not said: {', '.join(silent)}")
    return "; ".join([*parts, *notes])


def difference(check: Check) -> str:
    """What was said of one figure, and what was true, in words."""
    beside = f" ({check.note})" if check.note else ""
    true = "true is to say nothing" if check.true is None else f"true {_value(check.figure, check.true)}"
    return f"{_WORDS[check.figure]} said {_value(check.figure, check.said)}, {true}{beside}"


def _value(figure: str, value: float | None) -> str:
    if value is None:
        return "nothing"
    return f"{value * _MS:,.0f} ms" if figure.endswith("_s") else f"{value:,.4g}"
