"""Constraints of which it is not known what the target makes of them: told, and never classed as the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from unmoor.core.plural import plural
from unmoor.engines.surface.surface import Surface
from unmoor.leave.schemas.answers import SchemaAnswer, SchemaAnswers
from unmoor.leave.schemas.backends import is_without_backend
from unmoor.leave.schemas.table import TABLE

_MOST_PLACES = 3


@dataclass(frozen=True, slots=True)
class Undecided:
    """The keys of the constraints, and what is told of them: each keyword once, with the first places."""

    keys: frozenset[str] = frozenset()
    told: tuple[str, ...] = ()


def undecided(answers: SchemaAnswers, source: Surface, target: Surface) -> Undecided:
    """What is not known of the target, of every constraint that it does not refuse as a whole."""
    if is_without_backend(source) and is_without_backend(target):
        why = f"constraints: neither {source.title} nor {target.title} enforces any unless a backend is configured"
        return Undecided(frozenset(answers.target), (why,) if answers.target else ())
    places: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for key, answer in answers.target.items():
        for about, why, at in _unknown(answers.source[key], answer, answers.kinds.get(key, "json_schema")):
            places.setdefault((about, why), []).append((key, at))
    told = tuple(_told(about, why, found, target) for (about, why), found in places.items())
    return Undecided(frozenset(key for found in places.values() for key, _ in found), told)


def _unknown(source: SchemaAnswer, target: SchemaAnswer, kind: str) -> Iterator[tuple[str, str, str]]:
    """Each thing that is not known of one constraint: what it is, why, and where it stands in it."""
    if target.verdict == "refused":
        return
    if target.too_large and target.by == TABLE:
        yield f"a {kind} that is not compiled here", target.note, ""
        return
    for one in target.keywords:
        if one.verdict == "unknown":
            yield one.keyword, "" if one.note == "by the table" else one.note, one.at or "/"
    if not target.keywords and target.verdict == "unknown":
        yield kind, target.note, ""
    if target.strict_objects is None and source.strict_objects is not None:
        yield "properties that a schema does not name", "", ""


def _told(about: str, why: str, places: list[tuple[str, str]], target: Surface) -> str:
    first = ", ".join(f"schema {key}{f' at {at}' if at else ''}" for key, at in places[:_MOST_PLACES])
    count = len({key for key, _ in places})
    reason = f" ({why})" if why else ""
    head = f"{about}, in {plural(count, 'constraint')}: what {target.title} makes of it is not known"
    return f"{head}{reason}; first {first}"
