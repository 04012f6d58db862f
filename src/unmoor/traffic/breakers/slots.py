"""The places in early texts where prompts made from one template differ, and of what kind the differences are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from unmoor.traffic.breakers.align import SENTENCE, Template, templates
from unmoor.traffic.breakers.dates import date_spans, is_date
from unmoor.traffic.breakers.ids import id_spans, is_short
from unmoor.traffic.breakers.units import UnitKey

Kind = Literal["date", "id", "user_text"]
LOOKED_AT = 16_384  # characters of an early text in which slots are learned
LONGEST = 20_000  # characters that one slot may hold
CONTEXT = 24  # characters of equal text by which a slot is found again
CHAINED = 40  # characters of equal text between slots that belong to one statement
LONGEST_PHRASE = 200  # characters of a phrase around a date
LEAST_VALUES = 8  # different values before something is an id or a user's text, not a setting with a few values
LEAST_DATES = 3
MOSTLY = 0.8
SHARED_BEHIND = 256  # characters of equal text that must stand behind a user's text
PROFILE = 3  # slots in one statement from which on it is a profile, not an id


@dataclass(frozen=True, slots=True)
class Slot:
    """Where values differ: `pattern` finds them, `kinds` says what each of its groups is (None: leave it)."""

    key: UnitKey
    pattern: re.Pattern[str]
    kinds: tuple[Kind | None, ...]


def learn(key: UnitKey, texts: Sequence[tuple[str, str | None]]) -> list[Slot]:
    """The slots of texts that stand at one place, each with its request's tenant where known."""
    tenant_of = {text[:LOOKED_AT]: tenant for text, tenant in texts}
    slots = list[Slot]()
    for template in templates(list(tenant_of)):
        sentences = Counter(s for text in template.members for s in set(SENTENCE.split(text)))
        for chain in _chains(template):
            slots += _slots(key, template, chain, sentences, tenant_of)
    return slots


def _chains(template: Template) -> Iterator[list[tuple[int, int]]]:
    """The template's differing spans, widened to the whole date or id that they cut, by statement."""
    text, spans = template.text, list(template.spans)
    whole = [*date_spans(text), *id_spans(text)]
    spans = _merged([_widened(span, whole) for span in spans])
    spans = [part for span in spans for part in _dates_apart(text, span)]
    chain: list[tuple[int, int]] = []
    for span in spans:
        if chain and span[0] - chain[-1][1] > CHAINED:
            yield chain
            chain = []
        chain.append(span)
    if chain:
        yield chain


def _widened(span: tuple[int, int], whole: Sequence[tuple[int, int]]) -> tuple[int, int]:
    first, last = span
    for start, end in whole:
        if start < span[1] and end > span[0]:
            first, last = min(first, start), max(last, end)
    return first, last


def _dates_apart(text: str, span: tuple[int, int]) -> list[tuple[int, int]]:
    """The span, without the date that it begins or ends with: that is a span of its own."""
    first, last = span
    dates = [(first + start, first + end) for start, end in date_spans(text[first:last])]
    if not dates or last - first <= LONGEST_PHRASE:
        return [span]
    parts = []
    if dates[0][0] == first:
        parts.append(dates[0])
        first = dates[0][1] + _marks(text[dates[0][1] : last])
    if dates[-1][1] == last and dates[-1][0] > first:
        end = dates[-1][0] - _marks(text[first : dates[-1][0]][::-1])
        return [*parts, (first, end), dates[-1]]
    return [*parts, (first, last)]


def _marks(text: str) -> int:
    """How many spaces and brackets `text` begins with."""
    return len(text) - len(text.lstrip(" \t\n[](){}<>|"))


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _slots(
    key: UnitKey,
    template: Template,
    chain: Sequence[tuple[int, int]],
    sentences: Counter[str],
    tenant_of: dict[str, str | None],
) -> Iterator[Slot]:
    """The chain as slots, where its values are evidence of something.

    A statement about a user is one value, its labels with it; a date at either end of it is another.
    """
    pattern = _pattern(template, chain)
    kinds = _kinds(pattern, template, chain, sentences, tenant_of)
    others = [at for at, kind in enumerate(kinds) if kind != "date"]
    if len(chain) > 1 and ("user_text" in kinds or kinds.count("id") >= PROFILE):
        first, last = others[0], others[-1] + 1
        whole = (chain[first][0], chain[last - 1][1])
        chain = [*chain[:first], whole, *chain[last:]]
        pattern = _pattern(template, chain)
        kinds = _kinds(pattern, template, chain, sentences, tenant_of)
        kinds = tuple("user_text" if kind == "id" else kind for kind in kinds)
    if "user_text" in kinds and _shared_behind(template, chain[-1][1]) < SHARED_BEHIND:
        kinds = tuple(None if kind == "user_text" else kind for kind in kinds)
    if any(kinds):
        yield Slot(key, pattern, kinds)


def _pattern(template: Template, chain: Sequence[tuple[int, int]]) -> re.Pattern[str]:
    """What finds the chain's values in another text, by the equal text around and between them."""
    text, first, last = template.text, chain[0][0], chain[-1][1]
    left = re.escape(text[max(0, first - CONTEXT) : first]) if first else r"\A"
    right = re.escape(text[last : last + CONTEXT]) if last < len(text) else r"\Z"
    between = [re.escape(text[a[1] : b[0]]) for a, b in pairwise(chain)]
    value = rf"(.{{0,{LONGEST}}}?)"
    middle = value + "".join(literal + value for literal in between)
    return re.compile(left + middle + right, re.DOTALL)


def _kinds(
    pattern: re.Pattern[str],
    template: Template,
    chain: Sequence[tuple[int, int]],
    sentences: Counter[str],
    tenant_of: dict[str, str | None],
) -> tuple[Kind | None, ...]:
    rows = [(match.groups(), tenant_of[text]) for text in template.members if (match := pattern.search(text))]
    rest = template.text[: chain[0][0]] + " " + template.text[chain[-1][1] :]
    often = max(3.0, 0.3 * len(template.members))
    kinds = []
    for group in range(len(chain)):
        values = [(row[group], tenant) for row, tenant in rows]
        moves_about = _moves_about({value for value, _ in values}, rest, sentences, often)
        kinds.append(None if moves_about else _kind(values))
    return tuple(kinds)


def _kind(values: Sequence[tuple[str, str | None]]) -> Kind | None:
    """What a slot's values are, each with its tenant."""
    texts = [value for value, _ in values if value.strip()]
    distinct = set(texts)
    if len(distinct) < LEAST_DATES:
        return None
    if _are_dates(texts):
        return "date"
    if len(distinct) < LEAST_VALUES or _names_the_tenant(values):
        return None
    return "id" if sum(map(is_short, _cores(texts))) >= MOSTLY * len(texts) else "user_text"


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


def _names_the_tenant(values: Sequence[tuple[str, str | None]]) -> bool:
    """Whether a value stands for its tenant: prompts of tenants differ by right."""
    tenants = {tenant for _, tenant in values}
    if None in tenants or len(tenants) < 2:  # noqa: PLR2004 - one tenant tells nothing apart
        return False
    return len(set(values)) == len(tenants) == len({value for value, _ in values})


def _moves_about(values: set[str], rest: str, sentences: Counter[str], often: float) -> bool:
    """Whether the values are the template's own text in another order, rather than text that varies."""
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


def _shared_behind(template: Template, place: int) -> int:
    """How many characters behind `place` the template's texts share."""
    spans = [span for span in template.spans if span[0] >= place]
    return len(template.text) - place - sum(last - first for first, last in spans)
