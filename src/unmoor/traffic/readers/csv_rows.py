"""The rows of a CSV log: its header by name, whatever the order of its columns, and then fields.

Fields are parted by commas, semicolons or tabs, whichever the header has most of.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from unmoor.core.evidence import Caveat
from unmoor.traffic.readers.contract import Broken, Unreadable

DELIMITERS = (",", ";", "\t")

_QUOTE = '"'
_QUOTED = re.compile(r'"[^"]*"')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DIGITS = frozenset(bytes([digit]) for digit in b"0123456789")
_SPREADSHEET = re.compile(rb'"?sep=.?"?\s*')  # how Excel is told the delimiter, in a line before the header


def delimiter_of(header: str) -> str:
    """What parts the fields of a header: the delimiter that it has most of outside of quotes, else a comma."""
    bare = _QUOTED.sub("", header)
    return max(DELIMITERS, key=bare.count)


def fields_of(record: bytes, delimiter: str) -> list[str]:
    """The fields of one row, stripped; a quoted one may hold the delimiter. Raises Broken for a quote left open."""
    text = record.decode()
    if _QUOTE not in text:
        return [field.strip() for field in text.split(delimiter)]
    try:
        rows = list(csv.reader([text], strict=True, skipinitialspace=True, delimiter=delimiter))
    except csv.Error:
        raise Broken(
            "a quoted field is not closed", seen=f"{len(text)} characters", expected="one row a line"
        ) from None
    return [field.strip() for field in rows[0]]


class Header:
    """Which column holds what, once the header was read: by the names a format knows, in any case and order.

    `names` gives each column's names. Of several columns that have one of them, that with the first is read.
    """

    def __init__(self, names: Mapping[str, Sequence[str]], *, needed: Sequence[str], expected: str) -> None:
        self._names = {name: tuple(map(_plain, aliases)) for name, aliases in names.items()}
        self._needed = needed
        self._expected = expected
        self.delimiter = DELIMITERS[0]
        """What parts the fields, once the header was read."""
        self._columns: dict[str, int] = {}
        self._row: list[str] = []
        self._twice: dict[str, Caveat] = {}
        self._first = 0  # the place of a column that holds numbers or times, which begin with a digit

    @property
    def notes(self) -> tuple[Caveat, ...]:
        """That several columns are names of one thing, and which of them was read (`columns_passed_over`)."""
        return tuple(self._twice.values())

    def matches(self, columns: Sequence[str]) -> bool:
        """Whether these are the names of columns, with all that are needed among them."""
        return set(self._needed) <= self._places(columns).keys()

    def row(self, record: bytes) -> dict[str, str] | None:
        """The fields by name; None for the header, which may come again: each file of a folder has its own.

        None too for the line by which a spreadsheet is told the delimiter. Raises Unreadable where the first row is no
        header, and Broken for a row of another number of columns.
        """
        if record[:1] not in _DIGITS:
            record = record.removeprefix(_BYTE_ORDER_MARK)  # of files that were put one behind another
            if _SPREADSHEET.fullmatch(record):
                return None
        if not self._columns:
            self._take(record)
            return None
        fields = fields_of(record, self.delimiter)
        if len(fields) != len(self._row) or not fields[self._first][:1].isdecimal():
            if self._is_header(record):  # perhaps with its columns in another order
                self._take(record)
                return None
            if len(fields) != len(self._row):
                raise Broken(
                    "wrong number of columns",
                    seen=f"{len(fields)} columns",
                    expected=f"{len(self._row)}, as in the header",
                )
        return {name: fields[place] for name, place in self._columns.items()}

    def _is_header(self, record: bytes) -> bool:
        try:
            return self.matches(fields_of(record, delimiter_of(record.decode())))
        except Broken:
            return False

    def _take(self, record: bytes) -> None:
        delimiter = delimiter_of(record.decode())
        try:
            fields = fields_of(record, delimiter)
        except Broken:
            fields = []
        if not self.matches(fields):
            seen = f"{len(fields)} columns" if fields else f"{len(record)} bytes"
            raise Unreadable("not the header", seen=seen, expected=self._expected)
        self.delimiter, self._columns, self._row = delimiter, self._places(fields), fields
        self._first = self._columns[self._needed[0]]
        self._twice.update(
            (name, self._passed_over(name, fields)) for name in self._columns if self._several(name, fields)
        )

    def _places(self, columns: Sequence[str]) -> dict[str, int]:
        plain = [_plain(column) for column in columns]
        found = {name: next((a for a in aliases if a in plain), None) for name, aliases in self._names.items()}
        return {name: plain.index(alias) for name, alias in found.items() if alias is not None}

    def _several(self, name: str, columns: Sequence[str]) -> bool:
        return sum(_plain(column) in self._names[name] for column in columns) > 1

    def _passed_over(self, name: str, columns: Sequence[str]) -> Caveat:
        """The columns are quoted: their names are among those that the format knows."""
        read = self._columns[name]
        others = [
            f"'{column}'"
            for place, column in enumerate(columns)
            if place != read and _plain(column) in self._names[name]
        ]
        text = f"Of several columns of '{name}' only '{columns[read]}' was read, not {' or '.join(others)}."
        return Caveat(code="columns_passed_over", text=text)


def _plain(name: str) -> str:
    return name.strip().casefold().replace(" ", "_").replace("-", "_").replace("_", "")
