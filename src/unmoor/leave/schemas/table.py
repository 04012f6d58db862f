"""What the surface's table says of a schema: where no library can be asked, and what a server refuses by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unmoor.engines.surface.surface import Support, Surface
from unmoor.leave.schemas.answers import Keyword, SchemaAnswer, Verdict
from unmoor.leave.schemas.features import FeaturePlace, Features

TABLE = "table"

_ORDER: tuple[Verdict, ...] = ("enforced", "unknown", "blocks", "leaks", "refused")
_VERDICTS: Mapping[str, Verdict] = {
    "enforced": "enforced",
    "native": "enforced",
    "leaks": "leaks",
    "ignored": "leaks",
    "refused": "refused",
    "blocks": "blocks",
}
_UNDECIDED = frozenset(("varies", "unknown"))
# Of these "blocks" says no more than that a library is strict, which every grammar is about order.
_NO_KEYWORD = frozenset(("additionalProperties_absent", "property_order"))


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of several; "enforced" where there is none."""
    return max(verdicts, key=_ORDER.index, default="enforced")


def entry(side: Surface, feature: str, backends: Sequence[str], forms: Sequence[str] = ()) -> Support | None:
    """What the surface says of a feature in these forms: of the most specific of which it says anything plain.

    Of each it is asked what the server does, and then what its first backend does. Where nothing plain is said, what
    the surface says of the feature: that it varies, or is unknown.
    """
    found: Support | None = None
    for key in (*forms, feature):
        for name in (key, *(f"{backend}/{key}" for backend in backends[:1])):
            told = side.schema.get(name)
            if told is not None and told.value not in _UNDECIDED:
                return told
            found = told or found
    return found


def by_table(side: Surface, features: Features, backends: Sequence[str]) -> SchemaAnswer:
    """The answer for a JSON schema with these features, from the table alone."""
    keywords = [_keyword(side, place, backends) for place in features.places if place.feature not in _NO_KEYWORD]
    if any(one.keyword == "allOf" and one.verdict == "enforced" for one in keywords):  # then its branches' own count
        inside = [place for place in features.within if place.feature not in _NO_KEYWORD and _is_joined(place.at)]
        keywords += [_keyword(side, place, backends) for place in inside]
    strict = strict_by_table(side, backends) if "additionalProperties_absent" in features.count else None
    return SchemaAnswer(
        verdict=worst([one.verdict for one in keywords]),
        by=TABLE,
        keywords=tuple(keywords),
        strict_objects=strict,
        backend=backends[0] if backends else "",
    )


def _keyword(side: Surface, place: FeaturePlace, backends: Sequence[str]) -> Keyword:
    told = entry(side, place.feature, backends, place.forms)
    verdict = _VERDICTS.get(told.value, "unknown") if told else "unknown"
    return Keyword(keyword=place.feature, at=place.at, verdict=verdict, note=told.note if told else "")


def _is_joined(at: str) -> bool:
    """Whether a place is one of an allOf's branches, or in one, and in no condition within it."""
    steps = set(at.split("/"))
    return "allOf" in steps and steps.isdisjoint({"not", "if", "then", "else", "contains", "propertyNames"})


def strict_by_table(side: Surface, backends: Sequence[str]) -> bool | None:
    """Whether objects are kept to the properties that are named; None where the table cannot tell."""
    told = entry(side, "additionalProperties_absent", backends)
    if told is None or told.value not in _VERDICTS:
        return None
    return told.value in {"blocks", "refused"}


def kind_by_table(side: Surface, kind: str) -> SchemaAnswer:
    """The answer for a regex, a grammar, choices or a structural tag, from the table alone."""
    told = side.schema.get(kind)
    verdict = _VERDICTS.get(told.value, "unknown") if told else "unknown"
    return SchemaAnswer(verdict=verdict, by=TABLE, note=told.note if told else "")


def refused_by_server(side: Surface, features: Features) -> tuple[Keyword, ...]:
    """What the server refuses before any library sees it."""
    found = []
    for place in (*features.places, *features.within):
        told = side.schema.get(place.feature)
        if told is not None and told.value == "refused":
            found.append(Keyword(keyword=place.feature, at=place.at, verdict="refused", note=told.note))
    return tuple(found)
