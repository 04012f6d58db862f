"""What each side makes of every distinct constraint: each asked once, of the libraries that serve, or of the table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unmoor.core.errors import UnmoorError
from unmoor.core.plural import plural
from unmoor.engines.surface.surface import Surface
from unmoor.launch.schema_compilers import NAME, Compilers, ask_compilers, compilers
from unmoor.leave.schemas import table
from unmoor.leave.schemas.answers import Keyword, SchemaAnswer, SchemaAnswers, Verdict
from unmoor.leave.schemas.backends import PROBED, backends, backends_for, is_without_backend, pinned
from unmoor.leave.schemas.features import MOST_BYTES, FeaturePlace, Features, features_of
from unmoor.leave.schemas.mutate import Trial, Trials, controls
from unmoor.leave.uses import Constraint, Uses

MOST_ASKED = 1000
MOST_ASKED_BYTES = 4 << 20
"""So many constraints are compiled, those of the most requests first: a library takes some 10 ms for each KiB."""

_TOO_MUCH = {
    "too_slow": "took its library more processor time than one constraint may",
    "too_large": "took its library more memory than one constraint may",
    "crashed": "crashed its library",
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """One constraint, and all that will be asked of a library about it."""

    constraint: Constraint
    text: str
    features: Features
    controls: tuple[str, ...] = ()
    trials: Mapping[FeaturePlace, Trial] = field(default_factory=dict)
    is_left_to_table: bool = False


@dataclass(slots=True)
class _Questions:
    """Distinct questions: a library and a text, each once, with every value that somebody wants to know of."""

    values: dict[tuple[str, str, str], dict[str, int]] = field(default_factory=dict)
    told: dict[tuple[str, str, str], Mapping[str, Any]] = field(default_factory=dict)

    def want(self, library: str, kind: str, text: str, values: Iterable[str]) -> None:
        wanted = self.values.setdefault((library, kind, text), {})
        for value in values:
            wanted.setdefault(value, len(wanted))

    def waiting(self) -> bool:
        """Whether anything has not been asked yet."""
        return len(self.told) < len(self.values)

    def ask(self, where: Compilers) -> None:
        """Asks, at once, all that has not been asked yet."""
        new = [(key, values) for key, values in self.values.items() if key not in self.told]
        numbered = dict(enumerate(new))
        lines = [
            {"id": number, "library": library, "kind": kind, "content": text, "values": list(values)}
            for number, ((library, kind, text), values) in numbered.items()
        ]
        answers = ask_compilers(where, lines)
        self.told |= {key: answers.get(str(number), {}) for number, (key, _) in numbered.items()}

    def outcome(self, library: str, kind: str, text: str) -> Mapping[str, Any]:
        return self.told.get((library, kind, text), {})

    def accepted(self, library: str, kind: str, text: str, values: Iterable[str]) -> list[bool]:
        """Whether each of `values` was let through; [] where it did not compile."""
        told = self.outcome(library, kind, text).get("accepted", [])
        at = self.values.get((library, kind, text), {})
        return [told[at[value]] for value in values] if told else []


def ask_schemas(
    uses: Uses,
    source: Surface,
    target: Surface,
    *,
    more: Sequence[Constraint] = (),
    say: Callable[[str], None],
) -> SchemaAnswers:
    """The answers of both sides for every distinct constraint of the traffic, and for those in `more`.

    A library in the side's own installed environment is asked first, then one in `schema-compilers`; where there is
    neither, the surface's table answers. Sides whose library has the same version are asked together. `say` is told
    what is asked of whom.
    """
    constraints = {one.key: one for one in (*uses.constraints.values(), *more)}
    if not constraints:
        return SchemaAnswers({}, {})
    trials = Trials()
    most_used = _most_used(uses, constraints)
    asked = [_prepared(one, trials if one.key in most_used else None) for one in constraints.values()]
    not_asked: list[str] = []
    if left := len(constraints) - len(most_used):
        not_asked.append(f"{plural(left, 'constraint')} beyond the {len(most_used)} most used: the table answered")
    environments = _environments((source, target), not_asked)
    questions: dict[_Versions, _Questions] = {_versions(where): _Questions() for where in environments if where}
    for where in {_versions(where): where for where in environments if where}.values():
        names = ", ".join(f"{name} {version}" for name, version in _versions(where))
        say(f"asking {names} ({where.name}) about {plural(len(most_used), 'constraint')}")
        sides = [side for side, its in zip((source, target), environments, strict=True) if its and _same(its, where)]
        try:
            _ask(questions[_versions(where)], asked, sides, where)
        except UnmoorError as error:
            not_asked.append(f"schemas, of {names}: {error.message}; the table answered")
    answers = [
        {one.constraint.key: _answer(one, side, where, questions) for one in asked}
        for side, where in zip((source, target), environments, strict=True)
    ]
    if is_without_backend(source):  # traffic with constraints shows that one is configured, and not which
        answers[0] = dict.fromkeys(answers[0], SchemaAnswer(verdict="unknown", by=table.TABLE, note="not known"))
    late = sum(told.get("outcome") == "not_asked" for kept in questions.values() for told in kept.told.values())
    if late:
        not_asked.append(f"{plural(late, 'question')} about schemas: those before had used up the time for them")
    return SchemaAnswers(
        answers[0], answers[1], tuple(dict.fromkeys(not_asked)), {key: one.kind for key, one in constraints.items()}
    )


def _most_used(uses: Uses, constraints: Mapping[str, Constraint]) -> frozenset[str]:
    """The keys of the constraints that are compiled; among those of as many requests the first."""
    found: list[str] = []
    size = 0
    for key in sorted(constraints, key=lambda key: -len(uses.by_constraint.get(key, ()))):
        own = _size(constraints[key].content)
        if own <= MOST_BYTES:  # any larger is not compiled at all
            size += own
        if len(found) == MOST_ASKED or size > MOST_ASKED_BYTES:
            break
        found.append(key)
    return frozenset(found)


def _size(content: object) -> int:
    try:
        return len(msgspec.json.encode(content))
    except RecursionError:
        return MOST_BYTES + 1


def _prepared(one: Constraint, trials: Trials | None) -> _Asked:
    """What will be asked of one constraint; without `trials` nothing, and the table answers."""
    if one.kind != "json_schema":
        content = one.content if isinstance(one.content, str) else json.dumps(one.content)
        return _Asked(one, content, Features(), is_left_to_table=trials is None)
    schema = one.content
    features = features_of(schema)
    if features.too_large or trials is None:
        return _Asked(one, "", features, is_left_to_table=True)
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return _Asked(one, text, features, controls(schema), trials.of(schema, features))


def _environments(sides: Sequence[Surface], not_asked: list[str]) -> list[Compilers | None]:
    """Each side's environment, the other's where it has none of its own; None: no library that it uses is here."""
    asked = [side for side in sides if set(backends(side)) & set(PROBED)]
    found: dict[str, Compilers] = {}
    for side in asked:
        try:
            if side.engine not in found and (where := compilers((side.engine,))) is not None:
                found[side.engine] = where
        except UnmoorError as error:
            not_asked.append(f"schemas, of {side.title}'s libraries: {error.message}")
    any_of_them = next(iter(found.values()), None)
    if any_of_them is None:
        not_asked += [
            f"schemas, of {side.title}'s libraries: they are not installed here, the table answered "
            f"(unmoor engines install {NAME})"
            for side in asked
        ]
    return [found.get(side.engine, any_of_them) if side in asked else None for side in sides]


_Versions = tuple[tuple[str, str], ...]


def _versions(where: Compilers) -> _Versions:
    return tuple(sorted(where.versions.items()))


def _same(one: Compilers, other: Compilers) -> bool:
    return _versions(one) == _versions(other)


def _ask(questions: _Questions, asked: Sequence[_Asked], sides: Sequence[Surface], where: Compilers) -> None:
    """Asks each constraint's first library; then, of those that it refused, the next."""
    for turn in range(max(len(backends(side)) for side in sides)):
        for one in asked:
            for side in sides:
                _want(questions, one, backends_for(side, one.features.count), turn, where)
        if questions.waiting():
            questions.ask(where)


