"""Where texts made from one template differ: short alignment of words, anchored where long runs of them are equal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

ANCHOR = 8  # words, spaces and marks in a row that must be equal, and unique, to meet again after a difference
LEAST_WORDS = 3  # words, spaces and marks that must be equal between two differences, one of three letters
SMALL = 60  # differing spans up to so many words are compared word by word
VOLATILE = 0.1  # a place differs when at least this share of the texts differ there
LEAST_SHARED = 200  # characters that two texts must share to be of one template; half of the longer where that is less
WORDS = re.compile(r"\w+|\s+|[^\w\s]")
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")

Gap = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Template:
    """One text standing for those made like it, and the spans of it (in characters) where the others differ."""

    text: str
    members: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


class _Anchored:
    """One text's words, with the places of those runs of ANCHOR words that stand in it once."""

    def __init__(self, text: str) -> None:
        self.words = WORDS.findall(text)
        runs = [tuple(self.words[i : i + ANCHOR]) for i in range(len(self.words) - ANCHOR + 1)]
        often = Counter(runs)
        self._places = {run: i for i, run in enumerate(runs) if often[run] == 1}

    def gaps(self, other: Sequence[str]) -> tuple[list[Gap], int]:
        """The spans of our own words that `other` lacks or has otherwise, and how many characters both share."""
        mine, gaps, shared = self.words, list[Gap](), 0
        i = j = 0
        while True:
            start = i
            while i < len(mine) and j < len(other) and mine[i] == other[j]:
                i, j = i + 1, j + 1
            shared += sum(map(len, mine[start:i]))
            if i == len(mine) and j == len(other):
                return gaps, shared
            next_i, next_j = self._meet(other, i, j)
            gaps += _refined(mine, (i, next_i), other, (j, next_j))
            i, j = next_i, next_j

    def _meet(self, other: Sequence[str], i: int, j: int) -> tuple[int, int]:
        """The next place in both, from i and j on, where a long run is equal; both ends where there is none."""
        places = self._places
        for at in range(j, len(other) - ANCHOR + 1):
            place = places.get(tuple(other[at : at + ANCHOR]), -1)
            if place >= i:
                return place, at
        # What is equal at the very end may be shorter than an anchor.
        back = 0
        while back < min(len(self.words) - i, len(other) - j) and self.words[-1 - back] == other[-1 - back]:
            back += 1
        return len(self.words) - back, len(other) - back


def _refined(mine: Sequence[str], gap: Gap, other: Sequence[str], their: Gap) -> list[Gap]:
    """The gap, without the words inside it that are equal after all: all of it where it is small, else at both ends."""
    if max(gap[1] - gap[0], their[1] - their[0]) <= SMALL:
        return _between_equals(mine, gap, other, their)
    if min(gap[1] - gap[0], their[1] - their[0]) < SMALL:
        return [gap]
    half = SMALL // 2
    middle, theirs = (gap[0] + half, gap[1] - half), (their[0] + half, their[1] - half)
    return [
        *_between_equals(mine, (gap[0], middle[0]), other, (their[0], theirs[0])),
        middle,
        *_between_equals(mine, (middle[1], gap[1]), other, (theirs[1], their[1])),
    ]


def _between_equals(mine: Sequence[str], gap: Gap, other: Sequence[str], their: Gap) -> list[Gap]:
    matcher = SequenceMatcher(None, mine[slice(*gap)], other[slice(*their)], autojunk=False)
    gaps, at, theirs = [], gap[0], their[0]
    for block in matcher.get_matching_blocks():
        first, last = gap[0] + block.a, gap[0] + block.a + block.size
        is_end = block.size == 0
        if not is_end and not _says_something(mine[first:last]):
            continue
        if at < first or theirs < their[0] + block.b:
            gaps.append((at, first))
        at, theirs = last, their[0] + block.b + block.size
    return gaps


def _says_something(words: Sequence[str]) -> bool:
    """Whether equal words between two differences are text, and not a chance space or mark."""
    return len(words) >= LEAST_WORDS and any(len(word) >= LEAST_WORDS and word.isalpha() for word in words)


def templates(texts: Sequence[str], most: int = 6) -> list[Template]:
    """The templates that at least three of these distinct texts are made from, the commonest first."""
    found: list[Template] = []
    left = list(texts)
    often = Counter(sentence for text in texts for sentence in set(SENTENCE.split(text)))
    for _ in range(most):
        if len(left) < 3:  # noqa: PLR2004 - two texts may differ by right; three are a habit
            break
        text = max(left, key=lambda text: sum(len(s) for s in set(SENTENCE.split(text)) if often[s] > 1))
        template, left = _template(text, left)
        if len(template.members) > 2:  # noqa: PLR2004 - likewise
            found.append(template)
    return found


def _template(text: str, texts: Sequence[str]) -> tuple[Template, list[str]]:
    """The template that `text` stands for, and the texts that are not made from it."""
    anchored = _Anchored(text)
    members, others, all_gaps = [text], [], []
    for other in texts:
        if other is text:
            continue
        gaps, shared = anchored.gaps(WORDS.findall(other))
        if shared < min(LEAST_SHARED, max(len(text), len(other)) / 2):
            others.append(other)
        else:
            members.append(other)
            all_gaps.append(gaps)
    return Template(text, tuple(members), _volatile(anchored.words, all_gaps)), others


def _volatile(words: Sequence[str], all_gaps: Sequence[Sequence[Gap]]) -> tuple[tuple[int, int], ...]:
    """The spans (characters) inside which at least a VOLATILE share of the texts differ.

    Words and the boundaries between them are cells in turn (boundary 0, word 0, boundary 1, ...), so that text which
    only others have is a place as well.
    """
    change = [0] * (2 * len(words) + 2)
    for gaps in all_gaps:
        for first, last in gaps:
            change[2 * first] += 1
            change[2 * last + 1] -= 1
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    spans, level, opened, least = list[tuple[int, int]](), 0, -1, max(1.0, VOLATILE * len(all_gaps))
    for cell, step in enumerate(change):
        level += step
        if level >= least and opened < 0:
            opened = cell
        elif level < least and opened >= 0:
            spans.append((starts[opened // 2], starts[cell // 2]))
            opened = -1
    return tuple(spans)
