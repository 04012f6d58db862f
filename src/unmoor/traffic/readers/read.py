"""A log from its bytes to columns: records, their format, requests, and what was broken on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from unmoor.core.errors import TrafficError
from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Entry
from unmoor.traffic.log import Traffic
from unmoor.traffic.readers.collect import Collector, Told
from unmoor.traffic.readers.contract import Broken, Carrier, Cutter, RecordFormat, RecordReader, Watch
from unmoor.traffic.readers.formats import named, no_known_format, recognised
from unmoor.traffic.readers.records import Records, Row, Source
from unmoor.traffic.readers.signatures import NotALogError
from unmoor.traffic.readers.skipped import HINT, Skipped
from unmoor.traffic.scratch import MEMORY, Scratch
from unmoor.traffic.tree import SymbolStore

_LOOKED_AT = 20
"""So many records of a file are looked at for its format: a log may begin in the middle of a line, or with banners."""

_ODD = (ArithmeticError, TypeError, ValueError, LookupError, AttributeError, RecursionError)
_NAMED = 5
_PASSED_OVER = frozenset(("other_calls", "failed_left_out"))
"""Caveats that say of records in the right format why they are no requests to profile."""

_HELD_BYTES = 16 * 1024 * 1024
"""So much of the files before the one that tells the format is kept, to be read once it is known."""


def read_traffic(
    source: Source,
    *,
    where: str,
    format_name: str | None = None,
    cutter: Cutter | None = None,
    most_broken: int | None = None,
    watch: Watch | None = None,
    store: SymbolStore | None = None,
    scratch: Scratch = MEMORY,
) -> Traffic:
    """The requests of a log, in order of arrival, from its bytes, an open binary stream, or the files of a folder.

    gzip and zstd are unpacked, whatever the name. `where` names the log, in errors and as the source. The format is
    told by the first record unless `format_name` says it. `cutter` is what content as text is told apart by: bytes
    unless given. Broken lines are counted and skipped, up to `most_broken`: by default 10, or 1 % of the lines where
    that is more. `watch(line, entry)` sees every request in the order of the log. `store` is where the tree keeps its
    symbols, and `scratch` where columns are kept: in memory unless given. A file of several that is clearly no log, or
    none of whose first records can be read, is named in a caveat and passed over.

    Raises TrafficError, with the line, for a log without a request, an unknown format, files of two formats, a broken
    header, more broken lines than that, and an archive that ends early.
    """
    records = Records(source, where=where)
    skipped = Skipped(most_broken, records)
    reading = _Reading(records, skipped, named(format_name, where=where) if format_name else None)
    collector = Collector(cutter, store, scratch)
    for number, entry in reading.entries():
        if not len(collector):
            collector.expect(timed=reading.timed)
        try:
            taken = collector.add(number, entry)
        except Broken as broken:
            skipped.add(number, broken)
            continue
        skipped.taken(number)
        if watch is not None:
            watch(number, taken)
    skipped.check()
    if not len(collector):
        raise reading.empty(where)
    return reading.completed(collector.traffic(reading.told(where)))


class _Reading:
    """One format's reader over all the files of a log, once the first of them has told the format."""

    def __init__(self, records: Records, skipped: Skipped, record_format: RecordFormat | None) -> None:
        self._records = records
        self._skipped = skipped
        self._format = record_format
        self._format_given = record_format is not None
        self._first_file = ""  # that told the format
        self.timed: bool | None = None
        """Whether most of the requests among the first records have a time; None where there is none among them."""
        self._no_logs: list[NotALogError] = []
        self._strange: list[tuple[str, int, bytes | Broken]] = []
        self._held: list[tuple[str, list[Row]]] = []  # files before the one that tells the format
        self._held_bytes = 0
        self._reader: RecordReader | None = None

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """Each request with the number of its record. Raises TrafficError."""
        for name, rows in self._records.files():
            try:
                head = list(islice(rows, _LOOKED_AT))
            except NotALogError as error:
                if not self._records.several:
                    raise
                self._no_logs.append(error)
                continue
            outcomes = self._outcomes(name, head)
            if outcomes is not None:
                yield from self._taken(outcomes)
                yield from self._read(rows)
                yield from self._from_held()
            elif self._format is not None or not self._hold(name, head, rows):
                self._strange.append((name, *head[0]))
            rows.close()
        if self._reader is None and (self._strange or self._held or self._no_logs):
            raise self._nothing_known()

    def _hold(self, name: str, head: Sequence[Row], rows: Iterator[Row]) -> bool:
        """Keeps a file that says no format, since a later one may; False for one that is too large, or damaged."""
        if not self._records.several:
            return False
        held: list[Row] = []
        size = self._held_bytes
        try:
            for number, record in chain(head, rows):
                held.append((number, record))
                size += len(record) if isinstance(record, bytes) else 0
                if size > _HELD_BYTES:
                    return False
        except TrafficError:
            return False
        self._held.append((name, held))
        self._held_bytes = size
        return True

    def _from_held(self) -> Iterator[tuple[int, Entry]]:
        """The requests in files before the one that told the format, as if they came after it."""
        held, self._held = self._held, []
        for name, rows in held:
            outcomes = self._outcomes(name, rows[:_LOOKED_AT])
            if outcomes is None:
                self._strange.append((name, *rows[0]))
                continue
            yield from self._taken(outcomes)
            yield from self._read(iter(rows[_LOOKED_AT:]))

    def told(self, where: str) -> Told:
        """What is known of the log besides its requests."""
        if self._format is None or self._reader is None:
            raise ValueError("nothing was read yet")
        notes = (*self._passed_over, *self._skipped.notes, *self._reader.notes)
        return Told(
            source=where,
            format=self._format.name,
            fingerprint=self._records.fingerprint,
            grain=self._reader.grain,
            notes=notes,
            skipped_lines=self._skipped.count,
            skipped=self._skipped.shown,
        )

    def _outcomes(self, name: str, head: Sequence[Row]) -> list[tuple[int, list[Entry] | Broken]] | None:
        """What the first records come to; None for a file that is not of the log's format.

        The first file that is of any decides the format. Raises TrafficError for a file that is of another.
        """
        if not head:
            return []
        own = recognised([record for _, record in head])
        if self._format is None:
            self._format, self._first_file = own, name
        if self._format is None:
            return None
        if self._reader is None:
            self._reader = self._format.start()
        outcomes = [(number, _outcome(self._reader, record)) for number, record in head]
        if self.timed is None:
            self.timed = _mostly_timed(outcomes)
        if not self._records.several or any(isinstance(outcome, list) and outcome for _, outcome in outcomes):
            return outcomes
        if own is not None and own is not self._format:
            if self._format_given:
                return None
            raise self._two_formats(name, self._format, own)
        return None if all(isinstance(outcome, Broken) for _, outcome in outcomes) else outcomes

    def _taken(self, outcomes: Sequence[tuple[int, list[Entry] | Broken]]) -> Iterator[tuple[int, Entry]]:
        for number, outcome in outcomes:
            if isinstance(outcome, Broken):
                self._skipped.add(number, outcome)
            else:
                yield from ((number, entry) for entry in outcome)

    def _read(self, rows: Iterator[Row]) -> Iterator[tuple[int, Entry]]:
        if self._reader is None:
            return
        read = self._reader.read
        for number, record in rows:
            try:
                if not isinstance(record, bytes):
                    raise record
                for entry in read(record):
                    yield number, entry
            except Broken as broken:
                self._skipped.add(number, broken)
            except _ODD as error:
                self._skipped.add(number, _odd(error))

    def completed(self, traffic: Traffic) -> Traffic:
        """With what the log itself says beyond its requests, where its format carries that. Raises TrafficError."""
        if not isinstance(self._reader, Carrier):
            return traffic
        try:
            carried = self._reader.carried()
        except Broken as broken:
            raise self._skipped.error_of(int(traffic.line.max()), broken) from None
        skipped_lines = traffic.skipped_lines + carried.skipped_lines
        return replace(
            traffic,
            features=carried.features,
            breakers=carried.breakers,
            skipped_lines=skipped_lines,
            whole_blocks=carried.whole_blocks,
        )

    @property
    def _passed_over(self) -> tuple[Caveat, ...]:
        names = [f"{error.where} ({error.seen})" for error in self._no_logs] + [name for name, _, _ in self._strange]
        if not names:
            return ()
        listed = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        text = f"Files that are not of the log's format were passed over: {listed}."
        return (Caveat(code="files_passed_over", text=text),)

    def _two_formats(self, name: str, first: RecordFormat, own: RecordFormat) -> TrafficError:
        return TrafficError(
            "files of two formats in one folder",
            where=name,
            seen=own.name,
            expected=f"{first.name}, as {self._first_file} is",
            hint=f"put them into folders of their own; `--format {first.name}` reads those of that format only",
        )

    def empty(self, where: str) -> TrafficError:
        """The error for a log without a request, which says what was there instead."""
        expected, hint = "at least one request", HINT
        others = [note.text for note in self._reader.notes if note.code in _PASSED_OVER] if self._reader else []
        if others:
            seen, hint = " ".join(others).rstrip("."), "bring a log of a time in which requests were answered"
        elif self._format is None or self._reader is None:
            seen = "an empty file"
        elif self._records.count <= 1:
            seen = "a header without a request after it"
        else:
            seen, expected = f"{self._records.count:,} lines without a request", f"{expected}; {self._format.expected}"
        return TrafficError("no request in it", where=where, seen=seen, expected=expected, hint=hint)

    def _nothing_known(self) -> TrafficError:
        strange = [*self._strange, *((name, *rows[0]) for name, rows in self._held)]
        if not strange:
            return self._no_logs[0]
        _, number, record = min(strange, key=lambda file: file[1])
        if isinstance(record, Broken):
            return self._skipped.error_of(number, record)
        return no_known_format(record, where=self._records.place(number))


def _outcome(reader: RecordReader, record: bytes | Broken) -> list[Entry] | Broken:
    if isinstance(record, Broken):
        return record
    try:
        return list(reader.read(record))
    except Broken as broken:
        return broken
    except _ODD as error:
        return _odd(error)


def _mostly_timed(outcomes: Sequence[tuple[int, list[Entry] | Broken]]) -> bool | None:
    times = [entry.at_s is not None for _, outcome in outcomes if isinstance(outcome, list) for entry in outcome]
    return 2 * sum(times) >= len(times) if times else None


def _odd(error: Exception) -> Broken:
    """A record of which nobody thought costs itself, not the log."""
    return Broken("a value that cannot be", seen=type(error).__name__, expected="a request as the format has it")
