"""When requests are due: by their own time, after one another, and N at a time. Numbers only, then real sockets."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest

from unmoor.core.record import Outcome, Record
from unmoor.fake.engine import FakeEngine
from unmoor.fake.script import Ask, Script
from unmoor.measure.client.address import address_of, request_bytes
from unmoor.measure.client.arrival_clock import ArrivalClock
from unmoor.measure.client.load import Pacing, PlannedRequest, ReplayReport, Target
from unmoor.measure.client.pace import Pace
from unmoor.measure.client.readiness import SelectorReadiness
from unmoor.measure.client.replay import replay
from unmoor.measure.client.wire_loop import WireLoop

QUICK = Script(ttft_s=0.02, gap_s=0.001, tokens=3)
MS = 1_000_000


def asked(due_s: float, session: str | None = None, index: int = 0, max_tokens: int = 4) -> PlannedRequest:
    return PlannedRequest(index=index, due_s=due_s, prompt="one two", max_tokens=max_tokens, session=session)


def drawn(pace: Pace, *, takes_ns: int) -> list[tuple[int, int]]:
    """Every (due, place), when each request ends `takes_ns` after it was due."""
    out: list[tuple[int, int]] = []
    ends: list[tuple[int, int]] = []
    while (due_ns := pace.next_at_ns()) is not None or ends:
        if due_ns is None or (ends and min(ends)[0] <= due_ns):
            ended = min(ends)
            ends.remove(ended)
            pace.ended(ended[1], ended[0])
            continue
        out.append(pace.take())
        ends.append((out[-1][0] + takes_ns, out[-1][1]))
    return out


def test_an_open_loop_waits_for_nothing() -> None:
    requests = [asked(0.3), asked(0.1), asked(0.2, "a"), asked(0.2, "a")]
    pace = Pace(requests, Pacing(), started_at_ns=1_000 * MS)
    assert drawn(pace, takes_ns=10_000 * MS) == [
        (1_100 * MS, 1), (1_200 * MS, 2), (1_200 * MS, 3), (1_300 * MS, 0),
    ]  # fmt: skip


def test_a_turn_waits_for_the_one_before_it_and_not_for_other_sessions() -> None:
    requests = [asked(0.0, "a"), asked(0.1, "b"), asked(0.2, "a"), asked(0.9, "a"), asked(0.15)]
    pace = Pace(requests, Pacing(wait_for_turns=True, think_s=0.05), started_at_ns=0)
    assert drawn(pace, takes_ns=400 * MS) == [
        (0, 0), (100 * MS, 1), (150 * MS, 4), (450 * MS, 2), (900 * MS, 3),
    ]  # fmt: skip


def test_a_closed_loop_has_so_many_sessions_under_way_and_no_more() -> None:
    requests = [asked(float(n), session) for n, session in enumerate(["a", "b", "c", "a", None, "c"])]
    pace = Pace(requests, Pacing(concurrency=2), started_at_ns=0)
    found = drawn(pace, takes_ns=10 * MS)
    assert found == [(0, 0), (0, 1), (10 * MS, 2), (10 * MS, 3), (20 * MS, 4), (20 * MS, 5)]
    assert pace.taken == 6


def test_the_time_ends_a_load_and_the_end_says_whether_something_was_left() -> None:
    requests = [asked(n / 10) for n in range(10)]
    assert [place for _, place in drawn(Pace(requests, Pacing(until_s=0.35), started_at_ns=0), takes_ns=0)] == [
        0,
        1,
        2,
        3,
    ]
    closed = Pace(requests, Pacing(concurrency=1, until_s=0.05), started_at_ns=0)
    assert len(drawn(closed, takes_ns=20 * MS)) == 3
    pace = Pace(requests, Pacing(concurrency=1), started_at_ns=0)
    pace.take()
    assert pace.end() is True
    pace.ended(0, 5)
    assert pace.next_at_ns() is None
    assert pace.end() is False


@pytest.mark.parametrize("seed", range(20))
def test_every_request_is_sent_once_in_the_order_of_its_session(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - moments, no secret
    names = [None, "a", "b", "c"]
    requests = [asked(draw.random(), draw.choice(names)) for _ in range(40)]
    requests.sort(key=lambda one: one.due_s)
    pacing = draw.choice([Pacing(), Pacing(concurrency=3, think_s=0.01), Pacing(wait_for_turns=True)])
    found = drawn(Pace(requests, pacing, started_at_ns=0), takes_ns=draw.randrange(200) * MS)
    assert sorted(place for _, place in found) == list(range(40))
    assert all(earlier[0] <= later[0] for earlier, later in pairwise(found))
    for name in names[1:]:
        places = [place for _, place in found if requests[place].session == name]
        assert places == sorted(places)


def play(url: str, planned: list[PlannedRequest], pacing: Pacing, **more: object) -> tuple[list[Record], ReplayReport]:
    records: list[Record] = []
    target = Target(url=url, served_name="fake")
    report = replay(target, planned, sink=records.append, timeout_s=20.0, pacing=pacing, **more)  # type: ignore[arg-type] # a table
    return records, report


def most_at_once(records: list[Record]) -> int:
    moments = [(record.sent_at_ns, 1) for record in records] + [(record.closed_at_ns, -1) for record in records]
    under_way = most = 0
    for _, change in sorted(moments, key=lambda moment: (moment[0] or 0, moment[1])):
        under_way += change
        most = max(most, under_way)
    return most


def test_on_real_sockets_no_more_than_the_users_ask_at_a_time_and_all_is_sent() -> None:
    planned = [asked(0.0, index=n, max_tokens=1 + n % 5) for n in range(60)]
    with FakeEngine(Script(ttft_s=0.005, gap_s=0.002)) as engine:
        records, report = play(engine.url, planned, Pacing(concurrency=4, think_s=0.002))
    assert sorted(record.index for record in records) == list(range(60))
    assert all(record.ok for record in records)
    assert most_at_once(records) == 4
    assert (report.offered_rps, report.ended_by, report.planned, report.partial) == (None, "all", 60, False)


def test_on_real_sockets_a_turn_is_sent_after_the_answer_before_it_whatever_became_of_it() -> None:
    def choose(ask: Ask) -> Script:
        return Script(fault="cut") if ask.max_tokens == 2 else QUICK

    planned = [asked(0.0, f"s{n % 3}", index=n, max_tokens=2 if n % 4 == 1 else 4) for n in range(30)]
    with FakeEngine(choose) as engine:
        records, report = play(engine.url, planned, Pacing(wait_for_turns=True, think_s=0.01))
    assert report.failures == sum(record.outcome is Outcome.CUT for record in records) == 8
    by_index = {record.index: record for record in records}
    for turn in range(3, 30):
        before = by_index[turn - 3]
        assert before.closed_at_ns is not None
        assert by_index[turn].scheduled_at_ns == before.closed_at_ns + 10 * MS


def test_a_refused_request_frees_its_user() -> None:
    planned = [asked(0.0, index=n) for n in range(5)]
    with FakeEngine(QUICK) as engine:
        gone = engine.url
    records, report = play(gone, planned, Pacing(concurrency=1))
    assert [record.outcome for record in records] == [Outcome.REFUSED] * 5
    assert report.ended_by == "all"
    ends = sorted(record.closed_at_ns or 0 for record in records)
    assert all(later - earlier >= 250 * MS for earlier, later in pairwise(ends))  # it asks again after a while


def test_after_the_time_nothing_is_sent_and_what_is_in_flight_comes_to_its_end() -> None:
    planned = [asked(0.0, index=n) for n in range(10_000)]
    with FakeEngine(Script(ttft_s=0.15, gap_s=0.0, tokens=2)) as engine:
        records, report = play(engine.url, planned, Pacing(concurrency=2, until_s=0.4))
    assert all(record.ok for record in records)
    assert 2 <= len(records) <= 6
    assert (report.ended_by, report.partial, report.planned) == ("duration", False, len(records))


def test_enough_ends_the_sending_and_not_the_answers() -> None:
    planned = [asked(n / 100, index=n) for n in range(500)]
    records: list[Record] = []
    with FakeEngine(Script(ttft_s=0.1, gap_s=0.0, tokens=2)) as engine:
        report = replay(
            Target(url=engine.url, served_name="fake"),
            planned,
            sink=records.append,
            timeout_s=20.0,
            enough=lambda: len(records) >= 20,
        )
    assert (report.ended_by, report.partial) == ("enough", False)
    assert 20 <= report.planned == len(records) < 500
    assert all(record.ok for record in records)


def test_without_epoll_the_same_answers_come_by_a_selector() -> None:
    records: list[Record] = []
    planned = [asked(n / 50, index=n) for n in range(20)]
    with FakeEngine(QUICK) as engine:
        target = Target(url=engine.url, served_name="fake")
        address = address_of(target)
        loop = WireLoop(
            address,
            [(one, request_bytes(target, address, one)) for one in planned],
            note=records.append,
            pulse=lambda: None,
            clock=ArrivalClock(),
            timeout_s=20.0,
            watch=SelectorReadiness,
        )
        loop.run(time.monotonic_ns())
    assert sorted(record.index for record in records) == list(range(20))
    assert all(record.ok and record.output_tokens == 3 for record in records)
