"""The run directory, which loses nothing: records are appended as they end and outlive the process that wrote them.

    run.json       what is measured: plan, traffic, machine, version; written once, atomically
    records.jsonl  {"block": ..., "record": {...}}, a line each as a request ends
    events.jsonl   blocks started and finished, with engine commands, reports and caveats
    run.lock       held by the one process that appends

A line is whole when its newline is there. What a kill left without one is ignored in reading and cut off before the
next append; anything else that cannot be read is an error that names its line, and nothing is thrown away.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from unmoor.core.errors import PlanError, RunError, UsageError
from unmoor.core.folder_name import folder_name
from unmoor.core.plan import Plan
from unmoor.core.plan_text import read_plan
from unmoor.core.record import Record
from unmoor.measure.client.load import ReplayReport

_IDENTITY, _RECORDS, _EVENTS, _LOCK = "run.json", "records.jsonl", "events.jsonl", "run.lock"
_LOGS = "engine-logs"
_STARTED, _FINISHED = "block_started", "block_finished"
_OWNER_ONLY = 0o600
_BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

Line = TypeVar("Line", bound=msgspec.Struct)
Detail = TypeVar("Detail")


class RunIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What a run measures. Runs that differ in plan, traffic or machine are never mixed in one directory.

    `host` describes the machine and must be the same on every start (processor, cores, memory; no free memory, no
    date). `started_on` is an ISO date; it and `unmoor_version` are kept from the first start.
    """

    plan_name: str
    plan_text: str
    traffic_fingerprint: str
    host: str
    unmoor_version: str
    started_on: str

    @property
    def key(self) -> str:
        """Twelve hex digits over the plan as parsed, the traffic and the machine: a comment changes nothing.

        Raises PlanError for a plan text that cannot be parsed.
        """
        plan = read_plan(self.plan_text, where=self.plan_name)
        parts = msgspec.json.encode((plan, self.traffic_fingerprint, self.host), order="deterministic")
        return hashlib.sha256(parts).hexdigest()[:12]

    @property
    def folder(self) -> str:
        """The name of its run directory: the plan's name, made safe for a file system, and the key."""
        return f"{folder_name(self.plan_name)}-{self.key}"


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened in a run. `at` is an ISO time in UTC, for people; `details` is free, without text.

    `place` is the file and line it was read from, and is not written.
    """

    kind: str
    at: str
    block: str | None = None
    details: dict[str, object] = {}
    place: str = ""

    def detail(self, key: str, kind: type[Detail]) -> Detail:
        """One detail as what it must be. Raises RunError, naming file and line, where it is missing or another."""
        try:
            return msgspec.convert(self.details[key], kind)
        except KeyError:
            raise unreadable(self.place, f"'{self.kind}' without its '{key}'") from None
        except msgspec.ValidationError as error:
            raise unreadable(self.place, f"'{key}' of '{self.kind}': {error}") from error


class _RecordLine(msgspec.Struct, frozen=True):
    block: str
    record: Record


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One stored record, its block, and the file and line it was read from."""

    block: str
    record: Record
    place: str


