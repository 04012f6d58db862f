"""What a client said of a case against what the server knows: right, wrong, or not said."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from unmoor.fake.conformance.answers import ASKED_TOKENS, FIRST_S
from unmoor.fake.conformance.cases import Case
from unmoor.fake.conformance.server import Played

LATENCY_TOLERANCE_S = 0.1
"""So far may a mean latency be from the server's own timing."""
TPOT_TOLERANCE_S = 0.005
TPOT_TOLERANCE = 0.25
"""So far may a mean time per output token be from the server's: 5 ms, or a quarter of it."""
TOKEN_TOLERANCE = 0.01


class Standing(StrEnum):
    """Of one figure, or of a case: a case is wrong by one wrong figure, and right by at least one right one."""

    RIGHT = "right"
    WRONG = "wrong"
    NOT_SAID = "not_said"
    NOT_PLAYED = "not_played"  # the client has no way to be asked for it
    DID_NOT_RUN = "did_not_run"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a client's result file says, over all its requests; what it does not say is None, never 0.

    The latencies are means in seconds over the answers that it counts as good, `output_tokens` is a mean over them.
    """

    requests: float | None = None
    failed: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    output_tokens: float | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One figure: what the client said, and what was true. `true` None: the right answer is to say nothing."""

    figure: str
    standing: Standing
    said: float | None
    true: float | None
    note: str = ""


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """A case as it went for one client. `why` says why it was not played, or did not run."""

    case: str
    title: str
    expect: str
    standing: Standing
    checks: tuple[Check, ...] = ()
    why: str = ""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a client was told to send: so many requests, one every 1/`rate_rps` s.

    With `random_arrivals` the client draws its own gaps, so that only the server's receipt can be the start.
    """

    requests: int
    rate_rps: float
    random_arrivals: bool = False


def judge(case: Case, asked: Asked, played: Sequence[Played], said: Said) -> CaseResult:
    """The case's result. A client's first requests beyond those asked (readiness probes) are in no truth."""
    own = played[-asked.requests :]
    failed = sum(one.other for one in own) if case.other_fails else 0
    good = [one for one in own if not one.other]
    due = _due(own, asked, from_schedule=case.capped or bool(case.serial_s))
    checks = [_exact("requests", said.requests, asked.requests)]
    if case.other_fails is not None:
        checks.append(_exact("failed", said.failed, failed))
    checks.append(_latency("ttft_s", said.ttft_s, _mean([_span(due[id(one)], one.first_token_at_s) for one in good])))
    if case.other_fails is not None:  # what an empty answer does to the means below depends on whether it has failed
        checks += [_tpot(case, said, good), _e2e(case, said, good, due), _tokens(case, said)]
    return CaseResult(
        case=case.code, title=case.title, expect=case.expect, standing=overall(checks), checks=tuple(checks)
    )


def without_result(case: Case, standing: Standing, why: str) -> CaseResult:
    """The result of a case that was not played, or did not run."""
    return CaseResult(case=case.code, title=case.title, expect=case.expect, standing=standing, why=why)


def overall(checks: Sequence[Check]) -> Standing:
    """The standing of a case by those of its figures."""
    standings = {check.standing for check in checks}
    return next((one for one in (Standing.WRONG, Standing.RIGHT) if one in standings), Standing.NOT_SAID)


def _due(played: Sequence[Played], asked: Asked, *, from_schedule: bool) -> dict[int, float]:
    """When each request was due, by the object's id: by the schedule from the first on, or when it was received."""
    if not from_schedule or asked.random_arrivals:
        return {id(one): one.received_at_s for one in played}
    return {id(one): played[0].received_at_s + place / asked.rate_rps for place, one in enumerate(played)}


def _span(start_s: float, end_s: float | None) -> float | None:
    return None if end_s is None else end_s - start_s


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _check(figure: str, said: float | None, true: float | None, *, within: float, note: str = "") -> Check:
    if said is None:
        standing = Standing.RIGHT if true is None else Standing.NOT_SAID
    else:
        standing = Standing.RIGHT if true is not None and abs(said - true) <= within else Standing.WRONG
    return Check(figure=figure, standing=standing, said=said, true=true, note=note)


def _scripted_s(case: Case) -> float:
    """When the last token of a good answer goes out by the script."""
    return case.good.last_token_s or 0.0


def _exact(figure: str, said: float | None, true: float) -> Check:
    return _check(figure, said, true, within=TOKEN_TOLERANCE)


def _latency(figure: str, said: float | None, true: float | None, *, note: str = "") -> Check:
    return _check(figure, said, true, within=LATENCY_TOLERANCE_S, note=note)


def _tpot(case: Case, said: Said, good: Sequence[Played]) -> Check:
    gaps = case.output_tokens - 1
    spans = [_span(one.first_token_at_s, one.last_token_at_s) for one in good if one.first_token_at_s is not None]
    # A client that gave up before the end is held to what would have been.
    decode_s = (_mean(spans) or _scripted_s(case) - FIRST_S) if gaps else None
    true = None if decode_s is None else decode_s / gaps
    return _check("tpot_s", said.tpot_s, true, within=max(TPOT_TOLERANCE_S, (true or 0.0) * TPOT_TOLERANCE))


def _e2e(case: Case, said: Said, good: Sequence[Played], due: dict[int, float]) -> Check:
    """To the last token, or to the end of the answer: both are in use, and which it is becomes the note."""
    to_token = _mean([_span(due[id(one)], one.last_token_at_s) for one in good]) or _scripted_s(case)
    to_end = _mean([_span(due[id(one)], one.ended_at_s) for one in good])
    by_token = _latency("e2e_s", said.e2e_s, to_token, note="ends at the last token")
    by_end = _latency("e2e_s", said.e2e_s, to_end, note="ends with the answer")
    if case.code != "late-done":
        return msgspec.structs.replace(by_token, note="")
    return by_token if by_token.standing is not Standing.WRONG or by_end.standing is Standing.WRONG else by_end


def _tokens(case: Case, said: Said) -> Check:
    if case.reported:
        return _exact("output_tokens", said.output_tokens, case.output_tokens)
    # No one but a tokenizer can know: saying nothing is right, and so is a count that is one off.
    if said.output_tokens is None:
        return Check(figure="output_tokens", standing=Standing.RIGHT, said=None, true=None)
    note = "the number asked for" if said.output_tokens == ASKED_TOKENS else ""
    return _check("output_tokens", said.output_tokens, case.output_tokens, within=1, note=note)
