"""Records of a load, kept in memory and, where a file is named, appended to it as requests end."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from unmoor.cli.out_file import PRIVATE, not_overwritten, write_out
from unmoor.core.errors import RunError, UnmoorError, UsageError
from unmoor.core.evidence import Caveat
from unmoor.core.record import Record

_OPTION, _PARQUET = "--records", "--parquet"


class RecordFile:
    """A JSON line a record. A file that cannot take one more ends the load, and what was measured stays.

    `records` are all of them, in the order in which they ended. The file is made by `begin`, so that a load that never
    began leaves none. Raises UsageError for a place that holds something.
    """

    def __init__(self, path: Path | None) -> None:
        self.records: list[Record] = []
        self._path, self._file, self._fault = path, -1, ""
        if path is not None and path.exists():
            raise self._taken(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def begin(self) -> None:
        """Makes the file. Raises UsageError where that cannot be, or where somebody else made it in the meantime."""
        if self._path is None:
            return
        try:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, PRIVATE)
        except FileExistsError:
            raise self._taken(self._path) from None

    def append(self, record: Record) -> None:
        """Keeps one record: a line is written in one piece, so that a kill leaves whole lines."""
        self.records.append(record)
        if self._file < 0 or self._fault:
            return
        line = msgspec.json.encode(record) + b"\n"
        try:
            written = os.write(self._file, line)
            if written < len(line):
                self._fault = "no room for a whole line"
                os.ftruncate(self._file, os.fstat(self._file).st_size - written)
        except OSError as failure:
            self._fault = failure.strerror or type(failure).__name__

    def failed(self) -> bool:
        """Whether the file could not take a record: then the load is to stop."""
        return bool(self._fault)

    def caveats(self) -> tuple[Caveat, ...]:
        """That the file lacks records, where it does."""
        if not self._fault:
            return ()
        text = (
            f"{self._path} could not take every record ({self._fault}): the load was stopped, its last lines are lost."
        )
        return (Caveat(code="records_lost", text=text),)

    def raise_if_lost(self) -> None:
        """Raises RunError where the file lacks records: for after the report, which has them."""
        if self._fault:
            raise RunError(
                "not every record could be kept",
                where=f"{_OPTION} {self._path}",
                seen=self._fault,
                expected="room for a line a request",
                hint="the load was stopped there; what it measured is above, and the file's lines are whole",
            )

    @staticmethod
    def _taken(path: Path) -> UsageError:
        hint = f"name another with {_OPTION}, or remove this one"
        return not_overwritten(path, where=f"{_OPTION} {path}", hint=hint)


def check_parquet(path: Path | None) -> None:
    """Refuses, before a load, a Parquet file that could not be written after it.

    Raises UsageError for a place that holds something, and where the `parquet` extra is not installed.
    """
    if path is None:
        return
    from unmoor.measure.figures.record_table import check_installed

    check_installed()
    if path.exists():
        hint = f"name another with {_PARQUET}, or remove this one"
        raise not_overwritten(path, where=f"{_PARQUET} {path}", hint=hint)


def write_parquet(path: Path | None, records: list[Record]) -> UnmoorError | None:
    """Writes the records as a Parquet file, readable by its owner, where one was asked for.

    What kept it from being written is given back, not raised: the report is still to be shown.
    """
    if path is None:
        return None
    from unmoor.measure.figures.record_table import parquet_of

    try:
        write_out(path, [parquet_of(records)], force=False, mode=PRIVATE, hint=f"name another with {_PARQUET}")
    except UnmoorError as unwritten:
        return unwritten
    return None
