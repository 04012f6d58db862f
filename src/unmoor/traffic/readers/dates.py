"""Dates with a time as logs write them: ISO 8601, HTTP's three, nginx's and Apache's, and Go's two."""

from __future__ import annotations

import datetime as dt
import re

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})"
_TIME = r"(?P<time>\d\d:\d\d:\d\d(?:[.,]\d+)?)"
_DAY_NAME = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_ZONE = r"(?P<zone>GMT|UTC|Z|[-+]\d{4})"
_NAMED_MONTHS = tuple(
    re.compile(form)
    for form in (
        rf"\[?(?P<day>\d\d)/{_MONTH}/(?P<year>\d{{4}}):{_TIME} {_ZONE}\]?",  # %t of Apache, $time_local of nginx
        rf"(?:{_DAY_NAME}, )?(?P<day>\d\d?) {_MONTH} (?P<year>\d{{4}}) {_TIME} {_ZONE}",  # RFC 9110 5.6.7, RFC 5322
        rf"{_DAY_NAME}, (?P<day>\d\d)-{_MONTH}-(?P<year>\d\d) {_TIME} {_ZONE}",  # its obsolete forms, of RFC 850
        rf"{_DAY_NAME} {_MONTH} (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",  # and of C's asctime
    )
)
# What Go's time.String() adds: a name of the zone beside its offset, and a reading of the monotonic clock.
_SPACED_ZONE = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?) ?([-+]\d\d:?\d\d|UTC|GMT)(?: (?:[A-Z]{1,5}|[-+]\d\d(?:\d\d)?))?"
    r"(?: m=[-+][\d.]+)?"
)
# Go's log package, which names no zone; and what Python does not take of ISO 8601: a day's end, and a leap second.
_GO_LOG = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)")
_PAST_ITS_END = re.compile(
    r"(?P<before>.*?[ T:])(?P<time>24:00:00|\d\d:\d\d:60)(?P<after>(?:[.,]\d+)?\D.*|(?:[.,]\d+)?)"
)
_WITH_A_TIME = 11  # characters of a date and a sign that a time follows
_CENTURY, _PIVOT = 100, 69  # POSIX: two digits from 69 on are of the 20th century
_LONGEST_SHAPE = 40
_SIGNS = frozenset("-+/:.,[]() _=")


def date_of(text: str) -> dt.datetime | None:
    """The date and time, with its zone where it names one; None for any other text. HTTP's are in GMT.

    24:00:00 is the next day's beginning, and a leap second the one after it.
    """
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return _written_out(text)
    return found if len(text) >= _WITH_A_TIME else None


def _a_second_later(late: re.Match[str]) -> dt.datetime | None:
    """What comes a second after the last that Python takes."""
    last = "23:59:59" if late["time"] == "24:00:00" else f"{late['time'][:-2]}59"
    found = date_of(f"{late['before']}{last}{late['after']}")
    try:
        return None if found is None else found + dt.timedelta(seconds=1)
    except OverflowError:  # the last second of the year 9999
        return None


def shape_of(text: str) -> str:
    """How a text that is no known date is written: its signs, with A, a and 9 for letters and digits.

    Of a text with more letters than digits, or a longer one, only its length: it may be somebody's.
    """
    digits, letters = sum(map(str.isdecimal, text)), sum(map(str.isalpha, text))
    if len(text) > _LONGEST_SHAPE or digits <= letters:
        return f"a text of {len(text)} characters"
    return f"a text of the form {''.join(map(_shape_of_one, text))}"


def _shape_of_one(character: str) -> str:
    if character.isdecimal():
        return "9"
    if character.isalpha():
        return "A" if character.isupper() else "a"
    return character if character in _SIGNS else "?"


def _written_out(text: str) -> dt.datetime | None:
    if late := _PAST_ITS_END.fullmatch(text):
        return _a_second_later(late)
    if go := _GO_LOG.fullmatch(text):
        return date_of(f"{go[1]}-{go[2]}-{go[3]}T{go[4]}")
    spaced = _SPACED_ZONE.fullmatch(text)
    found = spaced or next((match for form in _NAMED_MONTHS if (match := form.fullmatch(text))), None)
    if found is None:
        return None
    written = _spaced(found) if spaced else _numbered(found.groupdict())
    try:
        return dt.datetime.fromisoformat(written)
    except ValueError:  # a 31st of June
        return None


def _spaced(found: re.Match[str]) -> str:
    return f"{found[1]}{_offset(found[2])}"


def _numbered(found: dict[str, str]) -> str:
    year = int(found["year"])
    if len(found["year"]) == 2:  # noqa: PLR2004 - two digits
        year += _CENTURY * (19 if year >= _PIVOT else 20)
    month = _MONTHS.index(found["month"]) + 1
    return f"{year:04d}-{month:02d}-{int(found['day']):02d}T{found['time']}{_offset(found.get('zone', 'GMT'))}"


def _offset(zone: str) -> str:
    return "+00:00" if zone.isalpha() else zone
