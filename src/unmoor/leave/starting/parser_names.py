"""Which parser of the other engine is for the same family of models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from unmoor.engines.surface.surface import Parsers, Surface

ParserKind = Literal["tool", "reasoning"]


@dataclass(frozen=True, slots=True)
class SameFamily:
    """The families that a parser's name stands for, and the target's names for them; none: it has no parser for them.

    `names` is empty too where `known` is False: the target's table says nothing of the families.
    """

    families: tuple[str, ...]
    names: tuple[str, ...]
    known: bool


def same_family(name: str, kind: ParserKind, source: Surface, target: Surface) -> SameFamily:
    """The target's parsers for the families of the source's parser `name`; families that agree on one name first."""
    families = tuple(family for family, one in source.parsers.items() if name in _names(one, kind))
    told = [target.parsers[family] for family in families if family in target.parsers]
    counted: dict[str, int] = {}
    for one in told:
        for parser in _names(one, kind):
            counted[parser] = counted.get(parser, 0) + 1
    if name in counted:
        counted = {name: counted[name]}
    ordered = sorted(counted, key=lambda parser: -counted[parser])
    return SameFamily(families, tuple(ordered), known=bool(told))


def _names(one: Parsers, kind: ParserKind) -> tuple[str, ...]:
    return one.tool if kind == "tool" else one.reasoning
