"""The same things in another order: which of them move about, and one order for all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations

LEAST_SEEN = 3
LEAST_SEQUENCES = 4  # of one set, before its order is said to be unstable
LEAST_ORDERS = 3
MOST_THINGS = 64  # of a sequence that are looked at
AT_HOME = 0.7  # share of a thing's appearances that are in its own set

Set = frozenset[str]


def unstable_sets(sequences: Sequence[Sequence[str]]) -> list[Set]:
    """The sets of things that come whole in one order and another, the commonest first; each only with what moves.

    A set counts when at least LEAST_SEQUENCES sequences are made of it, in LEAST_ORDERS orders (two, of a pair). Other
    sets may have the same things in another order by right, as tenants' tools do. Things at the same rank throughout
    are left out.
    """
    groups: dict[Set, list[tuple[str, ...]]] = defaultdict(list)
    for sequence in sequences:
        groups[frozenset(sequence)].append(tuple(dict.fromkeys(sequence)))
    weight: Counter[Set] = Counter()
    for orders in groups.values():
        ranks: dict[str, set[int]] = defaultdict(set)
        for order in set(orders):
            for rank, thing in enumerate(order):
                ranks[thing].add(rank)
        moving = frozenset(thing for thing, places in ranks.items() if len(places) > 1)
        if moving and _counts(len(orders[0]), orders):
            weight[moving] += len(orders)
    return [moving for moving, _ in weight.most_common()]


def shuffled_sets(sequences: Sequence[Sequence[str]]) -> list[Set]:
    """The sets of things that come together among others, shuffled, the commonest first.

    Two things are of one set where they come in both orders. A set counts as above, and only where its things come
    together: documents that are found anew for each request come in many sets, and their order may say which is best.
    """
    often = Counter(thing for sequence in sequences for thing in set(sequence))
    common = [
        tuple(dict.fromkeys(thing for thing in sequence if often[thing] >= LEAST_SEEN))[:MOST_THINGS]
        for sequence in sequences
    ]
    before = Counter(pair for sequence in set(common) for pair in combinations(sequence, 2))
    weight: Counter[Set] = Counter()
    for moving in _joined([pair for pair in before if before[pair[::-1]]]):
        orders = [order for sequence in common if moving <= set(order := [t for t in sequence if t in moving])]
        if _counts(len(moving), list(map(tuple, orders))) and len(orders) >= AT_HOME * max(often[t] for t in moving):
            weight[moving] = len(orders)
    return [moving for moving, _ in weight.most_common()]


def _joined(pairs: Sequence[tuple[str, str]]) -> list[Set]:
    """The sets that pairs make by what they have in common."""
    group_of: dict[str, set[str]] = {}
    for one, other in pairs:
        a, b = group_of.setdefault(one, {one}), group_of.setdefault(other, {other})
        if a is not b:
            a |= b
            group_of.update(dict.fromkeys(b, a))
    return [frozenset(group) for group in {id(group): group for group in group_of.values()}.values()]


def _counts(things: int, orders: Sequence[tuple[str, ...]]) -> bool:
    """Whether there are enough orders of so many things, often enough, to say that there is none."""
    least = 2 if things == 2 else LEAST_ORDERS  # noqa: PLR2004 - a pair has no more
    return len(orders) >= LEAST_SEQUENCES and len(set(orders)) >= least


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
