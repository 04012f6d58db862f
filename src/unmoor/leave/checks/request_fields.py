"""Fields of requests: each taken as it is, spelled otherwise, ignored or refused on the other side; and its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from unmoor.engines.surface.load import known_surfaces, surface
from unmoor.engines.surface.surface import Domain, Endpoint, Scalar, Source, Spelling, Statement, Surface
from unmoor.engines.surface.translate import WITHOUT_EFFECT, Way, way_to_say
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.checks import priority, schemas, seeds, tool_choice
from unmoor.leave.finding import Kind, threads
from unmoor.leave.reading.values import LIST, OBJECT
from unmoor.leave.starting.needs import said_needs
from unmoor.leave.uses import ABSENT, Rows, Use

DOMAIN = Kind(
    id="UM104",
    name="value-out-of-domain",
    title="A sampling value that the other engine does not take",
    bites="Engines give the same parameter different ranges and different values for off: -1 and 0 for top_k, say. "
    "A value from outside is refused, clamped, or has crashed the server.",
    look="Every distinct value in the traffic is compared with the range that the target takes.",
    mend="Translate the values that switch a parameter off; change the others before the move.",
    threads=threads("NVIDIA/TensorRT-LLM#6329", "NVIDIA/TensorRT-LLM#7692"),
)
REFUSED = Kind(
    id="UM105",
    name="field-refused",
    title="A field that the other engine answers with an error",
    bites="Three of the engines ignore a field that they do not know; one refuses the whole request with status 400, "
    "so that clients which worked for years fail at once.",
    look="Every field in the traffic is looked up in the target's list of fields.",
    mend="Leave the field out where the source ignored it; translate it where the target has another name for it.",
    threads=threads("CherryHQ/cherry-studio#12450", "NVIDIA/TensorRT-LLM#9709"),
)
UNCONSTRAINED = Kind(
    id="UM106",
    name="constraint-vanishes",
    title="A schema, regex, grammar or choice that the other engine does not see",
    bites="A constraint under a name that the engine does not know is ignored like any other field: the answer comes "
    "with status 200 and is not constrained.",
    look="The concept behind each constraint is looked up among the target's spellings.",
    mend="Translate it to the target's name; where it has none, say the same as a JSON schema or a regex, or validate "
    "answers yourself.",
    threads=threads("vllm-project/vllm#53975", "dottxt-ai/outlines#1887", "mudler/LocalAI PR#10343"),
)
IGNORED = Kind(
    id="UM124",
    name="field-ignored",
    title="A field that has an effect on one side only",
    bites="A field that is ignored without a word on one side and honoured on the other changes answers, and nobody "
    "is told. Which fields those are changes between versions of one engine as well.",
    look="Every field in the traffic is looked up in both sides' lists of fields.",
    mend="Leave out what the source ignored; find another way for what the target ignores.",
    threads=threads("vllm-project/vllm#10463", "vllm-project/vllm#12864"),
)
RENAMED = Kind(
    id="UM139",
    name="field-renamed",
    title="A field that the other engine has under another name",
    bites="The engines agree on OpenAI's fields and spell their own additions each in its own way.",
    look="The concept behind each field is looked up among the target's spellings.",
    mend="Translate the field; the rule says where its content goes.",
)
TODAY = Kind(
    id="UM156",
    name="unconstrained-today",
    title="A schema, regex, grammar or choice that constrains nothing today",
    bites="Fields that an engine does not know are ignored without a word. A constraint in one, as guided_json "
    "since vLLM took structured_outputs in its place, comes back with status 200 and is not enforced: today, before "
    "any move.",
    look="Fields that any engine, or an older version of one, reads as a constraint are looked up in the source's list "
    "of fields.",
    mend="Send it under the name that the engine reads; the finding says which, on both sides.",
)
NEEDS_FLAG = Kind(
    id="UM140",
    name="field-needs-flag",
    title="A field that has its effect only where the server was started for it",
    bites="Some fields are refused or ignored unless a flag of the server switches them on.",
    look="The target's spelling names the flag that it needs.",
    mend="Start the target with the flag.",
)

_NOT_TOLD = (None, OBJECT, LIST)
"""Values of which no domain says anything."""

CONSTRAINTS = frozenset(("json_schema", "json_object", "regex", "grammar", "choice", "structural_tag"))


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of one endpoint, with all its values in the traffic."""

    place: Endpoint
    path: str
    values: Mapping[Scalar, Rows]

    @property
    def name(self) -> str:
        return f"{self.place}.{self.path}"

    @property
    def rows(self) -> Rows:
        return Rows.union(self.values.values())


