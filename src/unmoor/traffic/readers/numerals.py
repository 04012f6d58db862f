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
    """How one log writes its numbers: only those that can be read in one way decide what its marks mean.

    "1,5" and "0.250" can, and so can "1,234,567" and "1.234,5"; "1,234" cannot, and is broken until one of those was
    seen, as is "2.000" in a column of whole numbers until one of them had decimals ("374.0"). Where commas part the
    fields, the mark before decimals is a point: there "1,234" is a whole number and "1.234" a fraction, and neither
    decides anything.
    """

    def __init__(self, parted_by: str = ",") -> None:
        self.mark: Mark | None = None
        """What stands before decimals in this log; None until a number showed it."""
        self._commas_part = parted_by == ","
        self._whole_with_decimals = False

    def learn(self, texts: Iterable[str]) -> None:
        """Looks for a number that can be read in one way only, so that those beside it can be read too."""
        found = (_mark_of(_SEPARATORS.sub("", text) if _GROUPED.fullmatch(text) else text) for text in texts)
        self.mark = next((mark for mark in found if mark), None)

    def plain(self, name: str, text: str, *, whole: bool = False) -> str:
        """The number without separators and with a point before its decimals; what is no such number as it is.

        `whole`: it must be a whole number. Raises Broken for one that can be read in two ways, and for one that
        contradicts those before it.
        """
        if text.isdecimal() or (self.mark == "." and not whole and _POINTED.fullmatch(text)):
            return text
        if _GROUPED.fullmatch(text):
            text = _SEPARATORS.sub("", text)
        if not _MARKED.fullmatch(text):
            return text
        if _ONE_GROUP.fullmatch(text):
            mark = self._of_one_group(name, text, whole=whole)
        else:
            certain = _mark_of(text)
            if certain is None:
                return text
            self._settle(name, text, certain)
            self._whole_with_decimals |= whole and certain in text
            mark = certain
        return text.replace(_OTHER[mark], "").replace(",", ".")

    def _of_one_group(self, name: str, text: str, *, whole: bool) -> Mark:
        """What stands before decimals where this number says nothing of it. Raises Broken where that is not known."""
        written: Mark = "." if "." in text else ","
        known = self.mark or ("." if self._commas_part and (written == ".") != whole else None)
        if known is None or (whole and known == written and not self._whole_with_decimals):
            raise _two_readings(name, text)
        return known

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


def _two_readings(name: str, text: str) -> Broken:
    grouped = re.sub("[.,]", "", text)
    fraction = text.replace(",", ".")
    return Broken(
        f"'{name}' can be read in two ways",
        seen=f"{shown(text)}: {grouped}, or {fraction}",
        expected="numbers without thousands separators, or one before it that shows which mark is which",
    )
