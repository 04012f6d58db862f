"""Names that dashboards, autoscalers, probes and clients rely on: metrics, routes, buckets, and the shape of errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unmoor.engines.surface.surface import Metric, Route, Source, Statement, Surface
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind, threads
from unmoor.leave.names_used import NamesUsed, metric_prefixes

RENAMED = Kind(
    id="UM121",
    name="metric-or-route-renamed",
    title="A metric or a route that files rely on, named otherwise on the other side or missing",
    bites="A panel goes blank, an alert never fires, an autoscaler that reads nothing scales to nothing. Some metrics "
    "exist under a new name in another unit, some only behind a flag, some not at all; some routes answer in another "
    "format.",
    look="Names of metrics and routes in the files are looked up on both sides.",
    mend="Rename them, convert the unit, switch the metric on, or measure outside the engine, before the cut-over.",
    threads=threads("NVIDIA/TensorRT-LLM#4926", "vllm-project/aibrix#2004", "ggml-org/llama.cpp#17384"),
)
BUCKETS = Kind(
    id="UM147",
    name="histogram-buckets-differ",
    title="A quantile from a histogram that has other buckets on the other side",
    bites="A quantile of a histogram is interpolated within one bucket. With other buckets the same latencies give "
    "another quantile, and a share under a bound that is no bucket's edge is no number at all.",
    look="Metrics that the files read by their buckets are compared by the upper bounds of these.",
    mend="Measure latency at the client or the gateway, with one set of buckets for both engines.",
)
ERROR_BODY = Kind(
    id="UM148",
    name="error-body-differs",
    title="Code that takes an error apart that has another shape on the other side",
    bites="One engine nests the message under `error`, another has it at the top. Code that reads one finds nothing "
    "in the other, and shows users an empty error, or fails itself.",
    look="Code that reads an error's fields is compared with the shape that each side answers.",
    mend="Read both shapes.",
)
HEALTH = Kind(
    id="UM149",
    name="health-route-differs",
    title="A health route that does something else on the other side",
    bites="A probe that is free on one engine runs a token on the other, or is answered with an error while the model "
    "loads where the other refused the connection. Probes that are too eager then restart a server that is only busy.",
    look="Health routes in the files are compared by what they do on each side.",
    mend="Choose the route, the period and the threshold of the probe for the new engine.",
)

_HEALTH = ("health", "ready")
_UNITS = {"seconds": "s"}


def _look(case: Case) -> Iterator[Hit]:
    names = case.names
    if names is None:
        case.skipped("dashboards, alerts, autoscalers, probes and clients: --dashboards names their files")
        return
    for text in names.skipped:
        case.skipped(text)
    if case.stays:
        return
    yield from _metrics(case, names)
    yield from _buckets(case, names)
    yield from _routes(case, names)
    yield from _error_body(case, names)


# --- Metrics --------------------------------------------------------------------------------------------------------


def _metrics(case: Case, names: NamesUsed) -> Iterator[Hit]:
    meanings = _meanings(case.source)
    unknown: list[str] = []
    for name, places in names.metrics.items():
        meaning = meanings.get(name)
        if meaning is not None:
            yield from _metric(case, name, meaning, places)
        elif name not in _meanings(case.target) and name.startswith(metric_prefixes(case.source)):
            unknown.append(name)
    if unknown:
        case.skipped(f"metrics that no table compares: {', '.join(unknown)}")


def _metric(case: Case, name: str, meaning: str, places: Sequence[str]) -> Iterator[Hit]:
    source, target = case.source, case.target
    here, there = source.metrics[meaning], target.metrics.get(meaning)
    if there is None:
        case.skipped(f"{name} on {target.title}: its surface says nothing of it")
        return
    old = f" It is {here.names[0]} in {source.version} already." if name in here.formerly and here.names else ""
    feature, sources = [f"metric {name}"], _sources((source, here), (target, there))
    if not there.names:
        yield hit(
            RENAMED,
            "lost",
            "warning",
            features=feature,
            seen=f"{target.title} has no such metric{_noted(there)}. {_stands(places)}{old}",
            fix="Measure it outside the engine: at a gateway, or at the client.",
            sources=sources,
        )
        return
    changed = _changes(here, there)
    if name in there.names and not changed:
        return
    told = there.names[0] if name not in there.names else name
    switched = f" Start {target.title} with {there.needs}." if there.needs and there.needs != here.needs else ""
    yield hit(
        RENAMED,
        "translated",
        "warning",
        features=feature,
        seen=f"{_stands(places)} Under that name {target.title} has nothing.{old}"
        if told != name
        else f"{_stands(places)} {target.title} has it, and not the same.",
        fix=f"Read {told}{changed}{_noted(there)}.{f' Today it is {here.note}.' if here.note else ''}{switched}",
        sources=sources,
        needs=(there.needs if switched else "",),
    )


def _changes(here: Metric, there: Metric) -> str:
    """What is other about the number itself."""
    units = [_UNITS.get(one.unit, one.unit) for one in (here, there)]
    return f", in {units[1]} where it was {units[0]}" if all(units) and units[0] != units[1] else ""


def _buckets(case: Case, names: NamesUsed) -> Iterator[Hit]:
    meanings = _meanings(case.source)
    for name, places in names.buckets.items():
        meaning = meanings.get(name)
        there = case.target.metrics.get(meaning) if meaning is not None else None
        if meaning is None or there is None or not there.names or name in there.names:
            continue
        here = case.source.metrics[meaning]
        if here.buckets and here.buckets == there.buckets:
            continue
        asked = ", ".join(names.bounds.get(name, ()))
        bounds = f" Asked for are {asked} (le)." if asked else ""
        yield hit(
            BUCKETS,
            "translated",
            "warning",
            features=[f"metric {name}"],
            seen=f"{_stands(places)}{bounds} {_told(case.source, here)} {_told(case.target, there)}",
            fix="Compare no quantiles of the two. Measure at the client or the gateway; "
            f"on {case.target.title} choose bounds that its buckets have.",
            sources=_sources((case.source, here), (case.target, there)),
        )


def _told(side: Surface, one: Metric) -> str:
    if not one.buckets:
        return f"The buckets of {side.title} are not known here."
    return f"Buckets of {side.title}: {', '.join(f'{bound:g}' for bound in one.buckets[:8])}, ... s."


def _meanings(side: Surface) -> dict[str, str]:
    """Each name of a metric, today's and former ones, to what it means."""
    found: dict[str, str] = {}
    for meaning, one in side.metrics.items():
        for name in (*one.names, *one.formerly):
            found.setdefault(name, meaning)
    return found