def _look(case: Case) -> Iterator[Hit]:
    for field in _fields(case):
        if unknown := [side.title for side in (case.source, case.target) if field.place not in side.fields]:
            case.skipped(f"{field.place}: which fields {' and '.join(unknown)} takes there is not known")
            continue
        concepts = _concepts(case.source, field)
        if concepts:
            for concept, rows in concepts.items():
                yield from _known(case, field, concept, rows)
        elif "." not in field.path and not _is_payload(case.source, field.path):
            yield from _plain(case, field)
        if concepts or _has(case.source, field):
            yield from _values(case, field, next(iter(concepts), field.path))


def _fields(case: Case) -> Iterable[_Field]:
    """The traffic's fields, in the order in which they were first met; messages and tools have checks of their own."""
    found: dict[tuple[Endpoint, str], dict[Scalar, Rows]] = {}
    for use, rows in case.uses.by_use.items():
        place = use.place
        if place == "answer" or use.value == ABSENT or _elsewhere(use):
            continue
        found.setdefault((place, use.path), {})[use.value] = rows
    return [_Field(place, path, values) for (place, path), values in found.items()]


def _elsewhere(use: Use) -> bool:
    return use.path == "prompt" or use.path.startswith(("messages.", "tools.", "prompt.", "chat_template_kwargs."))


def _concepts(source: Surface, field: _Field) -> dict[str, Rows]:
    """The concepts that this field is on the source, each with the requests that mean it; none where it is ignored."""
    found: dict[str, list[Rows]] = {}
    if field.path.partition(".")[0] not in source.fields[field.place]:
        return {}
    for concept, spelling in source.spellings.items():
        for value, rows in field.values.items():
            if value is not None and spelling.is_at(field.path, value):
                found.setdefault(concept, []).append(rows)
    return {concept: Rows.union(rows) for concept, rows in found.items()}


def _is_payload(source: Surface, path: str) -> bool:
    """Whether the field only holds what other fields of the source mean: their object, or their content."""
    return any(
        path == spelling.payload or spelling.path.startswith(f"{path}.") for spelling in source.spellings.values()
    )


def _known(case: Case, field: _Field, concept: str, rows: Rows) -> Iterator[Hit]:
    """A field that means something on the source."""
    target = case.target
    spelling = target.spellings.get(concept)
    if concept == "priority" and priority.tells(case) and (spelling is None or spelling.absent):
        return
    if spelling is None:
        yield from _plain(case, field)
    elif spelling.absent or field.place not in spelling.endpoints:
        yield from _otherwise(case, field, concept, rows, spelling)
    elif not _same_place(spelling, field):
        kind = UNCONSTRAINED if concept in CONSTRAINTS else RENAMED
        yield hit(
            kind,
            "translated",
            "error" if concept in CONSTRAINTS or _refuses(target) else "warning",
            features=[field.name],
            rows=rows,
            seen=f"`{field.path}` is {_fate(target)} on {target.title}.",
            fix=f"`{field.path}` goes to {spelling.goes_to}{_noted(spelling)}.",
            sources=_sources(target, spelling, target.unknown_fields),
        )
    if spelling is not None and not spelling.absent and spelling.needs and not _already(case, concept):
        yield hit(
            NEEDS_FLAG,
            "translated",
            "warning",
            features=[field.name],
            rows=rows,
            seen=f"Without {spelling.needs} {target.title} does not act on it.",
            fix=f"Start {target.title} with {said_needs(target, spelling.needs)}.",
            sources=_sources(target, spelling),
            needs=(spelling.needs,),
        )


def _already(case: Case, concept: str) -> bool:
    """Whether its flag is told elsewhere, with the whole story, or the source needs the same: its start has it then."""
    told = {"priority": priority.tells, "seed": seeds.tells_flag}.get(concept)
    if (told is not None and told(case)) or (concept in CONSTRAINTS and schemas.without_backend(case)):
        return True
    return case.source.engine == case.target.engine and (
        case.source.spellings[concept].needs == case.target.spellings[concept].needs
    )


def _same_place(spelling: Spelling, field: _Field) -> bool:
    return any(spelling.is_at(field.path, value) for value in field.values if value is not None)


