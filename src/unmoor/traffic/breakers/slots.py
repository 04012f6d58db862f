"""The places in early texts where prompts made from one template differ, and of what kind the differences are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from unmoor.traffic.breakers.align import SENTENCE, Template, templates
from unmoor.traffic.breakers.dates import date_spans
from unmoor.traffic.breakers.ids import id_spans
from unmoor.traffic.breakers.units import UnitKey
from unmoor.traffic.breakers.values import LONGEST_PHRASE, Kind, Told, kind_of, moves_about

LOOKED_AT = 16_384  # characters of an early text in which slots are learned
LONGEST = 20_000  # characters that one slot may hold
CONTEXT = 24  # characters of equal text by which a slot is found again
CHAINED = 40  # characters of equal text between slots that belong to one statement
SHARED_BEHIND = 256  # characters of equal text that must stand behind a user's text
HALF = 0.5  # share of a place's texts that must be of one template, where the text is the user's
PROFILE = 3  # slots in one statement from which on it is a profile, not an id


@dataclass(frozen=True, slots=True)
class Slot:
    """Where values differ: `pattern` finds them, `kinds` says what each of its groups is (None: leave it)."""

    key: UnitKey
    pattern: re.Pattern[str]
    kinds: tuple[Kind | None, ...]


def learn(key: UnitKey, texts: Sequence[Told]) -> list[Slot]:
    """The slots of different texts that stand at one place.

    What a user writes may have dates and ids in it by right: there a template counts only where at least HALF of the
    texts are made from it and much of it is behind, and, after a system message, only for a text in front of that.
    """
    told = {text.text[:LOOKED_AT]: text for text in texts}
    written_by_user = key.name not in {"system", "developer"} and key.unit == "message"
    slots = list[Slot]()
    for template in templates(list(told)):
        if written_by_user and len(template.members) < HALF * len(told):
            continue
        sentences = Counter(s for text in template.members for s in set(SENTENCE.split(text)))
        for chain in _chains(template):
            if written_by_user and _shared_behind(template, chain[-1][1]) < SHARED_BEHIND:
                continue
            slots += _slots(key, template, chain, _Judge(sentences, told))
    return [_only_user_text(slot) for slot in slots] if written_by_user and key.place else slots


def _only_user_text(slot: Slot) -> Slot:
    return Slot(slot.key, slot.pattern, tuple(kind if kind == "user_text" else None for kind in slot.kinds))


@dataclass(frozen=True, slots=True)
class _Judge:
    """Says of what kinds the values in a chain of spans are, by all the texts that stand at one place."""

    sentences: Counter[str]
    told: dict[str, Told]

    def kinds(
        self, pattern: re.Pattern[str], template: Template, chain: Sequence[tuple[int, int]]
    ) -> tuple[Kind | None, ...]:
        """One kind for each span of the chain, or None."""
        rows = [(match.groups(), self.told[text]) for text in template.members if (match := pattern.search(text))]
        rest = template.text[: chain[0][0]] + " " + template.text[chain[-1][1] :]
        often = max(3.0, 0.3 * len(template.members))
        kinds = list[Kind | None]()
        for group in range(len(chain)):
            values = [Told(row[group], told.tenant, told.requests) for row, told in rows]
            about = moves_about({value.text for value in values}, rest, self.sentences, often)
            kinds.append(None if about else kind_of(values))
        return tuple(kinds)


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
    """How many spaces, brackets and marks of layout `text` begins with."""
    return len(text) - len(text.lstrip(" \t\n[](){}<>|#*/-_=~"))


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
    judge: _Judge,
) -> Iterator[Slot]:
    """The chain as slots, where its values are evidence of something.

    A statement about a user is one value, its labels with it; a date at either end of it is another.
    """
    pattern = _pattern(template, chain)
    kinds = judge.kinds(pattern, template, chain)
    others = [at for at, kind in enumerate(kinds) if kind != "date"]
    if len(chain) > 1 and ("user_text" in kinds or kinds.count("id") >= PROFILE):
        first, last = others[0], others[-1] + 1
        whole = (chain[first][0], chain[last - 1][1])
        chain = [*chain[:first], whole, *chain[last:]]
        pattern = _pattern(template, chain)
        kinds = judge.kinds(pattern, template, chain)
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


def _shared_behind(template: Template, place: int) -> int:
    """How many characters behind `place` the template's texts share."""
    spans = [span for span in template.spans if span[0] >= place]
    return len(template.text) - place - sum(last - first for first, last in spans)
