"""Schemas, regexes, grammars and choices: what the other side's grammar layer enforces, leaks, blocks or refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from unmoor.core.plural import plural
from unmoor.engines.surface.surface import Source, Surface
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind, Outcome, Severity, threads
from unmoor.leave.schemas.answers import Keyword, SchemaAnswer, Verdict
from unmoor.leave.schemas.backends import is_without_backend
from unmoor.leave.schemas.in_effect import in_effect, is_read
from unmoor.leave.schemas.table import TABLE, entry
from unmoor.leave.starting.needs import said_needs
from unmoor.leave.uses import Rows

KEYWORD = Kind(
    id="UM116",
    name="schema-keyword",
    title="A keyword of a schema that the other engine's grammar layer does not enforce, or enforces too much",
    bites="Grammar layers each enforce a part of JSON Schema. A keyword outside of it is dropped without a word: the "
    "answer comes with status 200 and breaks the schema. Some keywords also keep valid answers out.",
    look="Each distinct schema is compiled with the library that the target gives it to, where that is installed, and "
    "tried keyword by keyword: with values that only this keyword keeps out, and with valid ones. Else by the table.",
    mend="Validate answers against the schema yourself, or say the same with keywords that are enforced on both sides.",
    threads=threads(
        "sgl-project/sglang PR#37839", "vllm-project/vllm#16880", "vllm-project/vllm#56556", "mlc-ai/xgrammar#192"
    ),
)
EXTRA = Kind(
    id="UM135",
    name="extra-properties",
    title="Properties that a schema does not name, kept out on one side and let in on the other",
    bites="JSON Schema lets further properties in where additionalProperties is not said. Some libraries follow it, "
    "others keep them out; and an engine that chooses its library by the schema does both.",
    look="Where additionalProperties is not said, an answer with one more property is tried on both sides.",
    mend="Say additionalProperties: false, or true, in the schema: then both sides do the same.",
)
REFUSED = Kind(
    id="UM136",
    name="schema-refused",
    title="A schema, regex, grammar or list of choices that the other engine refuses",
    bites="A constraint that the library cannot compile, or that the server has on its list of what it does not take, "
    "is answered with status 400: every request with it fails. Where both sides refuse it and the log has answers to "
    "it all the same, another version or another backend served the log than the one that was compared.",
    look="Each distinct constraint is compiled with the target's library, and its keywords are looked up in what the "
    "server refuses by itself.",
    mend="Leave the keyword out and validate answers yourself, or choose another backend of the target, if it has one.",
    threads=threads("sgl-project/sglang PR#37839", "vllm-project/vllm#12201"),
)
TOO_LARGE = Kind(
    id="UM137",
    name="schema-too-large",
    title="A schema that explodes",
    bites="Large bounds, deep nesting and long lists make grammars that take seconds and gigabytes to compile, while "
    "the requests beside them wait.",
    look="Each constraint is compiled in a process of its own with bounded time and memory; what is deeper or larger "
    "than can be tried is not compiled.",
    mend="Bound lengths and lists in your own validation instead of the schema; flatten what is nested.",
)
NO_BACKEND = Kind(
    id="UM138",
    name="no-backend-configured",
    title="Constraints, and an engine that enforces none unless it is configured",
    bites="Without a configured backend for guided decoding, requests with a schema fail, or are answered without it.",
    look="The target's surface tells what enforces constraints by default. Constraints under a field that the source "
    "ignores do not count: they constrain nothing today.",
    mend="Configure a backend when you start the target.",
)

_WORSE: Mapping[Verdict, int] = {"enforced": 0, "unknown": 0, "blocks": 1, "leaks": 2, "refused": 3}


@dataclass(slots=True)
class _Group:
    """Constraints of which the same is said."""

    keys: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    keywords: set[str] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)
    rows: Rows = field(default_factory=Rows)


class _About(NamedTuple):
    """What is said: of which keyword, what the source did, what the target does, and who told that of the target."""

    kind: str
    keyword: str
    was: Verdict
    now: Verdict
    by: str


def _look(case: Case) -> Iterator[Hit]:
    answers = case.schemas
    if answers is None:
        return
    case.not_looked_at.extend(one for one in answers.not_asked if one not in case.not_looked_at)
    rows = in_effect(case.uses, case.source, answers.target)
    if is_without_backend(case.target):
        if is_without_backend(case.source):
            return
        yield from _without_backend(case, list(rows), rows)
    groups: dict[_About, _Group] = {}
    for key in rows:
        target = answers.target[key]
        for about, keywords in _said(answers.source[key], target):
            group = groups.setdefault(about, _Group())
            group.keys.append(key)
            group.places += [f"{key} at {one.at or '/'}" for one in keywords]
            group.keywords |= {one.keyword for one in keywords}
            group.notes |= {one.note for one in keywords if one.note} | ({target.note} if target.note else set())
    for about, group in groups.items():
        yield _told(case, about, group, rows)


def without_backend(case: Case) -> bool:
    """Whether it is told here that the target enforces no constraint unless a backend is configured."""
    if case.schemas is None or not is_without_backend(case.target) or is_without_backend(case.source):
        return False
    return bool(in_effect(case.uses, case.source, case.schemas.target))


def _said(source: SchemaAnswer, target: SchemaAnswer) -> Iterator[tuple[_About, tuple[Keyword, ...]]]:
    """What is to be said of one constraint: nothing where the target does no worse than the source.

    That a target has no regex, grammar or choices at all is said by the check of request fields.
    """
    if target.too_large:
        if target.by != TABLE:  # what was not compiled at all is told as not looked at
            yield _About(TOO_LARGE.id, "", _large(source), _large(target), target.by), ()
        return
    if target.verdict == "refused":
        if not (target.by == TABLE and not target.keywords):
            refused = tuple(one for one in target.keywords if one.verdict == "refused")
            name = refused[0].keyword if refused else ""
            yield _About(REFUSED.id, name, source.verdict, "refused", target.by), refused
        return
    before = {(one.keyword, one.at): one.verdict for one in source.keywords}
    otherwise = "enforced" if source.keywords and source.verdict != "refused" else source.verdict
    for keyword in target.keywords:
        was = before.get((keyword.keyword, keyword.at), otherwise)
        if _WORSE[keyword.verdict] > _WORSE[was]:
            by = TABLE if keyword.note == "by the table" else target.by
            yield _About(KEYWORD.id, keyword.keyword, was, keyword.verdict, by), (keyword,)
    if None not in {source.strict_objects, target.strict_objects} and source.strict_objects != target.strict_objects:
        strict: Verdict = "blocks" if target.strict_objects else "enforced"
        yield _About(EXTRA.id, "", "enforced" if target.strict_objects else "blocks", strict, target.by), ()


def _large(answer: SchemaAnswer) -> Verdict:
    return "refused" if answer.too_large and answer.by != TABLE else "unknown" if answer.too_large else "enforced"


def _told(case: Case, about: _About, group: _Group, rows: Mapping[str, Rows]) -> Hit:
    group.rows = Rows.union(rows[key] for key in group.keys)
    if about.kind == KEYWORD.id:
        return _keyword(case, group, about)
    if about.kind == EXTRA.id:
        return _extra(case, group, about)
    if about.kind == TOO_LARGE.id:
        return _too_large(case, group, about)
    return _refused(case, group, about) if about.was != "refused" else _refused_by_both(case, group, about)


def _keyword(case: Case, group: _Group, about: _About) -> Hit:
    then = {"enforced": "enforces it", "unknown": "was not tried", "blocks": "keeps valid answers out"}[about.was]
    leaks = about.now == "leaks"
    does = "lets answers through that break it, with status 200" if leaks else "keeps valid answers out by it"
    return _hit(
        case,
        group,
        about,
        "lost",
        "error" if leaks else "warning",
        seen=f"{_many(case, group)} {_use(group)} {about.keyword}: {case.target.title} {does}; "
        f"{case.source.title} {then}. {_where(group)}",
        fix=KEYWORD.mend,
    )


def _extra(case: Case, group: _Group, about: _About) -> Hit:
    kept_out = about.now == "blocks"
    does = "keeps them out: models can no longer add any" if kept_out else "lets them in: answers may have more"
    names = "they do" if _plural(group) else "it does"
    return _hit(
        case,
        group,
        about,
        "translated",
        "warning",
        seen=f"{_many(case, group)} {_say(group)} nothing of properties that {names} not name: "
        f"{case.target.title} {does}.",
        fix="say additionalProperties: false, or true, in the schema",
    )


def _refused(case: Case, group: _Group, about: _About) -> Hit:
    why = f": {', '.join(sorted(group.keywords))}" if group.keywords else ""
    notes = f" ({'; '.join(sorted(group.notes))})" if group.notes else ""
    them = "them" if _plural(group) else "it"
    return _hit(
        case,
        group,
        about,
        "lost",
        "error",
        seen=f"{_many(case, group)}: {case.target.title} refuses {them}{why}{notes}. {_where(group)}".rstrip(),
        fix=REFUSED.mend,
    )


def _refused_by_both(case: Case, group: _Group, about: _About) -> Hit:
    """Nothing changes; but answers in the log to what the surface refuses say that the source is not what was named."""
    why = f": {', '.join(sorted(group.keywords))}" if group.keywords else ""
    them = "them" if _plural(group) else "it"
    answered = group.rows.both(case.uses.pair("answered"))
    both = f"{_many(case, group)}: {case.source.title} and {case.target.title} both refuse {them}{why}."
    contradicts = f" Yet the log has answers to {plural(len(answered), 'request')} with {them}." if answered else ""
    return _hit(
        case,
        group,
        about,
        "same",
        "warning" if answered else "note",
        seen=f"{both}{contradicts} {_where(group)}".rstrip(),
        fix=f"Look which version and which backend serves today: it is not {case.source.title} {case.source.version} "
        "as it was compared here. Name it with --from, and check again."
        if answered
        else "Requests with it fail today as well: leave the keyword out, or drop the constraint.",
    )


def _too_large(case: Case, group: _Group, about: _About) -> Hit:
    what = "; ".join(sorted(group.notes))
    tried = about.now == "refused"
    lost = tried and about.was != "refused"
    severity: Severity = "error" if lost else "warning" if tried else "note"
    end = f"{case.target.title} would meet the same" if tried else "it was not compiled here, so nothing is known of it"
    return _hit(
        case,
        group,
        about,
        "lost" if lost else "same",
        severity,
        seen=f"{_many(case, group)} {'explode' if _plural(group) else 'explodes'} ({what}): {end}.",
        fix=TOO_LARGE.mend,
    )


def _without_backend(case: Case, keys: list[str], rows: Mapping[str, Rows]) -> Iterator[Hit]:
    if not keys:
        return
    trait = case.target.traits["structured_backends"]
    objects = case.uses.which("response_format.type", "json_object")
    group = _Group(keys=keys, rows=Rows.union((*rows.values(), objects)))
    yield _hit(
        case,
        group,
        _About(NO_BACKEND.id, "structured_backends", "enforced", "refused", TABLE),
        "translated",
        "error",
        seen=f"{_many(case, group)}{' and requests for any JSON object' if objects else ''}: {case.target.title} "
        f"enforces none unless a backend is configured. {trait.says}".rstrip(),
        fix=f"Start {case.target.title} with {said_needs(case.target, trait.flag)}." if trait.flag else NO_BACKEND.mend,
        fields=_fields(case),
        needs=(trait.flag,),
    )


def _fields(case: Case) -> list[str]:
    """The fields that bring constraints, by the names of their features."""
    brought = (f"{at.place}.{at.path}" for at in case.uses.constraints_at if is_read(case.source, at.place, at.path))
    typed = (use.feature for use in case.uses.of("response_format.type") if use.value not in {"text", None})
    return sorted({*brought, *typed})


def _hit(
    case: Case,
    group: _Group,
    about: _About,
    outcome: Outcome,
    severity: Severity,
    *,
    seen: str,
    fix: str,
    fields: Iterable[str] = (),
    needs: Iterable[str] = (),
) -> Hit:
    keys = dict.fromkeys(group.keys)
    return hit(
        next(kind for kind in CHECK.kinds if kind.id == about.kind),
        outcome,
        severity,
        features=(*[f"schema {key}" for key in keys], *fields),
        seen=seen,
        fix=fix,
        rows=group.rows,
        sources=tuple(_sources(case.target, (about.keyword,) if about.keyword else _kinds(case, group))),
        by=about.by,
        needs=tuple(needs),
    )


def _sources(side: Surface, features: Iterable[str]) -> Iterator[Source]:
    for feature in features:
        told = side.traits.get(feature) or entry(side, feature, ())
        if told is not None and told.source in side.sources:
            yield side.source_of(told)


def _kinds(case: Case, group: _Group) -> list[str]:
    kinds = case.schemas.kinds if case.schemas else {}
    return sorted({kinds.get(key, "json_schema") for key in group.keys})


_NAMED = {
    "json_schema": ("schema", "schemas"),
    "regex": ("regex", "regexes"),
    "grammar": ("grammar", "grammars"),
    "choice": ("list of choices", "lists of choices"),
    "structural_tag": ("structural tag", "structural tags"),
}


def _many(case: Case, group: _Group) -> str:
    """How many constraints, of which kind."""
    kinds = _kinds(case, group)
    one, several = _NAMED[kinds[0]] if len(kinds) == 1 else ("constraint", "constraints")
    count = len(set(group.keys))
    return f"{count} {one if count == 1 else several}"


def _where(group: _Group) -> str:
    """The first places, by the constraints' keys."""
    if not group.places:
        return ""
    more = f" and {len(group.places) - 3} more" if len(group.places) > 3 else ""  # noqa: PLR2004
    return f"First: {', '.join(group.places[:3])}{more}."


def _plural(group: _Group) -> bool:
    return len(set(group.keys)) != 1


def _use(group: _Group) -> str:
    return "use" if _plural(group) else "uses"


def _say(group: _Group) -> str:
    return "say" if _plural(group) else "says"


CHECK = Check(kinds=(KEYWORD, EXTRA, REFUSED, TOO_LARGE, NO_BACKEND), look=_look)
