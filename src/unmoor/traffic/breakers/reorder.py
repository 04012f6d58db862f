"""The same things in another order: which of them move about, and one order for all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

LEAST_SEEN = 3
LEAST_SEQUENCES = 4  # of one set, before its order is said to be unstable
LEAST_ORDERS = 3
AT_HOME = 0.7  # share of a thing's appearances that are in its own set

Set = frozenset[str]


def moving_sets(sequences: Sequence[Sequence[str]], *, apart: bool) -> list[Set]:
    """The sets of things that come together again and again, in one order and another; each only with what moves.

    A set counts when at least LEAST_SEQUENCES sequences have it whole, in LEAST_ORDERS orders (two, of a pair). Things
    at the same rank throughout are left out. With `apart`, a thing belongs to one set only, as examples do; documents
    that are found anew for each request come in many sets, and their order may say which is best.
    """
    often = Counter(thing for sequence in sequences for thing in set(sequence))
    groups: dict[Set, list[tuple[str, ...]]] = defaultdict(list)
    for sequence in sequences:
        common = tuple(dict.fromkeys(thing for thing in sequence if often[thing] >= LEAST_SEEN))
        if len(common) > 1:
            groups[frozenset(common)].append(common)
    weight: Counter[Set] = Counter()
    for orders in groups.values():
        moving = _moving(orders)
        if moving:
            weight[moving] += len(orders)
    found = [moving for moving, _ in weight.most_common()]
    return [moving for moving in found if not apart or _at_home(moving, weight[moving], often)]


def _moving(orders: Sequence[tuple[str, ...]]) -> Set:
    """What stands at more than one rank; nothing where the order is steady."""
    distinct = set(orders)
    if len(orders) < LEAST_SEQUENCES or len(distinct) < 2:  # noqa: PLR2004 - one order is steady
        return frozenset()
    ranks: dict[str, set[int]] = defaultdict(set)
    for order in distinct:
        for rank, thing in enumerate(order):
            ranks[thing].add(rank)
    moving = frozenset(thing for thing, places in ranks.items() if len(places) > 1)
    return moving if len(moving) == 2 or len(distinct) >= LEAST_ORDERS else frozenset()  # noqa: PLR2004 - a pair


def _at_home(moving: Set, sequences: int, often: Counter[str]) -> bool:
    return sequences >= AT_HOME * max(often[thing] for thing in moving)


def in_one_order(sequence: Sequence[str], sets: Sequence[Set]) -> list[int] | None:
    """For each place of the sequence, which of its things goes there; None where the sequence has no such set whole.

    The things of the set are sorted among the places that they had; all others stay.
    """
    present = set(sequence)
    for moving in sets:
        if moving <= present:
            places = [i for i, thing in enumerate(sequence) if thing in moving]
            order = list(range(len(sequence)))
            for place, source in zip(places, sorted(places, key=lambda i: (sequence[i], i)), strict=True):
                order[place] = source
            return order
    return None
