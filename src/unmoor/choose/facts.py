"""Dated facts about engines and dated prices: what was read, where, when, and when it is no longer to be relied on."""

from __future__ import annotations

from datetime import date
from functools import cache
from importlib.resources import files

import msgspec

from unmoor.core.evidence import EvidenceKind, Figure

VERDICT_SUBJECTS = ("biggest_risk", "not_for")
"""What a verdict quotes of its pick: several facts of one engine, told apart by the traffic that they bear on."""

FactValue = bool | int | str | tuple[str, ...]


class EngineName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engine's name in plans, and as its project writes it."""

    name: str
    title: str


class Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fact: the claim in a sentence, its value, where and when it was seen, and how to look again.

    `corrects` says what is often said instead, and by whom. `bears_on` names a trait of traffic that makes the fact
    matter ("schema", "adapter", "shared_prefix", "no_shared_prefix"); empty for facts that always do.
    """

    engine: str
    subject: str
    claim: str
    value: FactValue
    kind: EvidenceKind
    source: str
    version: str
    as_of: date
    recheck: str
    stale_after_days: int
    corrects: str = ""
    bears_on: str = ""

    @property
    def items(self) -> tuple[str, ...]:
        """The value as a list of names; empty for a value that is no name or list."""
        if isinstance(self.value, tuple):
            return self.value
        return (self.value,) if isinstance(self.value, str) else ()

    def is_stale(self, today: date) -> bool:
        """Whether it was seen longer ago than it may be relied on."""
        return (today - self.as_of).days > self.stale_after_days

    def cited(self) -> str:
        """The source with its version and the date seen, for the end of a sentence."""
        return f"{self.source}, seen {self.as_of.isoformat()}"


class ClaimedFigure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A range that somebody else states without a way to check it here."""

    engine: str
    metric: str
    low: float
    high: float
    unit: str
    detail: str
    source: str
    as_of: date
    bears_on: str

    def figure(self) -> Figure:
        """As evidence: claimed, a range without a value, so that it can never rank."""
        return Figure(
            metric=self.metric,
            value=None,
            low=self.low,
            high=self.high,
            unit=self.unit,
            kind=EvidenceKind.CLAIMED,
            validated=False,
            source=self.source,
            as_of=self.as_of.isoformat(),
            detail=self.detail,
        )


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is known of all engines."""

    engines: tuple[EngineName, ...]
    facts: tuple[Fact, ...]
    figures: tuple[ClaimedFigure, ...] = ()

    def title(self, engine: str) -> str:
        """The engine's name as its project writes it; the plan's name for one without facts."""
        return next((e.title for e in self.engines if e.name == engine), engine)

    def find(self, engine: str, subject: str) -> Fact | None:
        """The fact of `engine` on `subject`; None where nothing is known."""
        return next((f for f in self.facts if f.engine == engine and f.subject == subject), None)

    def most_telling(self, engine: str, subject: str, traits: frozenset[str]) -> Fact | None:
        """The fact on `subject` that traffic with `traits` makes matter, else the one that always does, else None."""
        about = [f for f in self.facts if f.engine == engine and f.subject == subject]
        return next((f for f in about if f.bears_on in traits), next((f for f in about if not f.bears_on), None))

    def bearing_on(self, engine: str, traits: frozenset[str]) -> tuple[Fact, ...]:
        """The facts of `engine` that traffic with `traits` makes matter; those a verdict quotes anyway left out."""
        return tuple(
            f for f in self.facts if f.engine == engine and f.bears_on in traits and f.subject not in VERDICT_SUBJECTS
        )

    def figures_bearing_on(self, engine: str, traits: frozenset[str]) -> tuple[Figure, ...]:
        """What others claim of `engine` in figures, where traffic with `traits` makes it matter."""
        wanted = traits | {"any"}
        return tuple(f.figure() for f in self.figures if f.engine == engine and f.bears_on in wanted)

    def named(self, subjects: tuple[str, ...]) -> frozenset[str]:
        """Every name that the facts on `subjects` use: the vocabulary of a gate."""
        return frozenset(item for f in self.facts if f.subject in subjects for item in f.items)


class DevicePrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one device costs for one hour, as a range seen on a day."""

    device: str
    low: float
    high: float
    source: str
    as_of: date


class FlatPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A single price for one device-hour: of managed serving on a device, or of support for an engine."""

    device_hour: float
    source: str
    as_of: date
    device: str | None = None
    engine: str | None = None


class PriceBook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices that others published or quoted, all in one currency; stale after `stale_after_days`."""

    currency: str
    stale_after_days: int
    devices: tuple[DevicePrice, ...]
    managed: tuple[FlatPrice, ...]
    support: tuple[FlatPrice, ...]

    def device_price(self, device: str) -> DevicePrice | None:
        """The price of one hour of `device`; None where no price was seen."""
        return next((p for p in self.devices if p.device == device), None)

    def support_price(self, engine: str) -> FlatPrice | None:
        """What support for `engine` adds to one device-hour; None where no price was seen."""
        return next((p for p in self.support if p.engine == engine), None)

    def is_stale(self, as_of: date, today: date) -> bool:
        """Whether a price seen on `as_of` is too old to rely on."""
        return (today - as_of).days > self.stale_after_days


def _shipped(name: str) -> bytes:
    return (files("unmoor.choose") / "knowledge" / name).read_bytes()


@cache
def load_facts() -> Facts:
    """The facts that ship with the package."""
    return msgspec.toml.decode(_shipped("facts.toml"), type=Facts)


@cache
def load_prices() -> PriceBook:
    """The price book that ships with the package."""
    return msgspec.toml.decode(_shipped("prices.toml"), type=PriceBook)
