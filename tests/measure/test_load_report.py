"""What a load says of itself, from records made by hand."""

from __future__ import annotations

import pytest

from unmoor.core.evidence import Caveat
from unmoor.core.record import Outcome, Record
from unmoor.core.slo import Slo
from unmoor.measure.client.load import Pacing, ReplayReport
from unmoor.measure.figures.load_report import LoadReport, Sent, load_report

S = 1_000_000_000
ALONE = Pacing()


def record(index: int, *, due_s: float, ttft_s: float = 0.1, tokens: int | None = 5, **changes: object) -> Record:
    """A request sent 10 ms late, whose tokens come 20 ms apart."""
    due, first = round(due_s * S), round((due_s + ttft_s) * S)
    chunks = tuple(first + at * S // 50 for at in range(5))
    told: dict[str, object] = {
        "index": index,
        "outcome": Outcome.OK,
        "scheduled_at_ns": due,
        "sent_at_ns": due + S // 100,
        "first_token_at_ns": first,
        "last_token_at_ns": chunks[-1],
        "chunk_at_ns": chunks,
        "closed_at_ns": chunks[-1],
        "input_tokens": 20,
        "output_tokens": tokens,
        "cached_tokens": 5,
        "tokens_from": None if tokens is None else "server",
    }
    return Record(**{**told, **changes})  # type: ignore[arg-type] # a table


def failed(index: int, *, due_s: float) -> Record:
    due = round(due_s * S)
    return Record(index=index, outcome=Outcome.CUT, scheduled_at_ns=due, sent_at_ns=due, closed_at_ns=due + S)


def report(
    *records: Record, slo: Slo | None = None, warm_up_s: float = 0.0, pacing: Pacing = ALONE, **replayed: object
) -> LoadReport:
    told: dict[str, object] = {
        "planned": len(records), "requests": len(records), "failures": 0, "partial": False, "offered_rps": 1.0,
        "achieved_rps": 1.0, "send_lag_p50_s": 0.01, "send_lag_p99_s": 0.01, "send_lag_max_s": 0.01,
        "loop_stall_p99_s": 0.0, "loop_stall_max_s": 0.0, "started_at_ns": 0, "ended_at_ns": 0,
    }  # fmt: skip
    lengths = {one.index: 20 for one in records}
    sent = Sent(
        target="t", model="m", endpoint="chat", input_tokens=lengths, slo=slo, warm_up_s=warm_up_s, pacing=pacing
    )
    return load_report(sent, records, ReplayReport(**{**told, **replayed}))  # type: ignore[arg-type] # a table


def codes(found: LoadReport) -> set[str]:
    return {caveat.code for caveat in found.caveats}


def test_headlines_run_from_when_a_request_was_due_and_service_from_when_it_was_sent() -> None:
    found = report(record(0, due_s=0)).metrics
    assert found.ttft_s.mean == pytest.approx(0.1)
    assert found.ttft_service_s.mean == pytest.approx(0.09)
    assert found.e2e_s.mean == pytest.approx(0.18)
    assert found.e2e_service_s.mean == pytest.approx(0.17)
    assert found.tpot_s.mean == pytest.approx(0.02)
    assert found.itl_s.n == 4
    assert found.itl_s.mean == pytest.approx(0.02)


def test_a_failed_request_is_in_no_latency_and_in_every_denominator() -> None:
    found = report(*(record(at, due_s=at) for at in range(3)), failed(3, due_s=3), slo=Slo(ttft_s=0.2))
    assert (found.requests, found.failed, found.failures) == (4, 1, {"cut": 1})
    assert found.metrics.ttft_s.n == 3
    assert found.slo_attainment is not None
    assert (found.slo_attainment.value, found.slo_attainment.n) == (0.75, 4)
    assert found.goodput_rps == pytest.approx(3 / 4)  # the failed one ended 4 s after the first was due
    assert found.request_tput_rps == pytest.approx(3 / 4)


def test_every_bound_of_the_slo_counts() -> None:
    records = [record(0, due_s=0), record(1, due_s=1, ttft_s=0.3)]
    assert report(*records, slo=Slo(ttft_s=0.2)).slo_attainment.value == 0.5  # type: ignore[union-attr] # there is one
    assert report(*records, slo=Slo(ttft_s=0.2, tpot_s=0.01)).slo_attainment.value == 0  # type: ignore[union-attr] # likewise
    assert report(*records).slo_attainment is None


def test_warm_up_is_sent_and_in_no_figure() -> None:
    found = report(record(0, due_s=0, ttft_s=9), *(record(at, due_s=at) for at in range(1, 4)), warm_up_s=0.5)
    assert (found.requests, found.window.warm_up) == (3, 1)
    assert found.metrics.ttft_s.mean == pytest.approx(0.1)
    assert found.planned == 4


def test_what_nobody_counted_is_not_known_and_not_nought() -> None:
    found = report(record(0, due_s=0), record(1, due_s=1, tokens=None, cached_tokens=None))
    assert (found.output_tokens, found.output_tput_tps, found.token_source) == (None, None, None)
    assert found.prefix_hit_rate is None
    assert "usage_not_reported" in codes(found)
    whole = report(record(0, due_s=0), record(1, due_s=1))
    assert (whole.output_tokens, whole.token_source, whole.prefix_hit_rate) == (10, "server", 0.25)


def test_a_run_whose_client_was_late_or_off_its_rate_is_void() -> None:
    records = [record(at, due_s=at) for at in range(25)]
    assert report(*records, slo=Slo(ttft_s=0.5)).void == ()
    late = report(*records, slo=Slo(ttft_s=0.1), caveats=(Caveat(code="client_bound", text="late"),))
    assert [one.code for one in late.void] == ["client_bound"]
    assert "client_bound" not in codes(late)
    slow = report(*records, offered_rps=1.0, achieved_rps=0.98)
    assert [one.code for one in slow.void] == ["rate_missed"]
    assert report(*records, offered_rps=1.0, achieved_rps=0.995).void == ()
    assert report(*records, offered_rps=100.0, achieved_rps=98.0).void == ()  # 5 ms in all
    refused = Record(index=25, outcome=Outcome.REFUSED, scheduled_at_ns=25 * S, closed_at_ns=25 * S)
    assert report(*records, refused, offered_rps=100.0, achieved_rps=90.0).void == ()
    assert [one.code for one in report(*records, warm_up_s=60).void] == ["nothing_measured"]


def test_doubts_travel_with_the_figures() -> None:
    few = report(record(0, due_s=0), record(1, due_s=1, input_tokens=23))
    assert {"few_requests", "prompt_lengths_differ", "headroom_unknown"} <= codes(few)
    many = report(*(record(at, due_s=at) for at in range(72)))
    assert not {"few_requests", "prompt_lengths_differ", "tokens_share_chunks"} & codes(many)
    assert many.metrics.ttft_s.p95 is not None
    assert many.metrics.ttft_s.p95.high is not None
    assert "tokens_share_chunks" in codes(report(record(0, due_s=0, tokens=9)))


def test_a_queue_that_builds_up_is_unsteady_and_chance_is_not() -> None:
    steady = [record(at, due_s=at, ttft_s=0.1 + 0.05 * (at % 3)) for at in range(60)]
    growing = [record(at, due_s=at, ttft_s=0.1 + 0.01 * at) for at in range(60)]
    assert "unsteady" not in codes(report(*steady))
    assert "unsteady" in codes(report(*growing))
    assert "unsteady" not in codes(report(*growing[:39]))


def test_slices_are_the_window_in_ten_parts_and_lose_nothing() -> None:
    records = [record(at, due_s=at / 2) for at in range(41)] + [failed(41, due_s=3.2)]
    found = report(*records, slo=Slo(ttft_s=0.2))
    assert [one.from_s for one in found.slices] == pytest.approx([2.0 * place for place in range(10)])
    assert sum(one.requests for one in found.slices) == found.requests == 42
    assert [one.failed for one in found.slices] == [0, 1, *[0] * 8]
    assert found.slices[1].slo_attainment == pytest.approx(4 / 5)
    assert found.slices[0].ttft_p50_s == pytest.approx(0.1)
    assert report(*records[:19]).slices == ()


def test_what_was_cut_off_when_it_was_stopped_is_in_no_figure() -> None:
    cut_off = Record(index=9, outcome=Outcome.CANCELLED, scheduled_at_ns=S, sent_at_ns=S, closed_at_ns=2 * S)
    found = report(record(0, due_s=0), record(1, due_s=0.5), cut_off, slo=Slo(ttft_s=0.2), partial=True)
    assert (found.requests, found.failed, found.cancelled) == (2, 0, 1)
    assert found.slo_attainment is not None
    assert found.slo_attainment.value == 1
    assert "cancelled_in_flight" in codes(found)


def test_a_late_client_is_told_without_an_slo() -> None:
    records = [record(at, due_s=at) for at in range(30)]
    assert "client_late" in codes(report(*records, send_lag_p99_s=0.01))
    assert "client_late" not in codes(report(*records, send_lag_p99_s=0.004))


STILL = ((2 * S, 2 * S + S // 4), (7 * S + S // 20, 7 * S + S // 2))


def test_a_client_that_stood_still_while_answers_came_says_so_and_voids_what_an_slo_judges() -> None:
    records = [record(at, due_s=at) for at in range(30)]
    assert "client_stalled" in codes(report(*records, stood_still_ns=STILL))
    judged = report(*records, slo=Slo(ttft_s=0.2), stood_still_ns=STILL)
    assert [one.code for one in judged.void] == ["client_bound"]
    assert "client_stalled" not in codes(judged)
    assert report(*records, slo=Slo(ttft_s=60.0), stood_still_ns=STILL).void == ()
    idle = ((2 * S + S // 2, 2 * S + S // 2 + S // 4),)  # while nothing was in flight
    assert "client_stalled" not in codes(report(*records, stood_still_ns=idle))


def test_a_failed_request_ends_when_it_was_given_up() -> None:
    hung = record(3, due_s=3, outcome=Outcome.TIMEOUT, closed_at_ns=20 * S)
    found = report(*(record(at, due_s=at) for at in range(3)), hung)
    assert found.request_tput_rps == pytest.approx(3 / 20)


def test_what_the_server_refused_in_the_warm_up_is_not_the_clients_rate() -> None:
    refused = [Record(index=n, outcome=Outcome.REFUSED, scheduled_at_ns=n * S, closed_at_ns=n * S) for n in range(5)]
    answered = [record(n, due_s=n) for n in range(5, 30)]
    assert report(*refused, *answered, warm_up_s=4.5, offered_rps=1.0, achieved_rps=0.8).void == ()


def test_an_answer_of_which_nothing_was_seen_is_told() -> None:
    silent = record(1, due_s=1, chunk_at_ns=(), first_token_at_ns=None, last_token_at_ns=None)
    assert "no_content" in codes(report(record(0, due_s=0), silent))
    assert "no_content" not in codes(report(record(0, due_s=0)))


def test_users_who_wait_are_a_caveat() -> None:
    assert "closed_loop" in codes(report(record(0, due_s=0), pacing=Pacing(concurrency=1)))


def test_of_nothing_there_is_nothing_to_say() -> None:
    found = report()
    assert (found.requests, found.metrics.ttft_s.mean, found.output_tput_tps, found.request_tput_rps) == (
        0,
        None,
        None,
        None,
    )
    assert found.void
