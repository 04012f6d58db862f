"""Dates and times, as people and programs write them into prompts."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MONTHS_ARE = (
    "jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|mar(?:ch|s)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?",
    "oct(?:ober)?|nov(?:ember)?|dec(?:ember)?",
    "m[äa]rz|mai|juni|juli|okt(?:ober)?|dez(?:ember)?",
    "f[ée]vrier|avril|juin|juillet|ao[ûu]t|septembre|octobre|novembre|d[ée]cembre",
    "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre",
)
_DAYS_ARE = (
    "mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?",
    "montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag",
    "lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche",
    "lunes|martes|mi[ée]rcoles|jueves|viernes|s[áa]bado|domingo",
)
_MONTHS, _DAYS = "|".join(_MONTHS_ARE), "|".join(_DAYS_ARE)
_STRONG_ARE = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:T(?=\d))?",
    r"\d{1,2}[/.-]\d{1,2}[/.-](?:\d{4}|\d{2})(?!\d)",
    r"(?:19|20)\d{6}T\d{4,6}",
    r"20[0-3]\d[01]\d[0-3]\d(?!\d)",
    r"\d{4}年\s?\d{1,2}月(?:\s?\d{1,2}日)?",
    r"\d{4}-W\d{2}",
    r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?",
    r"1[4-9]\d{8}(?:\d{3})?(?:\.\d+)?(?!\d)",  # seconds or milliseconds since 1970
    rf"\b(?:{_MONTHS})\b\.?",
    rf"\b(?:{_DAYS})\b\.?",
    r"\d{1,2}\s?[ap]\.?m\b\.?",
)
_WEAK_ARE = (
    r"\b\d{1,2}(?:st|nd|rd|th)?\b\.?",
    r"\b(?:19|20)\d{2}\b",
    r"\b(?:utc|gmt|cet|cest|est|edt|cst|cdt|pst|pdt|ist|jst|uhr|z|am|pm)\b",
    r"Z\b",
    r"[+-]\d{2}:?\d{2}\b",
)
_STRONG, _WEAK = "|".join(_STRONG_ARE), "|".join(_WEAK_ARE)
_BETWEEN = r"[\s,;()\[\]|/-]{1,3}(?:(?:at|of|the|on|de|um|à)\s)?"
_STRONG_RE = re.compile(_STRONG, re.IGNORECASE)
_SPAN_RE = re.compile(rf"(?:{_STRONG}|{_WEAK})(?:(?:{_BETWEEN})?(?:{_STRONG}|{_WEAK}))*", re.IGNORECASE)
_LONGEST = 80  # characters of a date and time written out


def date_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where `text` has a date, a time, or both in one; a bare number is neither."""
    for match in _SPAN_RE.finditer(text):
        if _STRONG_RE.search(match[0]):
            yield match.span()


def is_date(text: str) -> bool:
    """Whether the whole of `text`, but for space and marks around it, is a date or a time."""
    core = text.strip(" \t\r\n.,;:()[]<>\"'`*|-")
    if not core or len(core) > _LONGEST or _SPAN_RE.fullmatch(core) is None:
        return False
    return _STRONG_RE.search(core) is not None
