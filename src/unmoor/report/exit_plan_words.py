"""How an exit plan reads: the words that its Markdown and its page share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from unmoor.core.plural import plural
from unmoor.leave.checkpoint.support import plainly
from unmoor.leave.exit_plan.exit_plan import (
    CitedFact,
    EngineOnly,
    ExitPlan,
    HardwareKind,
    OnEngine,
    Place,
    Side,
    Step,
    There,
    WeightFile,
    Weights,
)
from unmoor.leave.exit_plan.places import title_of
from unmoor.leave.finding import MoveReport
from unmoor.report.move_words import verdict

NOT_RECORDED = "not recorded"

_LOADS: Mapping[str, str] = {
    "native": "native",
    "fallback": "fallback",
    "refused": "refused",
    "unknown": "not known",
    "elsewhere": "outside its own release",
    "not supported": "no",
}
_LOADS_CLASSES: Mapping[str, str] = {"native": "passes", "refused": "fails", "not supported": "fails"}
_SUBJECTS: Mapping[str, str] = {
    "licence": "licence",
    "bundled_licences": "licences in its tree",
    "governance": "stewardship",
    "security_policy": "security contact",
    "support": "support",
    "hardware": "hardware",
    "hardware_elsewhere": "hardware, elsewhere",
    "newest_version": "newest release",
    "roadmap": "roadmap",
    "engine_build": "engine build",
    "biggest_risk": "its known risk",
}
_ALWAYS_ASKED = ("licence", "bundled_licences", "governance", "security_policy")
_KINDS: Mapping[str, str] = {
    "setting": "Settings that the plan pins",
    "metric": "Metrics, wherever a dashboard, an alert or an autoscaler reads them",
    "route": "Routes, wherever a probe or a client calls them",
}
_SERVES_BY: Mapping[str, str] = {
    "plan": "as the plan records",
    "decision": "the plan does not record which engine serves; this is the one that the decision picks",
    "default": "the plan does not record which engine serves, and the decision picks none; this is its default",
}
_OF_SURFACES = ("nearest_version", "surface_not_run")
_GB = 1e9


def serves_words(plan: ExitPlan) -> str:
    """Which engine serves, and how that is known."""
    return f"{plan.serves.name} ({_SERVES_BY[plan.serves_by]})"


def way_out_words(plan: ExitPlan) -> str:
    """The engine to leave to."""
    named = [side.name for side in plan.others if plan.leave_to is not None and side.is_named(plan.leave_to)]
    if named:
        return ", ".join(named)
    others = ", ".join(side.name for side in plan.others)
    return f"{NOT_RECORDED}; the plan's other candidates are looked at: {others}" if others else NOT_RECORDED


def stale_words(plan: ExitPlan) -> str:
    """How long the page holds, in a sentence."""
    if plan.good_until is None:
        return "Nothing on this page has a date."
    stale = sum(one.stale for one in plan.goes_stale)
    fresh = next((one for one in plan.goes_stale if not one.stale), None)
    until = f"The next goes stale after {fresh.good_until.isoformat()} ({fresh.what})." if fresh else ""
    if stale:
        return (
            f"{plural(stale, 'statement')} of this page {'is' if stale == 1 else 'are'} stale already. {until}".rstrip()
        )
    return f"Good until {plan.good_until.isoformat()}: then the first statement goes stale ({plan.goes_stale[0].what})."


def cost_words(plan: ExitPlan) -> str:
    """What the hardware costs an hour, with its source."""
    cost = plan.cost
    if cost.per_hour is None:
        return f"not known: {cost.source}"
    dated = f", as of {cost.as_of}" if cost.as_of else ", without a date"
    return f"{cost.per_hour:,.2f} {cost.currency} an hour ({cost.source}{dated})"


def place_words(place: Place, plan: ExitPlan) -> tuple[str, str, str]:
    """What, where it lives, and whether it was seen there."""
    seen = {
        "there": f"seen there {plan.made_on.isoformat()}",
        "missing": "not there on this machine",
        "not looked at": "as the plan records it; not looked at",
        "not recorded": "",
    }[place.seen]
    return title_of(place.what), place.where or NOT_RECORDED, seen


def format_words(weights: Weights) -> str:
    """The format of the weights, with what says so, in a sentence."""
    scheme = plainly(weights.scheme) or "no format that is known here"
    if weights.said_in == "plan":
        return f"{scheme}, by the plan's word alone: no folder of weights was looked at."
    parts = [scheme, f"said in {weights.said_in}", f"kept as {weights.container}"]
    parts += [weights.architecture] if weights.architecture else []
    parts += [weights.dtype] if weights.dtype else []
    parts += [f"keys and values in {weights.kv_cache}"] if weights.kv_cache else []
    return f"{', '.join(parts)}; {size_words(weights.weight_bytes)} of tensors."


def size_words(size_bytes: int) -> str:
    """A size with three digits, in GB, MB or bytes."""
    for unit, name in ((_GB, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.3g} {name}"
    return f"{size_bytes} bytes"


def hash_words(file: WeightFile) -> tuple[str, str]:
    """The hash of a file, empty where there is none, and who knows it."""
    if file.changed:
        return file.sha256 or "", f"computed here, and not the {file.recorded} that {file.recorded_in} records"
    if file.sha256 and file.recorded:
        return file.sha256, f"computed here, as {file.recorded_in} records it"
    if file.sha256:
        return file.sha256, "computed here"
    if file.recorded:
        return file.recorded, f"recorded in {file.recorded_in}, not computed"
    return "", "not hashed"


def doubts(report: MoveReport) -> list[str]:
    """What is to be doubted of a check of a move, besides what is said of the engines' surfaces anyway."""
    return [caveat.text for caveat in report.caveats if caveat.code not in _OF_SURFACES]