def _otherwise(case: Case, field: _Field, concept: str, rows: Rows, spelling: Spelling) -> Iterator[Hit]:
    """A concept that the target has not, or not on this endpoint: said as something that comes to the same, or lost."""
    way = way_to_say(concept, case.target, field.place)
    if way is None:
        yield _gone(case, field, concept, rows, spelling)
    elif way.path != field.path:
        yield _said_otherwise(case, field, concept, rows, way)


def _said_otherwise(case: Case, field: _Field, concept: str, rows: Rows, way: Way) -> Hit:
    return hit(
        UNCONSTRAINED if concept in CONSTRAINTS else RENAMED,
        "translated",
        "error" if concept in CONSTRAINTS or _refuses(case.target) else "warning",
        features=[field.name],
        rows=rows,
        seen=f"`{field.path}` is {_fate(case.target)} on {case.target.title}.",
        fix=f"The same can be said there: it goes to {way.said}.",
        sources=_sources(case.target, case.target.spellings[concept], way.spelling),
    )


def _gone(case: Case, field: _Field, concept: str, rows: Rows, spelling: Spelling) -> Hit:
    """A concept that the target has not, or not on this endpoint."""
    target = case.target
    where = f" on {field.place}" if not spelling.absent else ""
    sources = _sources(target, spelling, target.unknown_fields)
    if concept in WITHOUT_EFFECT:
        return _droppable(case, field, rows, sources)
    constrains = concept in CONSTRAINTS
    kind = UNCONSTRAINED if constrains else REFUSED if _refuses(target) else IGNORED
    return hit(
        kind,
        "lost",
        "error" if constrains or _refuses(target) else "warning",
        features=[field.name],
        rows=rows,
        seen=f"{target.title} has no such thing{where}: `{field.path}` is {_fate(target)}.",
        fix=f"Do without it, or do it outside the engine{f' ({spelling.note})' if spelling.note else ''}.",
        sources=sources,
    )


def _plain(case: Case, field: _Field) -> Iterator[Hit]:
    """A field that is nothing but its name: looked up in both sides' lists."""
    source, target = case.source, case.target
    here, there = _has(source, field), _has(target, field)
    if there is here is True:
        return
    rows = field.rows
    if here and field.path in WITHOUT_EFFECT:
        yield _droppable(case, field, rows, _sources(target, target.unknown_fields))
    elif here:
        yield hit(
            REFUSED if _refuses(target) else IGNORED,
            "lost",
            "error" if _refuses(target) else "warning",
            features=[field.name],
            rows=rows,
            seen=f"{target.title} does not know `{field.path}`: it is {_fate(target)}.",
            fix="Do without it, or do it outside the engine.",
            sources=_sources(target, target.unknown_fields),
        )
    elif not _refuses(source):
        yield from _unknown_here(case, field, there=there, rows=rows)


def _unknown_here(case: Case, field: _Field, *, there: bool, rows: Rows) -> Iterator[Hit]:
    """A field that the source ignores today."""
    source, target = case.source, case.target
    sources = [*_sources(source, source.unknown_fields), *_sources(target, target.unknown_fields)]
    if there:
        yield hit(
            IGNORED,
            "translated",
            "warning",
            features=[field.name],
            rows=rows,
            seen=f"`{field.path}` is ignored by {source.title} today, and acted on by {target.title}.",
            fix="Leave it out to keep today's answers.",
            sources=sources,
        )
    elif (named := _meant_by(field.path)) in CONSTRAINTS and named is not None:
        yield hit(
            TODAY,
            "translated" if _refuses(target) else "same",
            "error",
            features=[field.name],
            rows=rows,
            seen=f"`{field.path}` is ignored without a word by {source.title} {source.version}: these answers are not "
            f"constrained today. On {target.title} it is {_fate(target)}.",
            fix=_named_on_both(case, field.place, named),
            sources=sources,
        )
    elif _refuses(target):
        yield _droppable(case, field, rows, sources)
    else:
        yield hit(
            IGNORED,
            "same",
            "note",
            features=[field.name],
            rows=rows,
            seen=f"`{field.path}` is ignored by both sides.",
            fix=_named_on_both(case, field.place, named) if named and named not in WITHOUT_EFFECT else "Leave it out.",
            sources=sources,
        )


