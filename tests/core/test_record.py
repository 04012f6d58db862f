from __future__ import annotations

import pytest

from unmoor.core.record import (
    Outcome,
    Record,
    e2e_s,
    meets,
    scheduled_e2e_s,
    scheduled_ttft_s,
    send_lag_s,
    tpot_s,
    ttft_s,
)
from unmoor.core.slo import Slo

S = 1_000_000_000
WHOLE = Record(
    index=0,
    outcome=Outcome.OK,
    scheduled_at_ns=0,
    sent_at_ns=S,
    first_byte_at_ns=int(1.5 * S),
    first_token_at_ns=2 * S,
    last_token_at_ns=4 * S,
    closed_at_ns=5 * S,
    chunk_at_ns=(2 * S, 4 * S),
    input_tokens=10,
    output_tokens=5,
    tokens_from="server",
)


def test_latencies_run_from_the_schedule_and_beside_it_from_the_send() -> None:
    assert send_lag_s(WHOLE) == 1.0
    assert (ttft_s(WHOLE), scheduled_ttft_s(WHOLE)) == (1.0, 2.0)
    assert (e2e_s(WHOLE), scheduled_e2e_s(WHOLE)) == (3.0, 4.0)
    assert tpot_s(WHOLE) == 0.5  # 2 s over the 4 tokens after the first


def replaced(**changes: object) -> Record:
    fields = {name: getattr(WHOLE, name) for name in WHOLE.__struct_fields__}
    return Record(**{**fields, **changes})


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.OK])
def test_a_failed_request_has_no_latency_and_misses_every_slo(outcome: Outcome) -> None:
    failed = replaced(outcome=outcome)
    assert [f(failed) for f in (ttft_s, scheduled_ttft_s, tpot_s, e2e_s, scheduled_e2e_s)] == [None] * 5
    assert not meets(failed, Slo())


def test_time_per_output_token_needs_two_tokens_that_somebody_counted() -> None:
    assert tpot_s(replaced(output_tokens=1)) is None
    assert tpot_s(replaced(output_tokens=None)) is None
    assert not meets(replaced(output_tokens=None), Slo(tpot_s=9.0))


def test_an_slo_is_judged_from_the_schedule() -> None:
    assert meets(WHOLE, Slo(ttft_s=2.0, e2e_s=4.0, tpot_s=0.5))
    assert not meets(WHOLE, Slo(ttft_s=1.9))
    assert not meets(WHOLE, Slo(e2e_s=3.9))
