"""Requests that go first by their priority: switched on by an option each, and numbered in opposite directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unmoor.engines.surface.surface import Surface
from unmoor.leave.starting.options import ON


@dataclass(frozen=True, slots=True)
class Priorities:
    """What switches priorities on at the target, in the source's direction where it can.

    `words` are those of the command line, `key` that of the configuration file; `turned` says that clients have to
    turn their numbers round. `absent`: the target has no priorities.
    """

    words: tuple[str, ...] = ()
    key: tuple[str, str] | None = None
    turned: bool = False
    absent: bool = False


def switched_on(concept: str, value: str, spelled: str, source: Surface) -> bool:
    """Whether an option is the one that lets priorities count on the source."""
    needs = source.traits.get("priority_needs")
    said = {spelled, f"{spelled} {value}", f"{spelled}: {value}"}
    return concept == "scheduling" and needs is not None and needs.flag in said


def at_the_target(concepts: Mapping[str, str], source: Surface, target: Surface) -> Priorities | None:
    """None where the target's surface does not say how priorities are ordered."""
    needs, order, own = (
        target.traits.get("priority_needs"),
        target.traits.get("priority_order"),
        _order(concepts, source),
    )
    if order is None or needs is None or own is None:
        return None
    if order.value == "none":
        return Priorities(absent=True)
    key, colon, value = needs.flag.partition(": ")
    turn = order.value != own
    words = () if colon else tuple(needs.flag.split())
    return Priorities(
        words=(*words, *(order.flag.split() if turn else ())),
        key=(key, value) if colon else None,
        turned=turn and not order.flag,
    )


def _order(concepts: Mapping[str, str], source: Surface) -> str | None:
    """Which number goes first on the source, as it is started."""
    order = source.traits.get("priority_order")
    if order is None:
        return None
    turned = concepts.get("priority_order") == ON
    opposite = {"lower_first": "higher_first", "higher_first": "lower_first"}
    return opposite.get(str(order.value), str(order.value)) if turned else str(order.value)
