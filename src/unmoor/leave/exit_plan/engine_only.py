"""Names that belong to the engine that serves, and what each is called on the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from unmoor.core.plan import Setting
from unmoor.engines.surface.concepts import FLAGS, METRICS, ROUTES
from unmoor.engines.surface.surface import Flag, Metric, Route, Surface
from unmoor.leave.exit_plan.exit_plan import EngineOnly, Side, Standing, There

Named = Flag | Metric | Route
Others = Sequence[tuple[Side, Surface | None]]


class _Table(NamedTuple):
    """A table of names in every surface: of which kind, what its concepts mean, and where it is."""

    kind: Literal["setting", "metric", "route"]
    meanings: Mapping[str, str]
    of: Callable[[Surface], Mapping[str, Named]]


_SETTINGS = _Table("setting", FLAGS, lambda surface: surface.flags)
_METRICS = _Table("metric", METRICS, lambda surface: surface.metrics)
_ROUTES = _Table("route", ROUTES, lambda surface: surface.routes)


def engine_only(surface: Surface | None, others: Others, settings: Mapping[str, Setting]) -> tuple[EngineOnly, ...]:
    """The settings that the plan pins, then metrics and routes, wherever another engine has another name or none.

    A name that every other engine has too is left out: nothing would have to be replaced.
    """
    if surface is None:
        return ()
    found = (
        *_entries(_SETTINGS, settings, surface, others),
        *_entries(_METRICS, surface.metrics, surface, others),
        *_entries(_ROUTES, surface.routes, surface, others),
    )
    return tuple(one for one in found if any(there.standing != "same" for there in one.there))


def _entries(table: _Table, concepts: Iterable[str], surface: Surface, others: Others) -> Iterator[EngineOnly]:
    """Those of `concepts` that the surface has a name for in its table, with what each is in the others' tables."""
    for concept in concepts:
        here = table.of(surface).get(concept)
        if here is None or not _names(here):
            continue
        yield EngineOnly(
            kind=table.kind,
            concept=concept,
            meaning=table.meanings.get(concept, concept),
            names=_names(here),
            source=surface.source_of(here),
            there=tuple(
                _there(side, other, table.of(other).get(concept) if other else None, here) for side, other in others
            ),
        )


def _named(route: Route) -> str:
    return f"{route.method} {route.path}"


def _names(one: Named) -> tuple[str, ...]:
    match one:
        case Route():
            return (_named(one),) if one.path else ()
        case Flag():
            return one.names[:1]
        case Metric():
            return one.names


def _there(side: Side, surface: Surface | None, there: Named | None, here: Named) -> There:
    if surface is None or there is None:
        return There(engine=side.engine, version=side.version, standing="unknown")
    names = _names(there)
    standing: Standing = "absent" if not names else "same" if names == _names(here) else "renamed"
    return There(
        engine=side.engine,
        version=side.version,
        standing=standing,
        names=names,
        note=there.note,
        source=surface.source_of(there),
    )
