"""Blocks of records made to order, for tests of the pure parts."""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.bakeoff.figures import Terms
from unmoor.bakeoff.result import Block
from unmoor.core.record import Outcome, Record
from unmoor.core.slo import Slo
from unmoor.core.traffic import Request

TERMS = Terms(slo=Slo(ttft_s=0.5, e2e_s=2.0), left_out=1, seed=0, source="a test", as_of="2026-11-30")


def record(index: int, e2e_s: float | None, *, ttft_share: float = 0.25, tokens: int = 11) -> Record:
    """A request answered `e2e_s` after it was scheduled; None failed after a second."""
    scheduled = (index + 1) * 1_000_000_000
    if e2e_s is None:
        return Record(
            index=index,
            outcome=Outcome.HTTP_ERROR,
            scheduled_at_ns=scheduled,
            sent_at_ns=scheduled,
            closed_at_ns=scheduled + 1_000_000_000,
        )
    last = scheduled + round(e2e_s * 1e9)
    return Record(
        index=index,
        outcome=Outcome.OK,
        scheduled_at_ns=scheduled,
        sent_at_ns=scheduled,
        first_token_at_ns=scheduled + round(e2e_s * ttft_share * 1e9),
        last_token_at_ns=last,
        closed_at_ns=last,
        input_tokens=100,
        output_tokens=tokens,
        cached_tokens=50,
        tokens_from="server",
    )


def blocks(trial: str, *repeats: Sequence[float | None]) -> tuple[Block, ...]:
    """One block a repeat, of requests with these end-to-end times."""
    return tuple(
        Block(
            trial=trial,
            repeat=number,
            expected=len(times),
            records=tuple(record(index, time) for index, time in enumerate(times)),
        )
        for number, times in enumerate(repeats)
    )


def requests(count: int) -> tuple[Request, ...]:
    """Requests a second apart."""
    return tuple(Request(arrival_s=float(n), input_tokens=100, output_tokens=11) for n in range(count))
