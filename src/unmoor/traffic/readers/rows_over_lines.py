"""Rows of a CSV whose quoted fields hold newlines: lines put together again, each row with the number of its first."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator

from unmoor.traffic.readers import azure, burstgpt, lengths_csv
from unmoor.traffic.readers.contract import Broken, FirstLine
from unmoor.traffic.readers.csv_rows import delimiter_of, fields_of

MOST_BYTES = 1024 * 1024
"""A row that does not end within so much is none over lines: a stray quote costs its own line alone."""

_LOOKED_AT = 20
_LONGEST_HEADER = 4000
_TABLES = (azure.FORMAT, burstgpt.FORMAT, lengths_csv.FORMAT)

Row = tuple[int, bytes | Broken]


def header_in(head: bytes) -> bytes | None:
    """The header of a CSV that is read, where one of the first lines in `head` is one; else None."""
    return next((line for line in head.split(b"\n", _LOOKED_AT)[:_LOOKED_AT] if _is_header(line)), None)


def _is_header(line: bytes) -> bool:
    if len(line) > _LONGEST_HEADER or line.lstrip()[:1] in (b"", b"{", b"["):
        return False
    try:
        columns = fields_of(line, delimiter_of(line.decode()))
    except (Broken, UnicodeDecodeError):
        return False
    return any(table.looks_like(FirstLine(columns=tuple(columns))) for table in _TABLES)


def whole_rows(lines: Iterator[Row], header: bytes) -> Iterator[Row]:
    """The lines, those of one row as one record with the number of the first.

    Lines are one row where a quoted field that the first leaves open is closed on the last, and the row then has as
    many fields as the header. Every other line stands alone, so that a stray quote takes no row with it.
    """
    delimiter = delimiter_of(header.decode())
    width = len(fields_of(header, delimiter))
    ahead: deque[Row] = deque()
    while (row := _next(ahead, lines)) is not None:
        number, first = row
        if isinstance(first, Broken) or first.count(b'"') % 2 == 0:
            yield row
            continue
        held = [first]
        taken: list[Row] = []
        yield number, _completed(held, taken, ahead, lines, delimiter=delimiter, width=width) or first
        ahead.extendleft(reversed(taken))


def _completed(
    held: list[bytes], taken: list[Row], ahead: deque[Row], lines: Iterator[Row], *, delimiter: str, width: int
) -> bytes | None:
    """The row that begins with `held`, and nothing left in `taken`; None, and what was read for it in `taken`."""
    if _fields(held, delimiter) is not None:
        return None  # no quote is open: an odd one within a field
    size, looks = len(held[0]), 0
    while size <= MOST_BYTES and looks < width and (row := _next(ahead, lines)) is not None:
        taken.append(row)
        if isinstance(row[1], Broken):
            return None
        held.append(row[1])
        size += len(row[1])
        if b'"' not in row[1].replace(b'""', b""):  # a doubled quote is one of the text
            continue
        looks += 1  # each closes a field
        fields = _fields(held, delimiter)
        if fields is not None:
            if fields != width:
                return None
            taken.clear()
            return b"".join(held)
    return None


def _fields(held: list[bytes], delimiter: str) -> int | None:
    """How many fields the row has, 0 for one that cannot be; None while a quote is open."""
    text = b"".join(held).decode()
    try:
        return len(next(csv.reader([text], strict=True, skipinitialspace=True, delimiter=delimiter)))
    except csv.Error as error:
        return None if "unexpected end" in str(error) else 0


def _next(ahead: deque[Row], lines: Iterator[Row]) -> Row | None:
    return ahead.popleft() if ahead else next(lines, None)
