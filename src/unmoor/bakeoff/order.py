"""Which block is measured when: interleaved across engine restarts, there and back. Pure.

Stages, each judged only on the repeats before it, so that a resumed run takes the same road:

1. Every trial of every engine, `blocks` repeats; A B C, then C B A, so that a slow drift of the machine weighs on all
   alike (ABBA).
2. An engine of which no trial shows an effect: one more repeat of its trials at a time, until one does or twice
   `blocks` repeats are measured; then the effect is said to be absent.
3. An engine of which two knobs or more helped: their combination, as often, on the prompts and schedule that the
   others had. It comes after them, not between them, and carries the caveat `not_interleaved`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Entrant = TypeVar("Entrant")

EXTRA = 2
"""No engine's screen has more than this many times the plan's `blocks` repeats."""


def there_and_back(entrants: Sequence[Entrant], repeats: range) -> tuple[tuple[Entrant, int], ...]:
    """All entrants in each repeat, in turned order in every second one, each with its repeat."""
    turned = tuple(reversed(entrants))
    return tuple((entrant, repeat) for repeat in repeats for entrant in (turned if repeat % 2 else entrants))


def screen_repeats(blocks: int) -> range:
    """The repeats that every trial owes."""
    return range(blocks)


def extra_repeats(blocks: int) -> range:
    """The repeats that are added, one at a time, while no effect is shown."""
    return range(blocks, EXTRA * blocks)
