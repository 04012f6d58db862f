"""What the values of a slot are: dates, ids, texts of users, or nothing that is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from unmoor.traffic.breakers.align import SENTENCE
from unmoor.traffic.breakers.dates import date_spans, is_date
from unmoor.traffic.breakers.ids import is_short, is_written_by_a_program

Kind = Literal["date", "id", "user_text"]
LEAST_DATES = 3
LEAST_IDS = 4
LEAST_VALUES = 8  # different words or texts, before they are no setting with a few values
MOST_REQUESTS = 20  # requests per value from which on it is a setting, a tenant's or a persona's: different by right
MOSTLY = 0.8
LONGEST_PHRASE = 200  # characters of a phrase around a date


class Told(NamedTuple):
    """A text that stands at one place, or the value in it: of which tenant, where known, and in how many requests."""

    text: str
    tenant: str | None
    requests: int


def kind_of(values: Sequence[Told]) -> Kind | None:
    """What a slot's values are; None where they are few, a tenant's own, or otherwise different by right."""
    values = [value for value in values if value.text.strip()]
    texts = [value.text for value in values]
    distinct = set(texts)
    if len(distinct) < LEAST_DATES:
        return None
    if _are_dates(texts):
        return "date"
    if _names_the_tenant(values):
        return None
    cores = _cores(texts)
    short = sum(map(is_short, cores)) >= MOSTLY * len(texts)
    if short and len(distinct) >= LEAST_IDS and sum(map(is_written_by_a_program, cores)) >= MOSTLY * len(texts):
        return "id"
    if len(distinct) < LEAST_VALUES or sum(value.requests for value in values) >= MOST_REQUESTS * len(distinct):
        return None
    return "id" if short else "user_text"


def moves_about(values: set[str], rest: str, sentences: Counter[str], often: float) -> bool:
    """Whether values are their text's own words in another order, rather than words that vary.

    `rest` is the text around them; `sentences` counts in how many texts each sentence stands, `often` is how many are
    many.
    """
    known = total = 0
    for value in values:
        core = value.strip(" \t\r\n.,;:\"'")
        if len(core) < 3:  # noqa: PLR2004 - a number or letter stands in any text by chance
            continue
        total += 1
        parts = [part for part in SENTENCE.split(value) if part.strip()]
        told = sum(len(part) for part in parts if sentences[part] >= often or part.strip() in rest)
        known += core in rest or told > sum(map(len, parts)) / 2
    return total > 0 and known > total / 2


def _are_dates(texts: Sequence[str]) -> bool:
    """Whether the texts are dates, or one phrase around different dates, as where only some prompts have it."""
    if sum(map(is_date, texts)) >= MOSTLY * len(texts):
        return True
    phrases = Counter(_around_dates(text) for text in texts)
    phrase, often = phrases.most_common(1)[0]
    return phrase is not None and often >= MOSTLY * len(texts)


def _around_dates(text: str) -> str | None:
    """A short text without its dates; None where it has none, or is long."""
    if len(text) > LONGEST_PHRASE:
        return None
    kept, at = list[str](), 0
    for start, end in date_spans(text):
        kept.append(text[at:start])
        at = end
    return "\0".join((*kept, text[at:])) if kept else None


def _cores(texts: Sequence[str]) -> list[str]:
    """The texts without the words that all of them begin and end with."""
    low, high = min(texts), max(texts)
    before = _agreement(low, high)
    before = max(low.rfind(mark, 0, before) + 1 for mark in " \n([:=>")
    backwards = [text[before:][::-1] for text in texts]
    after = _agreement(min(backwards), max(backwards))
    return [text[after:][::-1] for text in backwards]


def _agreement(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _names_the_tenant(values: Sequence[Told]) -> bool:
    """Whether a value stands for its tenant: prompts of tenants differ by right."""
    tenants = {value.tenant for value in values}
    if None in tenants or len(tenants) < 2:  # noqa: PLR2004 - one tenant tells nothing apart
        return False
    pairs = {(value.text, value.tenant) for value in values}
    return len(pairs) == len(tenants) == len({value.text for value in values})
