"""What a bake-off writes into its run directory beside the records, and reads back: enough to report for ever.

traffic.json          lengths and arrivals of the requests, and their profile; no text
events.jsonl          machine, contenders, trials, failed_trial, other_work, engine_died, finished; the store has more
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from unmoor.bakeoff.result import Block, Machine, Skipped, Trial
from unmoor.core.errors import RunError
from unmoor.core.evidence import Caveat
from unmoor.core.plural import plural
from unmoor.core.record import Outcome, Record
from unmoor.core.traffic import Request, TrafficProfile
from unmoor.measure.client.load import ReplayReport
from unmoor.measure.run_store import Event, RunStore, StoredRun, unreadable

_TRAFFIC = "traffic.json"
_BLOCK = re.compile(r".+ \| .+ \| (0|[1-9][0-9]{0,5})", re.DOTALL)


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """One engine of one version that was measured, and the precision of the weights it computed with."""

    engine: str
    title: str
    version: str
    weights: str


class KeptTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """The requests as they were replayed, without segments, and the profile of the whole."""

    profile: TrafficProfile
    requests: tuple[Request, ...]


def block_name(contender: Contender, trial: str, repeat: int) -> str:
    """The block's name in the store: engine and version, trial, repeat."""
    return f"{contender.engine} {contender.version} | {trial} | {repeat}"


def missing(records: Mapping[int, Record], expected: int, *, whole: bool) -> tuple[int, ...]:
    """The indexes still to be sent: those without a record that says something of the engine.

    `whole`: the block was measured to its end, and the engine outlived it.
    """
    return tuple(index for index in range(expected) if index not in records or not _tells(records[index], whole=whole))


def _tells(record: Record, *, whole: bool) -> bool:
    """Whether a record says something of the engine: what we cancelled does not.

    Nor does what found no engine, or was cut, in a block without an end: there the engine, or we, had ended.
    """
    nothing = {Outcome.CANCELLED} if whole else {Outcome.CANCELLED, Outcome.CUT, Outcome.REFUSED}
    return record.outcome not in nothing


def whole_blocks(events: Sequence[Event]) -> frozenset[str]:
    """The blocks that were measured to an end which the engine outlived, and not begun again since."""
    last = {event.block: event.kind for event in events if event.kind in {"block_started", "block_finished"}}
    return frozenset(name for name, kind in last.items() if name is not None and kind == "block_finished")


def keep_traffic(store: RunStore, profile: TrafficProfile, requests: Sequence[Request]) -> None:
    """Writes the traffic, whole or not at all, where it is not there already as it must be. Raises RunError."""
    path = store.path / _TRAFFIC
    bare = tuple(
        Request(arrival_s=r.arrival_s, input_tokens=r.input_tokens, output_tokens=r.output_tokens) for r in requests
    )
    content = msgspec.json.encode(KeptTraffic(profile=profile, requests=bare))
    beside = path.with_suffix(".part")
    try:
        if path.is_file() and path.read_bytes() == content:
            return
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error


def kept_traffic(stored: StoredRun) -> KeptTraffic:
    """The traffic of a run. Raises RunError where it is missing or broken."""
    path = stored.path / _TRAFFIC
    try:
        return msgspec.json.decode(path.read_bytes(), type=KeptTraffic)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _unusable(path, str(error)) from error


def note_start(store: RunStore, machine: Machine, contenders: Sequence[Contender], skipped: Sequence[Skipped]) -> None:
    """Notes the machine and who takes part, at every start. Raises RunError."""
    store.event("machine", details={"machine": msgspec.to_builtins(machine)})
    store.event(
        "contenders",
        details={"contenders": msgspec.to_builtins(list(contenders)), "skipped": msgspec.to_builtins(list(skipped))},
    )


def note_trials(store: RunStore, contender: Contender, trials: Sequence[Trial]) -> None:
    """Notes the trials of an engine that are to be measured. Raises RunError."""
    store.event("trials", details={"of": msgspec.to_builtins(contender), "trials": msgspec.to_builtins(list(trials))})


def note_failed(store: RunStore, contender: Contender, trial: str, reason: str) -> None:
    """Notes that an engine refused a trial's settings, and why. Raises RunError."""
    store.event("failed_trial", details={"of": msgspec.to_builtins(contender), "trial": trial, "reason": reason})


def note_other_work(store: RunStore, block: str, share: float | None) -> None:
    """Notes the share of the processor others took during a block's traffic; None notes nothing. Raises RunError."""
    if share is not None:
        store.event("other_work", block=block, details={"share": share})


def note_death(store: RunStore, block: str, reason: str) -> None:
    """Notes that the engine ended under a block's load. Raises RunError."""
    store.event("engine_died", block=block, details={"reason": reason})


def deaths(events: Sequence[Event], block: str) -> int:
    """How often the engine ended under a block's load."""
    return sum(event.kind == "engine_died" and event.block == block for event in events)


