"""A text as the things it lists: paragraphs, or blocks that begin alike, each without its number."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

_NUMBER = re.compile(r"\s*(?:[#*\-\[(<]*\s*(?:[A-Za-z]{2,10}\s*)?#?\d{1,3}\s*[\])>.:*-]*\s*)?")
_OPENING = re.compile(r"^[ \t]*(<?[A-Za-z#*\-•]+|[(\[]?\d{1,3}[).\]:])", re.MULTILINE)
_ANY_NUMBER = r"[(\[]?\d{1,3}[).\]:]"
_REPEATED = 3  # lines that begin alike before they are taken as the beginnings of blocks
_BLANK = r"\n[ \t]*\n\s*|(?<=>)\n(?=<)"

Splitter = Callable[[str], list[str]]
"""Gives a text's things at odd places, and what stands between them, their numbers too, at even ones."""


def splitters(texts: Sequence[str], most: int = 4) -> list[Splitter]:
    """Ways to split these texts: at blank lines, and also where lines begin with a word that is often repeated."""
    repeated: Counter[str] = Counter()
    for text in texts:
        openings = [
            _ANY_NUMBER if word[-1] in ").]:" else rf"{re.escape(word)}(?!\w)" for word in _OPENING.findall(text)
        ]
        counts = Counter(openings)  # in order of first appearance
        repeated.update([word for word in counts if counts[word] >= _REPEATED][:most])
    by_word = [rf"\n(?=[ \t]*{word})" for word, _ in repeated.most_common(most)]
    both = [rf"{_BLANK}|{split}" for split in by_word]
    return [_splitter(split) for split in (_BLANK, *by_word, *both, r"\n+")]


def _splitter(boundary: str) -> Splitter:
    pattern = re.compile(f"({boundary})")

    def split(text: str) -> list[str]:
        pieces = [""]
        for at, piece in enumerate(pattern.split(text)):
            if at % 2:
                pieces[-1] += piece
                continue
            number = _NUMBER.match(piece)
            lead = number.end() if number else 0
            thing = piece[lead:].rstrip()
            pieces[-1] += piece[:lead]
            pieces += (thing, piece[lead + len(thing) :])
        return pieces

    return split