def move_words(plan: ExitPlan) -> Iterator[tuple[Side, str]]:
    """Each other candidate, and what a move there would do in a sentence."""
    for side, move in zip(plan.others, plan.moves, strict=True):
        yield side, verdict(move.report) if move.report else f"Not checked: {move.why_not}."


def by_kind(plan: ExitPlan) -> Iterator[tuple[str, list[EngineOnly]]]:
    """The names that belong to the engine, under a heading for each kind."""
    for kind, title in _KINDS.items():
        found = [one for one in plan.engine_only if one.kind == kind]
        if found:
            yield title, found


def there_words(there: There) -> str:
    """What a name is called on another engine."""
    match there.standing:
        case "unknown":
            return "not known"
        case "absent":
            return f"none: {there.note}" if there.note else "none"
        case "same":
            return "the same"
        case "renamed":
            return ", ".join(there.names)


def loads_words(on: OnEngine) -> str:
    """What an engine does with the weights, in a few words."""
    said = _LOADS[on.loads]
    ways = [plainly(way) for way in on.ways]
    return f"{said}; natively: {' or '.join(ways)}" if ways else said


def loads_class(on: OnEngine) -> str:
    """The page's class for it."""
    return _LOADS_CLASSES.get(on.loads, "open")


def hardware_notes(kinds: Sequence[HardwareKind], number: int) -> list[str]:
    """What is to be noted of one engine (by its place), each note once with the hardware that it is about."""
    about: dict[str, list[str]] = {}
    for kind in kinds:
        for note in kind.engines[number].notes:
            about.setdefault(note, []).append(kind.title)
    return [f"{note} ({', '.join(titles)})" for note, titles in about.items()]


def surface_sources(plan: ExitPlan) -> list[str]:
    """Where the names and formats on the page were read, each source once."""
    cited = [
        source.cited() for one in plan.engine_only for source in (one.source, *(t.source for t in one.there)) if source
    ]
    cited += [source.cited() for kind in plan.hardware_kinds for on in kind.engines for source in on.sources]
    return list(dict.fromkeys(cited))


def subject_words(subject: str) -> str:
    """A fact's subject in words."""
    return _SUBJECTS.get(subject, subject.replace("_", " "))


def unknown_subjects(side: Side) -> list[str]:
    """What a risk officer asks of every side and no fact answers, in words."""
    known = {fact.subject for fact in side.facts}
    return [subject_words(subject) for subject in _ALWAYS_ASKED if subject not in known]


def fact_words(fact: CitedFact) -> str:
    """The end of a fact's sentence: its kind, source, version and dates."""
    until = f"stale after {fact.good_until.isoformat()}" if fact.stale else f"good until {fact.good_until.isoformat()}"
    return f"{fact.kind.value}: {fact.source}, {fact.version}, seen {fact.as_of.isoformat()}; {until}"


def step_words(step: Step) -> str:
    """What is said of a step, and whose word that is."""
    by = {"plan": " (as the plan records)", "seen": "", "": ""}[step.known_by]
    return f"{step.said}{by}"
