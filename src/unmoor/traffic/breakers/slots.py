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
    slots = []
    for template in templates(list(tenant_of)):
        sentences = Counter(s for text in template.members for s in set(SENTENCE.split(text)))
        for chain in _chains(template):
            slot = _slot(key, template, chain, sentences, tenant_of)
            if slot is not None:
                slots.append(slot)
    return slots


def _chains(template: Template) -> Iterator[list[tuple[int, int]]]:
    """The template's differing spans, widened to the whole date or id that they cut, by statement."""
    text, spans = template.text, list(template.spans)
    whole = [*date_spans(text), *id_spans(text)]
    spans = _merged([_widened(span, whole) for span in spans])
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


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _slot(
    key: UnitKey,
    template: Template,
    chain: Sequence[tuple[int, int]],
    sentences: Counter[str],
    tenant_of: dict[str, str | None],
) -> Slot | None:
    """The chain as a slot, where its values are evidence of something; None where they are not."""
    pattern = _pattern(template.text, chain)
    kinds = _kinds(pattern, template, chain, sentences, tenant_of)
    movable = [kind for kind in kinds if kind is not None and kind != "date"]
    if len(chain) > 1 and ("user_text" in kinds or len(movable) >= PROFILE):
        whole = [(chain[0][0], chain[-1][1])]
        pattern = _pattern(template.text, whole)
        kinds = _kinds(pattern, template, whole, sentences, tenant_of)
        kinds = tuple("user_text" if kind == "id" else kind for kind in kinds)
    if "user_text" in kinds and _shared_behind(template, chain[-1][1]) < SHARED_BEHIND:
        kinds = tuple(None if kind == "user_text" else kind for kind in kinds)
    return Slot(key, pattern, kinds) if any(kinds) else None


def _pattern(text: str, chain: Sequence[tuple[int, int]]) -> re.Pattern[str]:
    """What finds the chain's values in another text, by the equal text around and between them."""
    first, last = chain[0][0], chain[-1][1]
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
    if sum(map(is_date, texts)) >= MOSTLY * len(values):
        return "date"
    if len(distinct) < LEAST_VALUES or _names_the_tenant(values):
        return None
    return "id" if sum(map(is_short, texts)) >= MOSTLY * len(texts) else "user_text"


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
