"""What the cases say of their answers is so: the wire, which is proven elsewhere, reads the same from their bytes."""

from __future__ import annotations

import pytest

from unmoor.core.errors import UsageError
from unmoor.core.record import Outcome
from unmoor.engines.wire import AnswerReading, read_stream
from unmoor.fake.conformance.answers import ASKED_TOKENS, Answer
from unmoor.fake.conformance.cases import CASES, Case, case_named

BROKEN_BY_BYTES = {"ends-early", "cut", "error-mid", "error-first", "error-named", "finish-abort", "finish-error"}


def reading(answer: Answer) -> AnswerReading:
    return read_stream([(round(event.at_s * 1e9), event.content) for event in answer.events])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_a_good_answer_is_whole_and_its_tokens_are_where_the_case_says(case: Case) -> None:
    found = reading(case.good)
    times = [round(event.at_s * 1e9) for event in case.good.events if event.token]
    assert found.outcome is Outcome.OK
    assert found.chunk_at_ns == tuple(times)
    assert (found.usage.output_tokens if found.usage else None) == (case.output_tokens if case.reported else None)


@pytest.mark.parametrize("case", [case for case in CASES if case.other], ids=lambda case: case.code)
def test_an_answer_that_has_failed_is_one_that_the_wire_or_http_says_has_failed(case: Case) -> None:
    assert case.other is not None
    failed = case.other.status != 200 or reading(case.other).outcome is not Outcome.OK
    assert failed is bool(case.other_fails)
    assert (case.code in BROKEN_BY_BYTES) is (failed and case.other.status == 200)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_events_are_in_order_of_time_and_no_answer_has_as_many_tokens_as_asked(case: Case) -> None:
    for answer in filter(None, (case.good, case.other)):
        times = [event.at_s for event in answer.events]
        assert times == sorted(times)
    assert case.output_tokens < ASKED_TOKENS


def test_every_case_has_a_code_of_its_own_and_a_misspelt_one_is_answered_with_the_nearest() -> None:
    assert len({case.code for case in CASES}) == len(CASES)
    with pytest.raises(UsageError, match="did you mean 'error-mid'"):
        case_named("eror-mid")