class StoredRun:
    """A run directory as it is read, by whoever and as often as wanted, also while it is being written.

    Raises UsageError for a path without a run, RunError for one whose identity cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.identity = _read_identity(path / _IDENTITY)

    def records(self, block: str) -> dict[int, Record]:
        """The records of one block by request index, the latest of each; empty when there is none.

        Raises RunError, naming file and line, for a line that cannot be read.
        """
        return {line.record.index: line.record for line in self.record_lines() if line.block == block}

    def record_lines(self) -> Iterator[StoredRecord]:
        """Every record in the order of the file. Raises RunError, naming file and line, for what cannot be read."""
        for place, line in _lines(self.path / _RECORDS, _RecordLine):
            yield StoredRecord(block=line.block, record=line.record, place=place)

    def plan(self) -> Plan:
        """The plan it was measured for. Raises RunError, naming run.json, for one that cannot be read any more."""
        try:
            return read_plan(self.identity.plan_text, where=_IDENTITY)
        except PlanError as error:
            where, seen = str(self.path / _IDENTITY), " ".join(str(error).split())
            raise _broken_identity(where, f"its plan: {seen}") from error

    def blocks(self) -> dict[str, dict[int, Record]]:
        """The records of every block in one reading, in the order in which blocks first appear. Raises RunError."""
        found: dict[str, dict[int, Record]] = {}
        for line in self.record_lines():
            found.setdefault(line.block, {})[line.record.index] = line.record
        return found

    def events(self) -> tuple[Event, ...]:
        """Everything that happened, in order. Raises RunError."""
        return tuple(msgspec.structs.replace(event, place=place) for place, event in _lines(self.path / _EVENTS, Event))

    def finished(self, block: str) -> bool:
        """Whether a block was measured to its end. Raises RunError."""
        return self.report(block) is not None

    def report(self, block: str) -> ReplayReport | None:
        """The replay report of a finished block, None for one that is not finished. Raises RunError."""
        ends = [event for event in self.events() if event.kind == _FINISHED and event.block == block]
        return ends[-1].detail("report", ReplayReport) if ends else None


class RunStore(StoredRun):
    """A run directory that is being written, by one process at a time. Use it as a context manager."""

    def __init__(self, path: Path, lock: int) -> None:
        super().__init__(path)
        self._lock = lock
        self._records = _Appender(path / _RECORDS)
        self._events = _Appender(path / _EVENTS)

    @classmethod
    def create_or_open(cls, root: Path, *, identity: RunIdentity) -> Self:
        """The run of this identity under `root`: the one that is there, or a new one.

        Raises RunError when another process is writing it, or when the disk refuses; PlanError for a broken plan.
        """
        path = root / identity.folder
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = _take_lock(path / _LOCK)
        except OSError as error:
            raise _refused(path, error) from error
        try:
            if not (path / _IDENTITY).exists():
                _write_whole(path / _IDENTITY, msgspec.json.encode(identity))
            return cls(path, lock)
        except BaseException:
            os.close(lock)
            raise

    def log_path(self, name: str) -> Path:
        """Where an engine's log goes, absolute; its folder is there. Raises RunError where it cannot be written."""
        path = (self.path / _LOGS / name).absolute()
        try:
            path.parent.mkdir(exist_ok=True)
            path.touch()
        except OSError as error:
            raise _refused(path, error) from error
        return path

    def append(self, block: str, record: Record) -> None:
        """Hands one record to the kernel: from here it outlives this process. Raises RunError."""
        self._records.append(_RecordLine(block, record))

    def event(self, kind: str, *, block: str | None = None, details: Mapping[str, object] | None = None) -> None:
        """Notes that something happened. Raises RunError."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._events.append(Event(kind=kind, at=at, block=block, details=dict(details or {})))

    def block_started(self, block: str, details: Mapping[str, object]) -> None:
        """Notes the start of a block and what is to be known of it: engine, version, command. Raises RunError."""
        self.event(_STARTED, block=block, details=details)

    def block_finished(self, block: str, report: ReplayReport, details: Mapping[str, object] | None = None) -> None:
        """Notes that a block is measured to its end, and puts it on the disk itself. Raises RunError."""
        self._records.sync()
        self.event(_FINISHED, block=block, details={**(details or {}), "report": msgspec.to_builtins(report)})
        self._events.sync()

    def close(self) -> None:
        """Ends the writing; another process may go on."""
        self._records.close()
        self._events.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Appender:
    """Whole lines at the end of one file. One write each, so that a reader or a kill sees a line or none of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _OWNER_ONLY)
            self._size = _whole_size(path)
            os.ftruncate(self._file, self._size)
        except OSError as error:
            raise _refused(path, error) from error

    def append(self, line: msgspec.Struct) -> None:
        content = msgspec.json.encode(line) + b"\n"
        try:
            written = os.write(self._file, content)
            if written != len(content):
                os.ftruncate(self._file, self._size)
                raise RunError(
                    "the disk took only part of a line",
                    where=str(self._path),
                    seen=f"{written} of {len(content)} bytes",
                    hint="make room on the disk; what was measured before is kept, and the same command resumes",
                )
        except OSError as error:
            raise _refused(self._path, error) from error
        self._size += written

    def sync(self) -> None:
        try:
            os.fsync(self._file)
        except OSError as error:
            raise _refused(self._path, error) from error

    def close(self) -> None:
        os.close(self._file)


def _whole_size(path: Path) -> int:
    """The size up to and with the last newline, in bytes: what a torn line leaves behind is not counted."""
    size = path.stat().st_size
    with path.open("rb") as file:
        step = 1 << 16
        for start in range((size - 1) // step * step if size else -1, -1, -step):
            file.seek(start)
            at = file.read(step).rfind(b"\n")
            if at >= 0:
                return start + at + 1
    return 0


def _lines(path: Path, kind: type[Line]) -> Iterator[tuple[str, Line]]:
    """Every whole line with its place, FILE:LINE."""
    decoder = msgspec.json.Decoder(kind)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield f"{path}:{number}", decoder.decode(line)
                except _BROKEN as error:
                    raise unreadable(f"{path}:{number}", str(error)) from error
    except FileNotFoundError:
        return
    except OSError as error:
        raise _refused(path, error) from error


def _read_identity(path: Path) -> RunIdentity:
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunIdentity)
    except (FileNotFoundError, NotADirectoryError) as error:
        folder = path.parent
        raise UsageError(
            "no run is here",
            where=str(folder),
            seen=_seen_at(folder),
            expected=f"a folder with {_IDENTITY} in it",
            hint="name the run directory that `unmoor bakeoff` printed last (run: ...)",
        ) from error
    except OSError as error:
        raise _refused(path, error) from error
    except _BROKEN as error:
        raise _broken_identity(f"{path}:1", str(error)) from error


def _seen_at(folder: Path) -> str:
    if folder.is_dir():
        return f"a folder without {_IDENTITY}"
    return "a file" if folder.exists() else "nothing at this path"


def _write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that it is there whole or not at all."""
    beside = path.with_suffix(".part")
    try:
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        raise _refused(path, error) from error


def _take_lock(path: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, _OWNER_ONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise RunError(
            "another process is writing this run",
            where=str(path.parent),
            hint="wait for it to end, or stop it; the same command then resumes what is missing",
        ) from error
    return lock


def _refused(path: Path, error: OSError) -> RunError:
    return RunError(
        "the run directory cannot be used",
        where=str(path),
        seen=error.strerror or str(error),
        hint="check room and rights there; what was measured is kept, and the same command resumes",
    )


def _broken_identity(where: str, seen: str) -> RunError:
    return RunError(
        "what this run measures cannot be read",
        where=where,
        seen=seen,
        expected=f"{_IDENTITY} as `unmoor bakeoff` wrote it",
        hint="restore it from a copy; or move it away and give the same `unmoor bakeoff PLAN` again, which writes "
        "it anew and keeps what was measured",
    )


def unreadable(where: str, seen: str) -> RunError:
    """The error for a line of a run's directory, at FILE:LINE, that cannot be read or that nothing of ours wrote."""
    return RunError(
        "a stored line cannot be read",
        where=where,
        seen=seen,
        hint="restore the file from a copy, or delete this line: the same command measures again what it told",
    )
