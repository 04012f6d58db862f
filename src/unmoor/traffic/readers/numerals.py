"""Numbers as spreadsheets write them: thousands separators, and a point or a comma before the decimals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from unmoor.traffic.readers.contract import Broken
from unmoor.traffic.readers.lines import shown

Mark = Literal[".", ","]

_NAMES: dict[Mark, str] = {".": "point", ",": "comma"}
_OTHER: dict[Mark, Mark] = {".": ",", ",": "."}
# Marks that only ever group; spaces may be the no-break ones that typesetting has.
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:([ \u00a0\u2009\u202f'\u2019_])\d{3})(?:\1\d{3})*(?:[.,]\d*)?")
_SEPARATORS = re.compile(r"[ \u00a0\u2009\u202f'\u2019_]")
_POINTED = re.compile(r"\d+(?:\.\d*)?")
_MARKED = re.compile(r"(?=.*\d)[-+]?\d*(?:[.,]\d*)+")
_ONE_GROUP = re.compile(r"[-+]?[1-9]\d{0,2}[.,]\d{3}")
_GROUPS = re.compile(r"[-+]?[1-9]\d{0,2}(?:([.,])\d{3})(?:\1\d{3})*(?:(?!\1)[.,]\d*)?")


class Numerals:
    """How one log writes its numbers: the first that can be read in one way only decides what its marks mean.

    "1,5" and "0.250" can, and so can "1,234,567" and "1.234,5"; "1,234" cannot, and is broken until one of those was
    seen. Of two defaults only: a point with three digits behind it stands before decimals where a fraction may be, and
    a comma in a whole number of a file parted by commas groups it.
    """

    def __init__(self) -> None:
        self.mark: Mark | None = None
        """What stands before decimals in this log; None until a number showed it."""

    def learn(self, texts: Iterable[str]) -> None:
        """Looks for a number that can be read in one way only, so that those beside it can be read too."""
        found = (_mark_of(_SEPARATORS.sub("", text) if _GROUPED.fullmatch(text) else text) for text in texts)
        self.mark = next((mark for mark in found if mark), None)

    def plain(self, name: str, text: str, *, whole: bool = False, parted_by: str = "") -> str:
        """The number without separators and with a point before its decimals; what is no such number as it is.

        `whole`: it must be a whole number, in a file whose fields are `parted_by` that. Raises Broken for one that can
        be read in two ways, and for one that contradicts those before it.
        """
        if text.isdecimal() or (self.mark == "." and _POINTED.fullmatch(text)):
            return text
        if _GROUPED.fullmatch(text):
            text = _SEPARATORS.sub("", text)
        if not _MARKED.fullmatch(text):
            return text
        mark = _mark_of(text)
        if mark is None and not _ONE_GROUP.fullmatch(text):
            return text
        mark = mark or self.mark or _assumed(name, text, whole=whole, parted_by=parted_by)
        self._settle(name, text, mark)
        return text.replace(_OTHER[mark], "").replace(",", ".")

    def _settle(self, name: str, text: str, mark: Mark) -> None:
        if self.mark not in (None, mark):
            expected = f"a {_NAMES[_OTHER[mark]]} before decimals, as in the lines above"
            raise Broken(f"'{name}' is written unlike the numbers before it", seen=shown(text), expected=expected)
        self.mark = mark


def _mark_of(text: str) -> Mark | None:
    """What stands before decimals in this number, or would; None where both marks may."""
    if not _MARKED.fullmatch(text) or _ONE_GROUP.fullmatch(text):
        return None
    marks: list[Mark] = ["." if character == "." else "," for character in text if character in ".,"]
    if len(marks) == 1:
        return marks[0]
    if not _GROUPS.fullmatch(text):
        return None
    return _OTHER[marks[0]]


def _assumed(name: str, text: str, *, whole: bool, parted_by: str) -> Mark:
    if "." in text and (not whole or parted_by == ","):
        return "."
    if "," in text and whole and parted_by == ",":
        return "."
    grouped = re.sub("[.,]", "", text)
    fraction = text.replace(",", ".")
    raise Broken(
        f"'{name}' can be read in two ways",
        seen=f"{shown(text)}: {grouped}, or {fraction}",
        expected="numbers without thousands separators, or one before it that shows which mark is which",
    )