def _named_on_both(case: Case, place: Endpoint, concept: str) -> str:
    """How each side is told a concept; that it may be left out, where neither has it."""
    said: list[str] = []
    for side in (case.source, case.target):
        way = way_to_say(concept, side, place)
        if way is not None:
            others = way.spelling.also if way.path == way.spelling.path and concept in side.spellings else ()
            also = "".join(f", or in `{path}`" for path in others)
            said.append(f"{side.title} reads it in {way.said}{also}")
        else:
            said.append(f"{side.title} has no such thing")
    if all(way_to_say(concept, side, place) is None for side in (case.source, case.target)):
        return f"Leave it out: {case.source.title} and {case.target.title} have no such thing."
    return f"{'; '.join(said)}."


def _droppable(case: Case, field: _Field, rows: Rows, sources: Iterable[Source]) -> Hit:
    """A field without effect on the source, which a target that refuses unknown fields must not see."""
    target = case.target
    refused = _refuses(target)
    return hit(
        REFUSED if refused else IGNORED,
        "translated" if refused else "same",
        "error" if refused else "note",
        features=[field.name],
        rows=rows,
        seen=f"`{field.path}` has no effect on {case.source.title}, and is {_fate(target)} on {target.title}.",
        fix="Leave it out.",
        sources=tuple(sources),
    )


def _values(case: Case, field: _Field, concept: str) -> Iterator[Hit]:
    """Values that the target does not take, though the source does."""
    domain = case.target.domains.get(concept)
    if domain is None:
        return
    own = case.source.domains.get(concept)
    for value, rows in field.values.items():
        if field.path == "tool_choice" and tool_choice.tells(case, value):
            continue
        if value in _NOT_TOLD or domain.takes(value) or (own is not None and not own.takes(value)):
            continue
        off = own is not None and value in own.off and domain.off
        yield hit(
            DOMAIN,
            "translated" if off or domain.outside == "clamped" else "lost",
            "error" if domain.outside in {"refused", "crashes"} else "warning",
            features=[field.name],
            rows=rows,
            seen=f"{value} is {_outcome_of(domain)} by {case.target.title}, which takes {_taken(domain)}.",
            fix=f"{value} becomes {domain.off[0]}, which switches it off there." if off else _changed(domain),
            sources=_sources(case.target, domain),
        )


def _outcome_of(domain: Domain) -> str:
    return "answered with a crash" if domain.outside == "crashes" else domain.outside


def _changed(domain: Domain) -> str:
    return f"Send a value that it takes{f' ({domain.note})' if domain.note else ''}."


def _taken(domain: Domain) -> str:
    """The values that are taken, in words."""
    if domain.only:
        return " or ".join(map(str, (*domain.only, *domain.also)))
    low = "" if domain.low is None else f"{'above' if domain.low_open else 'from'} {domain.low:g}"
    high = "" if domain.high is None else f"{'below' if domain.high_open else 'to'} {domain.high:g}"
    listed = dict.fromkeys((*domain.also, *domain.off))
    besides = [str(value) for value in listed if not _in_range(domain, value)]
    return " ".join(part for part in (low, high, f"and {', '.join(besides)}" if besides else "") if part) or "others"


def _in_range(domain: Domain, value: Scalar) -> bool:
    return domain.low is not None and msgspec.structs.replace(domain, also=(), off=(), only=()).takes(value)


def _has(one: Surface, field: _Field) -> bool:
    spelled = any(
        field.place in spelling.endpoints and field.path in {spelling.path.partition(".")[0], *spelling.also}
        for spelling in one.spellings.values()
        if not spelling.absent
    )
    return spelled or field.path in one.fields.get(field.place, ())


def _meant_by(path: str) -> str | None:
    """The concept that any known engine spells so; vLLM's `guided_*` until 0.11 among them."""
    if path.startswith("guided_"):
        return {"json": "json_schema"}.get(kind := path.removeprefix("guided_"), kind)
    for engine in known_surfaces():
        for concept, spelling in surface(engine).spellings.items():
            if path in {spelling.path, *spelling.also}:
                return concept
    return None


def _refuses(one: Surface) -> bool:
    return one.unknown_fields.value == "refused"


def _fate(one: Surface) -> str:
    return "refused with an error" if _refuses(one) else "ignored without a word"


def _noted(spelling: Spelling) -> str:
    return f" ({spelling.note})" if spelling.note else ""


def _sources(one: Surface, *statements: Statement) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(one.source_of(statement) for statement in statements))


CHECK = Check(kinds=(DOMAIN, REFUSED, UNCONSTRAINED, TODAY, IGNORED, RENAMED, NEEDS_FLAG), look=_look)
