"""From the bytes of a log to its records: lines, or the objects of a JSON array, streaming; archives are unpacked.

Lines come from a buffered reader, whose readline is as fast as reading gets: splitting chunks is three times slower.
"""

from __future__ import annotations

import hashlib
import io
import re
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator
from typing import BinaryIO, TypeGuard, cast

from unmoor.traffic.readers.archives import CHUNK_BYTES, unpacked
from unmoor.traffic.readers.contract import Broken, LogFile
from unmoor.traffic.readers.json_array import elements
from unmoor.traffic.readers.rows_over_lines import header_in, whole_rows
from unmoor.traffic.readers.signatures import refuse_no_log

LONGEST_RECORD_BYTES = 64 * 1024 * 1024
"""A line or an object beyond it is broken: it is passed over without being held."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ARRAY = re.compile(rb"\s*\[\s*([]{[\"]|$)")  # many a plain line begins with a time or a level in brackets

Source = bytes | BinaryIO | Iterable[LogFile]
Row = tuple[int, bytes | Broken]


class Records:
    """The records of a log with their numbers, which count on from file to file; blank lines are no records.

    A record that is too long or not UTF-8 comes as what is broken about it. A file that begins like a JSON
    array of objects is one, and its objects are counted instead of lines. A row of a CSV whose quoted field holds
    newlines is one record, with the number of its first line.
    """

    def __init__(self, source: Source, *, where: str, longest: int = LONGEST_RECORD_BYTES) -> None:
        self._source = source
        self._where = where
        self._longest = longest
        self._digest = hashlib.sha256()
        self._before = 0  # records or lines in the files before this one
        self._firsts: list[int] = []
        self._names: list[str] = []
        self._arrays: set[int] = set()

    def files(self) -> Iterator[tuple[str, Generator[Row]]]:
        """Each file's name and its records; read one to its end before the next."""
        for file in _files(self._source, self._where):
            self._firsts.append(self._before)
            self._names.append(file.name)
            yield file.name, self._rows(file)

    @property
    def several(self) -> bool:
        """Whether the log is a folder's files, of which some may be something else."""
        return _are_files(self._source)

    @property
    def count(self) -> int:
        """How many records, or lines, were read so far, blank ones too."""
        return self._before

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of what was read: of the files' contents in their order, unpacked."""
        return self._digest.hexdigest()

    def place(self, number: int) -> str:
        """Where record `number` is, as FILE:LINE."""
        file = bisect_right(self._firsts, number - 1) - 1
        return f"{self._names[file]}:{number - self._firsts[file]}"

    def spot(self, number: int) -> str:
        """The same in words, for a list: "line 17"; of several files "FILE line 17", of an array "object 17"."""
        file = bisect_right(self._firsts, number - 1) - 1
        spot = f"{'object' if file in self._arrays else 'line'} {number - self._firsts[file]}"
        return f"{self._names[file]} {spot}" if self.several else spot

    def _rows(self, file: LogFile) -> Generator[Row]:
        reader = io.BufferedReader(_Chunks(self._hashed(file)), CHUNK_BYTES)
        head = reader.peek(CHUNK_BYTES)
        refuse_no_log(file.name, head)
        if head.startswith(_BYTE_ORDER_MARK):
            reader.read(len(_BYTE_ORDER_MARK))
        if _ARRAY.match(head.removeprefix(_BYTE_ORDER_MARK)):
            self._arrays.add(len(self._names) - 1)
            yield from self._objects(reader)
        elif header := header_in(head.removeprefix(_BYTE_ORDER_MARK)):
            yield from whole_rows(self._lines(reader), header)
        else:
            yield from self._lines(reader)

    def _hashed(self, file: LogFile) -> Iterator[bytes]:
        for chunk in unpacked(file):
            self._digest.update(chunk)
            yield chunk

    def _lines(self, reader: io.BufferedReader[_Chunks]) -> Iterator[Row]:
        number, readline, most = self._before, reader.readline, self._longest + 2  # with its end
        try:
            while line := readline(most):
                number += 1
                if len(line) > self._longest and len(line.rstrip(b"\r\n")) > self._longest:
                    yield number, _too_long(_rest_of_line(line, reader), "line", self._longest)
                elif line.isascii():
                    if not line.isspace():
                        yield number, line
                elif found := _checked(line):
                    yield number, found
        finally:
            self._before = number

    def _objects(self, reader: io.BufferedReader[_Chunks]) -> Iterator[Row]:
        chunks = iter(lambda: reader.read1(CHUNK_BYTES), b"")
        for found in elements(chunks, longest=self._longest):
            self._before += 1
            if isinstance(found, int):
                yield self._before, _too_long(found, "object", self._longest)
            elif isinstance(found, Broken) or found.isascii():
                yield self._before, found
            else:
                yield self._before, _checked(found) or b""


def _files(source: Source, where: str) -> Iterable[LogFile]:
    if isinstance(source, bytes):
        return (LogFile(name=where, stream=io.BytesIO(source)),)
    return source if _are_files(source) else (LogFile(name=where, stream=cast("BinaryIO", source)),)


def _are_files(source: Source) -> TypeGuard[Iterable[LogFile]]:
    return not isinstance(source, bytes) and not hasattr(source, "read")


class _Chunks(io.RawIOBase):
    """An iterator of chunks as a raw stream, for a buffered reader to stand on."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # typeshed's Buffer has no length
        filled = 0
        while filled < len(buffer):
            if not self._left:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                self._left = memoryview(chunk)
            count = min(len(buffer) - filled, len(self._left))
            buffer[filled : filled + count] = self._left[:count]
            self._left = self._left[count:]
            filled += count
        return filled


def _rest_of_line(line: bytes, reader: io.BufferedReader[_Chunks]) -> int:
    """How long a line is whose beginning was read; its rest is read and forgotten."""
    size = len(line)
    while not line.endswith(b"\n") and (line := reader.readline(CHUNK_BYTES)):
        size += len(line)
    return size


def _checked(record: bytes) -> bytes | Broken | None:
    """The record where it is UTF-8; None where it is blank."""
    try:
        text = record.decode()
    except UnicodeDecodeError as error:
        seen = f"byte 0x{record[error.start]:02x} at byte {error.start} of {len(record)}"
        return Broken("not UTF-8", seen=seen, expected="text in UTF-8")
    return None if text.isspace() else record


def _too_long(size: int, what: str, longest: int) -> Broken:
    return Broken(f"a {what} too long", seen=f"{size:,} bytes", expected=f"at most {longest:,} bytes")