def _want(questions: _Questions, one: _Asked, order: Sequence[str], turn: int, where: Compilers) -> None:
    if one.is_left_to_table or turn >= len(order) or order[turn] not in where.versions:
        return
    kind = one.constraint.kind
    if turn and questions.outcome(order[turn - 1], kind, one.text).get("outcome") != "error":
        return
    questions.want(order[turn], kind, one.text, one.controls)
    for trial in one.trials.values():
        questions.want(order[turn], "json_schema", trial.schema, (*trial.bad, *trial.good, *trial.extra))


def _answer(
    one: _Asked, side: Surface, where: Compilers | None, questions: Mapping[_Versions, _Questions]
) -> SchemaAnswer:
    """What `side` makes of one constraint: the server's own refusals, then the first library that compiles it."""
    if one.features.too_large:
        return SchemaAnswer(verdict="unknown", by=table.TABLE, note=one.features.too_large, too_large=True)
    order = backends_for(side, one.features.count)
    is_schema = one.constraint.kind == "json_schema"
    found: SchemaAnswer | None = None
    if where is not None and not one.is_left_to_table:
        kept = questions[_versions(where)]
        for library in order:
            if library not in where.versions or kept.outcome(library, one.constraint.kind, one.text).get("outcome") in {
                None,
                "not_asked",
            }:
                break
            found = _by_library(one, library, _said(side, library, where.versions[library]), kept)
            if found.verdict != "refused" or found.too_large:
                break
    if found is None:
        return (
            table.by_table(side, one.features, order) if is_schema else table.kind_by_table(side, one.constraint.kind)
        )
    if not is_schema:
        by_table = table.kind_by_table(side, one.constraint.kind)
        return by_table if by_table.verdict in {"refused", "leaks"} else found
    return _with_table(found, one.features, side, order)


