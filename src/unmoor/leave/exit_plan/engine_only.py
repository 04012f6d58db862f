"""Names that belong to the engine that serves, and what each is called on the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from unmoor.core.plan import Setting
from unmoor.engines.surface.concepts import FLAGS, METRICS, ROUTES
from unmoor.engines.surface.surface import Flag, Metric, Route, Surface
from unmoor.leave.exit_plan.exit_plan import EngineOnly, Side, Standing, There

Named = Flag | Metric | Route
Others = Sequence[tuple[Side, Surface | None]]


def engine_only(surface: Surface | None, others: Others, settings: Mapping[str, Setting]) -> tuple[EngineOnly, ...]:
    """The settings that the plan pins, then metrics and routes, wherever another engine has another name or none.

    A name that every other engine has too is left out: nothing would have to be replaced.
    """
    if surface is None:
        return ()
    found = [*_settings(surface, others, settings), *_metrics(surface, others), *_routes(surface, others)]
    return tuple(one for one in found if any(there.standing != "same" for there in one.there))


def _settings(surface: Surface, others: Others, settings: Mapping[str, Setting]) -> Iterator[EngineOnly]:
    for name in settings:
        flag = surface.flags.get(name)
        if flag is not None and flag.names:
            yield EngineOnly(
                kind="setting",
                concept=name,
                meaning=FLAGS.get(name, name),
                names=flag.names[:1],
                source=surface.source_of(flag),
                there=tuple(
                    _there(side, other, other.flags.get(name) if other else None, flag) for side, other in others
                ),
            )


def _metrics(surface: Surface, others: Others) -> Iterator[EngineOnly]:
    for name, metric in surface.metrics.items():
        if metric.names:
            yield EngineOnly(
                kind="metric",
                concept=name,
                meaning=METRICS.get(name, name),
                names=metric.names,
                source=surface.source_of(metric),
                there=tuple(
                    _there(side, other, other.metrics.get(name) if other else None, metric) for side, other in others
                ),
            )


def _routes(surface: Surface, others: Others) -> Iterator[EngineOnly]:
    for name, route in surface.routes.items():
        if route.path:
            yield EngineOnly(
                kind="route",
                concept=name,
                meaning=ROUTES.get(name, name),
                names=(_named(route),),
                source=surface.source_of(route),
                there=tuple(
                    _there(side, other, other.routes.get(name) if other else None, route) for side, other in others
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
