"""What a run's directory says of the bake-off in it."""

from __future__ import annotations

import msgspec

from unmoor.bakeoff import ledger
from unmoor.bakeoff.result import Machine
from unmoor.core.evidence import Caveat
from unmoor.core.record import Outcome, Record
from unmoor.measure.client.load import ReplayReport
from unmoor.measure.run_store import Event

BUSY = Caveat(code="busy_machine", text="busy")


def event(kind: str, **details: object) -> Event:
    return Event(kind=kind, at="2026-11-30T00:00:00+00:00", details=details)


def start(*caveats: Caveat) -> Event:
    machine = Machine(cpu="c", cores=2, memory_bytes=None, system="s", load_1m=None, caveats=caveats)
    return event("machine", machine=msgspec.to_builtins(machine))


def kept(events: tuple[Event, ...]) -> ledger.Kept:
    return ledger.Kept(records={}, events=events, expected=1)


def test_a_start_that_measured_nothing_adds_no_doubt() -> None:
    measured = [start(), event("block_started"), start(BUSY)]
    found = ledger.machine_of(measured)
    assert found is not None
    assert found.caveats == ()
    also = ledger.machine_of([*measured, event("block_started")])
    assert also is not None
    assert also.caveats == (BUSY,)
    assert ledger.machine_of([]) is None


def test_a_run_is_finished_for_those_who_took_part_at_its_last_start() -> None:
    once = (event("contenders"), event("finished"))
    assert ledger.finished(kept(once))
    assert not ledger.finished(kept((*once, event("contenders")))), "another engine has come, and is not measured yet"
    assert not ledger.finished(kept(()))


def test_a_run_whose_records_are_gone_is_not_finished() -> None:
    name = "e 1 | defaults | 0"
    told = (event("contenders"), Event(kind="block_finished", at="", block=name), event("finished"))
    assert not ledger.finished(kept(told))
    record = Record(index=0, outcome=Outcome.OK, scheduled_at_ns=0)
    assert ledger.finished(ledger.Kept(records={name: {0: record}}, events=told, expected=1))


def test_what_we_cut_off_ourselves_is_still_to_be_sent_and_a_failure_is_not() -> None:
    records = {
        index: Record(index=index, outcome=outcome, scheduled_at_ns=0)
        for index, outcome in enumerate((Outcome.OK, Outcome.CANCELLED, Outcome.TIMEOUT))
    }
    assert ledger.missing(records, 4, whole=True) == ledger.missing(records, 4, whole=False) == (1, 3)
    kept = ledger.Kept(records={"e 1 | defaults | 0": records}, events=(), expected=4)
    contender = ledger.Contender(engine="e", title="E", version="1", weights="")
    (block,) = kept.blocks_of(contender, "defaults")
    assert [record.index for record in block.records] == [0, 2]
    assert not block.complete


def test_what_met_no_engine_is_owed_again_where_the_engine_did_not_outlive_the_block() -> None:
    name = "e 1 | defaults | 0"
    records = {
        index: Record(index=index, outcome=outcome, scheduled_at_ns=0)
        for index, outcome in enumerate((Outcome.OK, Outcome.CUT, Outcome.REFUSED, Outcome.HTTP_ERROR))
    }
    begun = Event(kind="block_started", at="", block=name)
    numbers = dict.fromkeys(ReplayReport.__struct_fields__[:13], 0)
    report = {**numbers, "partial": False, "caveats": []}
    ended = Event(kind="block_finished", at="", block=name, details={"report": report})
    assert ledger.whole_blocks([begun, ended]) == {name}
    assert ledger.whole_blocks([begun, ended, begun]) == frozenset()
    assert ledger.missing(records, 4, whole=True) == ()
    assert ledger.missing(records, 4, whole=False) == (1, 2)
    contender = ledger.Contender(engine="e", title="E", version="1", weights="")
    for events, indexes in (((begun,), [0, 3]), ((begun, ended), [0, 1, 2, 3])):
        (block,) = ledger.Kept(records={name: records}, events=events, expected=4).blocks_of(contender, "defaults")
        assert [record.index for record in block.records] == indexes