def _with_table(found: SchemaAnswer, features: Features, side: Surface, order: Sequence[str]) -> SchemaAnswer:
    """The library's answer, with what the server refuses unseen, and with the table's word for what was not tried."""
    refused = table.refused_by_server(side, features)
    at = {(keyword.keyword, keyword.at) for keyword in refused}
    by_table = {
        (one.keyword, one.at): msgspec.structs.replace(one, note="by the table")
        for one in table.by_table(side, features, order).keywords
    }
    kept = [
        by_table.get((one.keyword, one.at), one) if one.verdict == "unknown" else one
        for one in found.keywords
        if (one.keyword, one.at) not in at
    ]
    keywords = (*refused, *kept)
    return msgspec.structs.replace(
        found,
        by=table.TABLE if refused and found.verdict != "refused" else found.by,
        verdict="refused" if found.verdict == "refused" else table.worst([one.verdict for one in keywords]),
        keywords=keywords,
        strict_objects=_strict_or_by_table(found, features, side, order),
    )


def _strict_or_by_table(found: SchemaAnswer, features: Features, side: Surface, order: Sequence[str]) -> bool | None:
    if found.strict_objects is not None or "additionalProperties_absent" not in features.count:
        return found.strict_objects
    return table.strict_by_table(side, order)


def _said(side: Surface, library: str, version: str) -> str:
    """The library that was asked, and the version that the side has where that is another."""
    its = pinned(side, library)
    configured = ", if that is configured" if is_without_backend(side) else ""
    return f"{library} {version}" + (f" ({side.title} has {its})" if its not in {"", version} else "") + configured


def _by_library(one: _Asked, library: str, by: str, questions: _Questions) -> SchemaAnswer:
    kind = one.constraint.kind
    told = questions.outcome(library, kind, one.text)
    outcome = str(told["outcome"])
    if outcome in _TOO_MUCH:
        return SchemaAnswer(verdict="refused", by=by, note=_TOO_MUCH[outcome], backend=library, too_large=True)
    compiled = outcome == "compiled"
    whole = questions.accepted(library, kind, one.text, one.controls)
    keywords = []
    for place in one.features.places:
        if place.feature == "additionalProperties_absent":
            continue
        trial = one.trials.get(place)
        verdict = _verdict(trial, library, questions) if trial else "unknown"
        if verdict == "unknown" and place.feature in {"ref", "recursion"} and whole:
            verdict = "enforced" if all(whole) else "blocks"
        if verdict == "unknown" and place.feature == "keyword_unknown" and compiled:
            verdict = "enforced"  # it keeps nothing out, and the library takes it
        keywords.append(Keyword(keyword=place.feature, at=place.at, verdict=verdict))
    if not compiled:
        named = _named(str(told.get("error", "")))
        keywords = [one for one in keywords if one.verdict == "refused" and (not named or _is_of(one, named))]
    elif whole and not any(whole) and all(one.verdict in {"enforced", "unknown"} for one in keywords):
        keywords.append(Keyword(keyword="schema", at="", verdict="blocks", note="every valid answer tried"))
    return SchemaAnswer(
        verdict="refused" if not compiled else table.worst([one.verdict for one in keywords]),
        by=by,
        keywords=tuple(keywords),
        strict_objects=_strict(one, library, questions) if compiled else None,
        note="" if compiled else "it does not compile",
        backend=library,
    )


def _verdict(trial: Trial, library: str, questions: _Questions) -> Verdict:
    """What the library makes of one keyword, tried on its own schema."""
    told = questions.outcome(library, "json_schema", trial.schema)
    if told.get("outcome") == "error":
        return "refused"
    if told.get("outcome") != "compiled":
        return "unknown"
    if any(questions.accepted(library, "json_schema", trial.schema, trial.bad)):
        return "leaks"
    good = questions.accepted(library, "json_schema", trial.schema, trial.good)
    if good and not all(good):
        return "blocks"
    return "enforced" if trial.bad or (good and trial.needs_no_bad) else "unknown"


def _strict(one: _Asked, library: str, questions: _Questions) -> bool | None:
    """Whether properties that are not named are kept out, anywhere; None where no place was tried."""
    told: list[bool] = []
    for trial in one.trials.values():
        if any(questions.accepted(library, "json_schema", trial.schema, trial.good)):
            told += questions.accepted(library, "json_schema", trial.schema, trial.extra)
    return None if not told else not all(told)


_WORD = re.compile(r"[A-Za-z]+")


def _named(error: str) -> frozenset[str]:
    """The keywords that a library names in its error, whose text may quote the schema and is kept nowhere."""
    if len(error) > 400:  # noqa: PLR2004 - such a text quotes the schema
        return frozenset()
    return frozenset(_WORD.findall(error))


def _is_of(keyword: Keyword, named: frozenset[str]) -> bool:
    spelled = {"if_then_else": "if", "format_unknown": "format", "pattern_with_length": "pattern"}
    return spelled.get(keyword.keyword, keyword.keyword) in named