# --- Routes ---------------------------------------------------------------------------------------------------------


def _routes(case: Case, names: NamesUsed) -> Iterator[Hit]:
    source, target = case.source, case.target
    for path, places in names.routes.items():
        purposes = [purpose for purpose, route in source.routes.items() if _path(route) == path]
        if not purposes:
            _beside(case, path, places)
            continue
        if any(purpose in _HEALTH for purpose in purposes):
            yield from _health(case, path, places)
            continue
        there = [target.routes[purpose] for purpose in purposes if purpose in target.routes]
        if not there:
            case.skipped(f"{path} on {target.title}: its surface says nothing of it")
        elif not any(_path(route) == path for route in there):
            yield _route(case, path, source.routes[purposes[0]], there[0], places)
        else:
            yield from _behind_a_flag(case, path, source.routes[purposes[0]], there[0], places)


def _beside(case: Case, path: str, places: Sequence[str]) -> None:
    """A route that the source's table has only in a note, or that is another engine's."""
    if not any(path in route.note.replace(";", " ").replace(",", " ").split() for route in case.source.routes.values()):
        return
    if path in {_path(route) for route in case.target.routes.values()}:
        return
    case.skipped(f"{path} ({', '.join(places[:3])}): no table says whether {case.target.title} has it")


def _route(case: Case, path: str, here: Route, there: Route, places: Sequence[str]) -> Hit:
    source, target = case.source, case.target
    sources = _sources((source, here), (target, there))
    if not there.path:
        return hit(
            RENAMED,
            "lost",
            "warning",
            features=[f"route {path}"],
            seen=f"{target.title} has no such route{f' ({there.note})' if there.note else ''}. {_stands(places)}",
            fix="Do without it, or do it outside the engine.",
            sources=sources,
        )
    needs = f" It needs {there.needs}." if there.needs else ""
    return hit(
        RENAMED,
        "translated",
        "warning",
        features=[f"route {path}"],
        seen=f"{_stands(places)} {target.title} serves it elsewhere.",
        fix=f"Ask {there.method} {there.path}{f' ({there.note})' if there.note else ''}.{needs}",
        sources=sources,
    )


