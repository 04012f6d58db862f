"""The lines of a log, and what is said of one that is broken: its place and its kind, never its content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from unmoor.core.errors import TrafficError

MOST_TOKENS = 10**9
MOST_TIME = 10**15  # milliseconds since 1970 fit many times over
_SHOWN = 80
# What may be echoed as it stands: a number or a time. Anything else could be a prompt.
_HARMLESS = re.compile(r"[-+\d.:/TZ ]*|[-+]?(nan|inf|infinity)|null|true|false|None|True|False", re.IGNORECASE)


@dataclass(frozen=True)
class Lines:
    """The lines of one log, without their ends; `where` names the log. Line numbers count from 1."""

    where: str
    rows: tuple[str, ...]

    def filled(self) -> Iterator[tuple[int, str]]:
        """Each line that is not blank, with its number."""
        return ((number, row) for number, row in enumerate(self.rows, 1) if row.strip())


def split_lines(content: bytes, *, where: str) -> Lines:
    """The lines of `content`, ended by LF or CRLF; a byte-order mark is dropped.

    Raises TrafficError, with the line, for bytes that are not UTF-8.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise TrafficError(
            "not UTF-8",
            where=f"{where}:{number}",
            seen=f"byte 0x{content[error.start]:02x} at offset {error.start}",
            expected="a text file in UTF-8",
            hint="gzip and other archives are to be unpacked first; other encodings: iconv -t UTF-8",
        ) from None
    return Lines(where=where, rows=tuple(row.removesuffix("\r") for row in text.split("\n")))


def broken(lines: Lines, number: int, message: str, *, seen: str, expected: str, hint: str) -> TrafficError:
    """The error for line `number`; what was seen is cut at 80 characters."""
    return TrafficError(
        message,
        where=f"{lines.where}:{number}",
        seen=cut(seen),
        expected=expected,
        hint=hint,
    )


def cut(text: str) -> str:
    """`text` in at most 80 characters."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def shown(value: str) -> str:
    """`value` as an error may show it: numbers and times as they stand, of any other text only its length."""
    if not value.strip():
        return "nothing"
    return cut(value) if _HARMLESS.fullmatch(value.strip()) else f"a text of {len(value)} characters"


def in_range(lines: Lines, number: int, name: str, value: float, *, least: int, most: int, hint: str) -> None:
    """Raises TrafficError when `value` is not a number from `least` to `most`."""
    if not least <= value <= most:  # written so that NaN is out of range too
        raise broken(
            lines,
            number,
            f"'{name}' is out of range",
            seen=f"{name} = {cut(repr(value))}",
            expected=f"{least} to {most:,}",
            hint=hint,
        )
