"""One behaviour of both engines side by side, where it is known of both; where it is not, that is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from unmoor.engines.surface.surface import Scalar, Source, Surface, Trait
from unmoor.leave.case import Case


@dataclass(frozen=True, slots=True)
class Sides:
    """What the source (`here`) and the target (`there`) do in one respect."""

    source: Surface
    target: Surface
    here: Trait
    there: Trait

    @property
    def differ(self) -> bool:
        """Whether they do different things."""
        return self.here.value != self.there.value

    @property
    def flag_needed(self) -> str:
        """The target's flag without which it does not do it; empty where it needs none, or the source's own."""
        if self.there.value != "needs_flag" or self.here == self.there:
            return ""
        return self.there.flag or "a flag"

    @property
    def sources(self) -> tuple[Source, ...]:
        """Where both statements come from."""
        return tuple(dict.fromkeys((self.source.source_of(self.here), self.target.source_of(self.there))))


def sides(case: Case, trait: str, about: str) -> Sides | None:
    """Both sides of a trait; None where nothing changes because the engine stays, or where a side is not known.

    The latter is told as not looked at; `about` names what of the traffic it is about.
    """
    if case.stays:
        return None
    here, there = case.source.traits.get(trait), case.target.traits.get(trait)
    if here is None or there is None:
        unknown = [one.title for one, known in ((case.source, here), (case.target, there)) if known is None]
        case.skipped(f"{about}: what {' and '.join(unknown)} {'do' if len(unknown) > 1 else 'does'} is not known")
        return None
    return Sides(case.source, case.target, here, there)


def said(trait: Trait) -> str:
    """What a trait says, as the end of a sentence in brackets; empty where it says nothing."""
    if not trait.says:
        return ""
    is_word = not trait.says[1:2].isupper()
    text = trait.says[0].lower() + trait.says[1:] if is_word else trait.says
    return f" ({text.rstrip('.')})"


def number(value: Scalar) -> int | float | None:
    """A value as a number; None where it is none. A truth value is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def listed(names: Iterable[object], most: int = 5) -> str:
    """Names in backticks, the first of many."""
    several = list(names)
    more = f" and {len(several) - most} more" if len(several) > most else ""
    return ", ".join(f"`{name}`" for name in several[:most]) + more