def note_finished(store: RunStore) -> None:
    """Notes that nothing is left to measure of who takes part. Raises RunError."""
    store.event("finished")


def finished(kept: Kept) -> bool:
    """Whether everything was measured of those who took part at the last start, and all of it is still there."""
    kinds = [event.kind for event in kept.events if event.kind in {"contenders", "finished"}]
    whole = whole_blocks(kept.events)
    return kinds[-1:] == ["finished"] and not any(
        missing(kept.records.get(name, {}), kept.expected, whole=True) for name in whole
    )


def machine_of(events: Sequence[Event]) -> Machine | None:
    """The machine as it was at the first start, with the doubts of every start that measured; None before any."""
    starts: list[tuple[Machine, bool]] = []
    for event in events:
        if event.kind == "machine":
            starts.append((event.detail("machine", Machine), False))
        elif event.kind == "block_started" and starts:
            starts[-1] = (starts[-1][0], True)
    if not starts:
        return None
    doubts = {doubt.code: doubt for machine, measured in starts if measured for doubt in machine.caveats}
    return msgspec.structs.replace(starts[0][0], caveats=tuple(doubts.values()))


def contenders_of(events: Sequence[Event]) -> tuple[tuple[Contender, ...], tuple[Skipped, ...]]:
    """Who took part at the last start, and who was skipped."""
    starts = [event for event in events if event.kind == "contenders"]
    if not starts:
        return (), ()
    return (
        tuple(starts[-1].detail("contenders", list[Contender])),
        tuple(starts[-1].detail("skipped", list[Skipped])),
    )


def trials_of(events: Sequence[Event], contender: Contender) -> tuple[Trial, ...]:
    """The trials of an engine in the order they were first named."""
    found: dict[str, Trial] = {}
    for event in _about(events, "trials", contender):
        for trial in event.detail("trials", list[Trial]):
            found.setdefault(trial.name, trial)
    return tuple(found.values())


def failed_of(events: Sequence[Event], contender: Contender) -> dict[str, str]:
    """Trials that the engine refused, and why."""
    told = _about(events, "failed_trial", contender)
    return {event.detail("trial", str): event.detail("reason", str) for event in told}


def kept_of(stored: StoredRun, expected: int) -> Kept:
    """All records and events of a run whose blocks owe `expected` requests each.

    Raises RunError, naming file and line, also for a record of a block or a request that this bake-off does not have.
    """
    records: dict[str, dict[int, Record]] = {}
    for line in stored.record_lines():
        if not _BLOCK.fullmatch(line.block):
            raise unreadable(line.place, f"block '{line.block}', which is no ENGINE VERSION | SETTINGS | REPEAT")
        if not 0 <= line.record.index < expected:
            requests = plural(expected, "request")
            raise unreadable(line.place, f"request {line.record.index} from 0, of a traffic of {requests}")
        records.setdefault(line.block, {})[line.record.index] = line.record
    return Kept(records=records, events=stored.events(), expected=expected)


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """All records and events of a run in one reading; `expected` is how many requests a block owes."""

    records: dict[str, dict[int, Record]]
    events: tuple[Event, ...]
    expected: int

    def blocks_of(self, contender: Contender, trial: str) -> tuple[Block, ...]:
        """Every block of one trial that has a record, in order of repeat. Raises RunError."""
        prefix = block_name(contender, trial, 0)[:-1]
        of_trial = [name.removeprefix(prefix) for name in self.records if name.startswith(prefix)]
        repeats = sorted(int(repeat) for repeat in of_trial if repeat.isdecimal())
        return tuple(self._block(f"{prefix}{repeat}", trial, repeat) for repeat in repeats)

    def _block(self, name: str, trial: str, repeat: int) -> Block:
        records = self.records[name]
        whole = name in whole_blocks(self.events)
        return Block(
            trial=trial,
            repeat=repeat,
            expected=self.expected,
            records=tuple(record for _, record in sorted(records.items()) if _tells(record, whole=whole)),
            resumed=any(event.block == name and event.details.get("resumed") is True for event in self.events),
            caveats=_told(self.events, name),
            other_work=_other_work(self.events, name),
        )


def _about(events: Sequence[Event], kind: str, contender: Contender) -> list[Event]:
    return [event for event in events if event.kind == kind and event.detail("of", Contender) == contender]


def _told(events: Sequence[Event], name: str) -> tuple[Caveat, ...]:
    ends = [event for event in events if event.kind == "block_finished" and event.block == name]
    return tuple(doubt for event in ends for doubt in event.detail("report", ReplayReport).caveats)


def _other_work(events: Sequence[Event], name: str) -> float | None:
    noted = [event for event in events if event.kind == "other_work" and event.block == name]
    return max((event.detail("share", float) for event in noted), default=None)


def _unusable(path: Path, seen: str) -> RunError:
    return RunError(
        "the run's traffic cannot be used",
        where=os.fspath(path),
        seen=seen,
        hint="the same `unmoor bakeoff PLAN` writes it again from the plan's traffic, and keeps what was measured",
    )
