"""What the client can carry: found by running it, never said beyond what ran, with none of the server's error."""

from __future__ import annotations

import os
import resource
import signal
import threading

import pytest

from unmoor.core.calibration import Answer
from unmoor.core.errors import WorldError
from unmoor.core.record import Outcome, Record
from unmoor.core.slo import Slo
from unmoor.measure.client.replay import connections_allowed
from unmoor.measure.headroom.calibration_server import CalibrationServer
from unmoor.measure.headroom.headroom import (
    Shape,
    Step,
    headroom,
    headroom_caveats,
    lag_bound_s,
    run_step,
    search,
    shape_of,
)
from unmoor.measure.headroom.self_check import self_check
from unmoor.report.self_check_text import render

SMALL = Shape(rate_rps=20.0, chunks=3, gap_s=0.01, first_s=0.01, prompt_bytes=100)
ANY = 60.0


def silent(_: str) -> None:
    """Where steps are told."""


def record(index: int, sent_ns: int, chunk_at_ns: tuple[int, ...], outcome: Outcome = Outcome.OK) -> Record:
    return Record(
        index=index,
        outcome=outcome,
        scheduled_at_ns=sent_ns,
        sent_at_ns=sent_ns,
        first_token_at_ns=chunk_at_ns[0] if chunk_at_ns else None,
        last_token_at_ns=chunk_at_ns[-1] if chunk_at_ns else None,
        chunk_at_ns=chunk_at_ns,
    )


def test_the_shape_of_a_load_is_that_of_its_whole_answers() -> None:
    ms = 1_000_000
    answers = [record(i, i * 500 * ms, tuple(i * 500 * ms + at * ms for at in (100, 120, 140))) for i in range(5)]
    failed = record(9, 2_500 * ms, (), Outcome.CUT)
    shape = shape_of([*answers, failed], prompt_bytes=70)
    assert shape is not None
    assert (shape.chunks, shape.prompt_bytes) == (3, 70)
    assert shape.rate_rps == pytest.approx(2.0)
    assert shape.gap_s == pytest.approx(0.02)
    assert shape.first_s == pytest.approx(0.1)
    assert shape.streams == pytest.approx(2.0 * 0.14)


@pytest.mark.parametrize("records", [[], [record(0, 5, (9,))], [record(0, 5, ()), record(1, 7, ())]])
def test_of_too_little_there_is_no_shape(records: list[Record]) -> None:
    assert shape_of(records, prompt_bytes=10) is None


def test_the_bound_is_the_slo_s_tightest_share() -> None:
    assert lag_bound_s(None) == 0.005
    assert lag_bound_s(Slo(ttft_s=1.0, e2e_s=0.4)) == pytest.approx(0.02)
    assert lag_bound_s(Slo(tpot_s=0.01)) == 0.005


def test_a_step_runs_what_it_says_that_it_ran() -> None:
    with CalibrationServer() as server:
        step = run_step(server, SMALL, 2.0, ANY)
    assert step.failures == 0
    assert step.chunks == step.requests * 3
    assert step.rate_rps == pytest.approx(40.0, rel=0.05)
    assert step.held
    assert step.server_late_p99_s is not None
    assert step.cpu_us_per_chunk is not None
    assert 0 < step.cpu_us_per_chunk * 3 == pytest.approx(step.cpu_us_per_request)


def test_long_answers_are_cut_and_their_streams_open_together() -> None:
    shape = Shape(rate_rps=2.0, chunks=1000, gap_s=0.02, first_s=0.02)
    with CalibrationServer() as server:
        step = run_step(server, shape, 1.0, ANY)
    assert step.streams == step.requests == 40
    assert step.failures == 0
    assert 0 < step.chunks < 40 * 1000


def test_without_time_the_load_itself_is_tried_and_nothing_more() -> None:
    told: list[str] = []
    found = headroom(SMALL, within_s=0.0, tell=told.append, slo=Slo(ttft_s=20 * ANY))
    assert {step.factor for step in found.steps} == {1.0}
    assert len(told) == len(found.steps)
    assert found.factor == 1.0
    assert found.limited_by == "time"
    assert headroom_caveats(found) == ()


def test_more_is_tried_until_it_is_too_much_for_the_client_or_the_time() -> None:
    found = headroom(SMALL, within_s=6.0, slo=Slo(ttft_s=20 * ANY))
    assert found.factor is not None
    assert found.factor > 1.0
    assert found.most is not None
    assert found.most.factor == found.factor == max(step.factor for step in found.steps if step.carried)
    assert found.cpu_us_per_chunk is not None


def test_a_load_that_cannot_be_carried_once_has_no_factor() -> None:
    with CalibrationServer() as server:
        found = search(server, SMALL, 0.0, within_s=5.0, tell=silent)
    assert found.factor is None
    assert found.most is None
    assert found.cpu_us_per_chunk is None
    assert [step.factor for step in found.steps] == [1.0, 1.0]  # tried again: another process may have had the core
    assert found.limited_by in {"client", "server"}
    expected = "headroom_little" if found.limited_by == "client" else "headroom_unknown"
    assert [caveat.code for caveat in headroom_caveats(found)] == [expected]


def test_what_the_server_spoilt_is_not_put_on_the_client() -> None:
    """Chunks 10 µs apart are beyond the server: the client may look as it will."""
    shape = Shape(rate_rps=100.0, chunks=20, gap_s=0.00001, first_s=0.0)
    with CalibrationServer() as server:
        step = run_step(server, shape, 1.0, ANY)
    assert step.server_late_p99_s is not None
    assert step.server_late_p99_s > shape.gap_s
    assert step.spoilt
    assert not step.carried


def test_ctrl_c_ends_the_search_in_good_order() -> None:
    timer = threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    found = headroom(Shape(rate_rps=5.0, chunks=100, gap_s=0.1), within_s=20.0)
    timer.join()
    assert found.limited_by == "stopped"
    assert found.steps[-1].partial
    assert [caveat.code for caveat in headroom_caveats(found)] == ["headroom_unknown"]


def test_a_server_that_died_is_one_clear_error() -> None:
    with CalibrationServer() as server:
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(WorldError, match="calibration server ended"):
            server.answer_with(Answer())


def test_the_limit_on_connections_is_as_before_afterwards() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with connections_allowed():
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_the_self_check_says_only_what_ran() -> None:
    check = self_check(within_s=0.0)
    assert not check.partial
    assert check.noise.n > 0
    assert check.short_requests is not None
    by_factor: list[Step] = [step for step in check.steps if step.carried]
    if check.streams.streams is not None:
        assert check.streams.chunks in {step.chunks for step in by_factor}
        assert check.streams.streams in {step.streams for step in by_factor}
    text = render(check)
    assert f"{check.noise.n}" in text
    assert "streams at 20 tokens/s" in text
    assert max(map(len, text.splitlines())) <= 100