def _behind_a_flag(case: Case, path: str, here: Route, there: Route, places: Sequence[str]) -> Iterator[Hit]:
    if there.needs and there.needs != here.needs:
        yield hit(
            RENAMED,
            "translated",
            "warning",
            features=[f"route {path}"],
            seen=f"{_stands(places)} {case.target.title} serves it only when it is switched on.",
            fix=f"Start {case.target.title} with {there.needs}.",
            sources=_sources((case.target, there)),
            needs=(there.needs,),
        )


def _health(case: Case, path: str, places: Sequence[str]) -> Iterator[Hit]:
    source, target = case.source, case.target
    there = target.routes.get("health")
    if there is None:
        case.skipped(f"{path} on {target.title}: its surface says nothing of it")
        return
    changes: list[str] = []
    if path not in {_path(route) for route in target.routes.values()}:
        changes.append(f"{target.title} does not serve it: {there.path or 'it has no such route'}.")
    mine, other = source.traits.get("health_check"), target.traits.get("health_check")
    if mine is not None and other is not None and mine.value != other.value:
        does = "runs a token" if other.value == "runs_token" else "only answers"
        says = f" ({other.says[:1].lower()}{other.says[1:].rstrip('.')})" if other.says else ""
        changes.append(f"There it {does}{says}.")
    begins, starts = source.errors.get("starting"), target.errors.get("starting")
    if begins is not None and starts is not None and begins.status != starts.status:
        changes.append(f"While the model loads {_answers(starts.status)}, where {_answers(begins.status)} today.")
    if not changes:
        return
    flag = f" {other.flag} changes that." if other is not None and other.flag else ""
    yield hit(
        HEALTH,
        "translated" if there.path else "lost",
        "warning",
        features=[f"route {path}"],
        seen=f"{_stands(places)} {' '.join(changes)}",
        fix=f"Choose the probe's route, period and threshold for {target.title}"
        f"{f' ({there.path}: {there.note})' if there.note else ''}.{flag}",
        sources=_sources((source, source.routes["health"]), (target, there)) if "health" in source.routes else (),
    )


def _answers(status: int) -> str:
    return f"it answers {status}" if status else "the connection is refused"


def _path(route: Route) -> str:
    return route.path.partition("?")[0]


# --- Errors ---------------------------------------------------------------------------------------------------------


def _error_body(case: Case, names: NamesUsed) -> Iterator[Hit]:
    here, there = case.source.traits.get("error_shape"), case.target.traits.get("error_shape")
    if here is None or there is None or here.value == there.value:
        return
    for shape, places in names.error_shapes.items():
        if shape == here.value:
            yield hit(
                ERROR_BODY,
                "translated",
                "warning",
                features=["error body"],
                seen=f"{_stands(places)} Errors are {shape} today. {case.target.title}: {there.value}, {there.says}",
                fix="Read both shapes.",
                sources=_sources((case.source, here), (case.target, there)),
            )


def _noted(one: Metric) -> str:
    return f" ({one.note})" if one.note else ""


def _stands(places: Sequence[str], shown: int = 3) -> str:
    more = f" and {len(places) - shown} more places" if len(places) > shown else ""
    return f"It stands in {', '.join(places[:shown])}{more}."


def _sources(*told: tuple[Surface, Statement]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(side.source_of(statement) for side, statement in told))


CHECK = Check(kinds=(RENAMED, BUCKETS, ERROR_BODY, HEALTH), look=_look)
