"""For each keyword of a schema: values that are valid but for that keyword, and valid controls.

A keyword is tried on its own schema, taken out of the whole, so that no other keyword stands in the way: first values
that fit once the keyword is taken away and do not with it, then values that fit. Places that differ in numbers and
names alone are tried once: what a library makes of a keyword hangs on what stands beside it, not on how large it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

from unmoor.core.json_schema import UNKNOWN, Schema, Validity, fits, pointer
from unmoor.leave.schemas.features import FeaturePlace, Features, schemas_in
from unmoor.leave.schemas.instances import JUNK, MOST_ITEMS, Instances, merged, ordered, texts_of, without

MOST_BAD, MOST_GOOD = 4, 3
MOST_CHARACTERS = 64 * 1024
"""A keyword whose own schema is longer, as JSON, is not tried."""

_ACCEPTED_ONLY = frozenset(("ref", "recursion", "nullable", "nullable_word", "additionalProperties_absent"))
"""Features of which no value can be wrong by themselves."""


_KEYS_ONLY = frozenset(
    (
        *("additionalProperties_absent", "additionalProperties_false", "required_undeclared", "properties_bounds"),
        "dependentRequired",
    )
)
"""Features that are about the names of properties: what the properties are does not matter to them."""

_CONTENT_COUNTS = frozenset(
    (
        *("not", "if_then_else", "contains", "allOf", "anyOf", "oneOf", "propertyNames", "patternProperties", "ref"),
        *("prefixItems", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "recursion"),
    )
)
"""Features of which no two places are alike unless they are the same."""

_SAID_IN_FULL = frozenset(("type", "format", "pattern", "nullable", "uniqueItems"))


@dataclass(frozen=True, slots=True)
class Trial:
    """What is asked of a library about one feature: `schema` as JSON text, and values as JSON texts."""

    feature: str
    schema: str
    bad: tuple[str, ...]
    good: tuple[str, ...]
    extra: tuple[str, ...] = ()
    """Values with properties that the schema does not name: valid, and kept out by a strict library."""

    @property
    def needs_no_bad(self) -> bool:
        """Whether no value could be wrong by this feature alone, so that controls tell all."""
        return self.feature in _ACCEPTED_ONLY


class Trials:
    """Makes trials, each once for all the places that are alike, of however many schemas."""

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], Trial | None] = {}

    def of(self, schema: object, features: Features) -> dict[FeaturePlace, Trial]:
        """The trial of each place of `features` of which one can be made; `schema` is the whole."""
        found: dict[FeaturePlace, Trial] = {}
        for place in features.places:
            root = alone(place.node, schema, keys_only=place.feature in _KEYS_ONLY)
            if root is None:
                continue
            key = _likeness(place, root)
            if key not in self._made:
                self._made[key] = _made(place, root)
            trial = self._made[key]
            if trial is not None:
                found[place] = trial
        return found


def _likeness(place: FeaturePlace, root: dict[str, Any]) -> tuple[object, ...]:
    """What two places share that are tried as one."""
    if place.feature in _CONTENT_COUNTS:
        return place.feature, _written(root)
    said = sorted((name, _written(value) if name in _SAID_IN_FULL else _kind(value)) for name, value in root.items())
    return place.feature, *said


def _kind(value: object) -> str:
    """A value's type; of a schema, the type that it asks for."""
    if isinstance(value, dict):
        return f"object {value.get('type')}"
    if isinstance(value, list):
        return f"list of {'/'.join(sorted({type(one).__name__ for one in value}))}"
    return str(value) if isinstance(value, bool) else type(value).__name__


def _made(place: FeaturePlace, root: dict[str, Any]) -> Trial | None:
    try:
        return _trial(place, root)
    except UNKNOWN:  # a keyword whose value is not of its type: what a library says of the whole must do
        return None


def controls(schema: object) -> tuple[str, ...]:
    """Values that fit the whole schema."""
    try:
        return tuple(_written(value) for value in Instances(schema).fitting(schema, most=MOST_GOOD))
    except UNKNOWN:
        return ()


def alone(node: Schema, root: object, *, keys_only: bool = False) -> dict[str, Any] | None:
    """The schema at `node` as one of its own, with the definitions that it refers to; None where that cannot be.

    With `keys_only` its properties are all made plain.
    """
    if keys_only:
        named = node.get("properties")
        plain = {name: {"type": "boolean"} for name in named} if isinstance(named, dict) else {}
        kept = {name: value for name, value in node.items() if name not in {"$defs", "definitions"}}
        node = {**kept, "properties": plain} if plain else kept
    elif node is root:
        return dict(node)
    refs = [inner["$ref"] for inner, _, _ in schemas_in(node) if "$ref" in inner]
    if not refs:
        return dict(node)
    defined = {name: root[name] for name in ("$defs", "definitions") if isinstance(root, dict) and name in root}
    every = [*refs, *(inner["$ref"] for inner, _, _ in schemas_in(defined) if "$ref" in inner)]
    inside = [(pointer(ref) or ("",))[0] in defined for ref in every]
    return {**node, **defined} if all(inside) else None


def _trial(place: FeaturePlace, root: dict[str, Any]) -> Trial | None:
    text = _written(root)
    if len(text) > MOST_CHARACTERS:
        return None
    making = Instances(root)
    good = making.fitting(root, most=8)
    if place.feature in {"nullable", "nullable_word"}:
        good = [value for value in good if value is None]
    bad = () if place.feature in _ACCEPTED_ONLY else tuple(islice(_bad(place, root, making, good), MOST_BAD))
    extra = _extra(root, good) if place.feature == "additionalProperties_absent" else ()
    # The longest controls use most of the schema.
    told = sorted(map(_written, good), key=len)[::-1]
    return Trial(place.feature, text, tuple(map(_written, bad)), tuple(told[:MOST_GOOD]), extra)


def _extra(root: dict[str, Any], good: list[Any]) -> tuple[str, ...]:
    """Valid objects with one more property."""
    validity = Validity(root)
    more = ({**value, "unmoor_extra": 1} for value in good if isinstance(value, dict))
    return tuple(_written(value) for value in more if fits(validity, root, value))[:MOST_GOOD]


def _bad(place: FeaturePlace, root: dict[str, Any], making: Instances, good: list[Any]) -> Iterator[Any]:
    """Values that the keyword alone keeps out, each once."""
    strict, loose = Validity(root), Validity(root, instead=_loosened(root, place))
    bare = without(root, *place.keywords)
    seen: set[str] = set()
    making_own = _OWN.get(place.feature, _nothing)
    for source in (making_own(root, making, good), iter(making.candidates(bare)), _changed(root, good), iter(JUNK)):
        for value in source:
            key = _written(value)
            if key in seen:
                continue
            seen.add(key)
            if not fits(loose, root, value):
                continue
            if place.feature == "format_unknown":
                if value == _NOT_A_FORMAT:
                    yield value
            elif _kept_out(strict, root, value):
                yield value


def _loosened(root: dict[str, Any], place: FeaturePlace) -> dict[str, Any]:
    """The schema without the keyword; of those that also say what the rest is, only the schemas in them are opened."""
    if place.feature == "patternProperties":
        return {**root, "patternProperties": dict.fromkeys(root["patternProperties"], True)}
    if place.feature == "prefixItems":
        return {**root, "prefixItems": [True for _ in root["prefixItems"]]}
    return without(root, *place.keywords)


_NOT_A_FORMAT = "nope"
"""A text of no format that anybody has; what a format nobody here knows would say of it is presumed."""


def _kept_out(validity: Validity, root: dict[str, Any], value: object) -> bool:
    """Whether it is known that the value does not fit."""
    try:
        return not validity.fits(root, value)
    except UNKNOWN:
        return False


def _changed(root: dict[str, Any], good: list[Any]) -> Iterator[Any]:
    """The controls with something taken away, put there, doubled or made longer."""
    properties = root.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    for value in good[:4]:
        if isinstance(value, dict):
            for name in islice(value, MOST_ITEMS):
                yield {key: inner for key, inner in value.items() if key != name}
            yield {**value, "unmoor_extra": 1}
            for name in islice(declared, MOST_ITEMS):
                for junk in ("nope", -1000003, None):
                    whole = {**value, name: junk}
                    yield {key: whole[key] for key in ordered(set(whole), declared, ())}
        elif isinstance(value, list):
            yield value[:-1]
            yield value + value
            yield value + value[:1]
            yield [*value, "nope"]
            yield ["nope", *value[1:]]
        elif isinstance(value, str):
            yield from (value + value, value + "a", value[:-1], value + "!", "!" + value, value.upper())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield from (value + 1, value - 1, value + 0.5, -value)


def _nothing(_root: dict[str, Any], _making: Instances, _good: list[Any]) -> Iterator[Any]:
    return iter(())


def _equal_items(root: dict[str, Any], making: Instances, good: list[Any]) -> Iterator[Any]:
    fewest = root.get("minItems", 0)
    for item in making.fitting(root.get("items", True), most=3):
        yield [item] * max(2, fewest if isinstance(fewest, int) and fewest <= MOST_ITEMS else 2)
    yield from (value + value[-1:] for value in good if isinstance(value, list))


def _without_contained(root: dict[str, Any], making: Instances, _good: list[Any]) -> Iterator[Any]:
    bare = without(root, "contains", "minContains", "maxContains")
    wrong = [item for item in making.fitting(bare.get("items", True)) if item != root["contains"]]
    yield from ([item] * max(1, int(root.get("minItems", 1))) for item in wrong)
    yield from ([item] for item in JUNK)
    yield []


def _negated(root: dict[str, Any], making: Instances, _good: list[Any]) -> Iterator[Any]:
    yield from making.candidates(merged(without(root, "not"), root["not"]))
    yield from making.candidates(root["not"])


def _conditional(root: dict[str, Any], making: Instances, _good: list[Any]) -> Iterator[Any]:
    bare = without(root, "if", "then", "else")
    yield from making.candidates(merged(bare, root["if"]))
    for name in ("then", "else"):
        if isinstance(one := root.get(name), dict) and isinstance(named := one.get("properties"), dict):
            for value in making.candidates(merged(bare, root["if"])):
                if isinstance(value, dict):
                    yield from ({**value, key: junk} for key in named for junk in JUNK)


def _dependent(root: dict[str, Any], making: Instances, good: list[Any]) -> Iterator[Any]:
    properties = root.get("properties", {})
    for key in {**root.get("dependentRequired", {}), **root.get("dependentSchemas", {})}:
        for value in making.fitting(properties.get(key, True), most=1):
            for base in ({}, *(one for one in good if isinstance(one, dict))):
                whole = {**base, key: value}
                yield {name: whole[name] for name in ordered(set(whole), properties, ())}


def _of_one_branch(root: dict[str, Any], making: Instances, _good: list[Any]) -> Iterator[Any]:
    for branch in root["allOf"]:
        yield from making.candidates(merged(without(root, "allOf"), branch))
        yield from making.candidates(branch)


def _of_two_branches(root: dict[str, Any], making: Instances, _good: list[Any]) -> Iterator[Any]:
    bare, branches = without(root, "oneOf"), root["oneOf"]
    for one, other in islice(combinations(branches, 2), 8):
        yield from making.candidates(merged(bare, merged(one, other)))
    for branch in branches[:8]:
        yield from making.candidates(merged(bare, branch))


def _too_long(root: dict[str, Any], _making: Instances, good: list[Any]) -> Iterator[Any]:
    for text in texts_of(root.get("pattern")):
        yield from (text + text, text * 8, text + "a", text + text[-1:] * 8)
    for text in good:
        if isinstance(text, str) and text:
            yield from (text[0] * 9 + text, text[:1])
    most = root.get("maxLength")
    if isinstance(most, int) and most < MOST_CHARACTERS // 4:
        yield "a" * (most + 1)
    least = root.get("minLength")
    if isinstance(least, int) and 0 < least < MOST_CHARACTERS // 4:
        yield "a" * (least - 1)


def _beyond(root: dict[str, Any], _making: Instances, _good: list[Any]) -> Iterator[Any]:
    for name in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        bound = root.get(name)
        if isinstance(bound, int | float) and not isinstance(bound, bool):
            yield from (bound - 1, bound, bound + 1, bound - 0.5, bound + 0.5, bound - 100, bound + 100)


def _between_steps(root: dict[str, Any], _making: Instances, good: list[Any]) -> Iterator[Any]:
    step = root["multipleOf"]
    for value in good:
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield from (value + 1, value - 1, value + step / 2, value + step / 4)


def _sizes(root: dict[str, Any], making: Instances, _good: list[Any]) -> Iterator[Any]:
    pool = making.fitting(root.get("items", True)) or [0]
    for bound in (root.get("minItems"), root.get("maxItems")):
        if isinstance(bound, int) and 0 <= bound <= MOST_ITEMS:
            for size in (bound - 1, bound + 1):
                yield [pool[at % len(pool)] for at in range(max(0, size))]


def _counts(root: dict[str, Any], _making: Instances, good: list[Any]) -> Iterator[Any]:
    most = root.get("maxProperties")
    for value in good:
        if isinstance(value, dict):
            yield from ({name: value[name] for name in islice(value, size)} for size in range(len(value)))
            if isinstance(most, int) and most <= MOST_ITEMS:
                yield {**value, **{f"unmoor_{number}": 1 for number in range(most + 1)}}


def _by_pattern(root: dict[str, Any], _making: Instances, good: list[Any]) -> Iterator[Any]:
    for pattern in root["patternProperties"]:
        for name in islice(texts_of(pattern), 1):
            for base in ({}, *(one for one in good if isinstance(one, dict))):
                yield from ({**base, name: junk} for junk in JUNK)


def _misnamed(_root: dict[str, Any], _making: Instances, good: list[Any]) -> Iterator[Any]:
    for value in (*(one for one in good if isinstance(one, dict)), {}):
        yield from ({**value, name: inner} for name in ("", "!", "Z 9!", "a", "1", "z" * 40) for inner in (1, "a"))


def _no_format(_root: dict[str, Any], _making: Instances, _good: list[Any]) -> Iterator[Any]:
    return iter((_NOT_A_FORMAT, "", "999.999.999.999"))


_OWN: dict[str, Callable[[dict[str, Any], Instances, list[Any]], Iterator[Any]]] = {
    "uniqueItems": _equal_items,
    "contains": _without_contained,
    "not": _negated,
    "if_then_else": _conditional,
    "dependentRequired": _dependent,
    "dependentSchemas": _dependent,
    "allOf": _of_one_branch,
    "oneOf": _of_two_branches,
    "pattern_with_length": _too_long,
    "length_bounds": _too_long,
    "number_bounds": _beyond,
    "integer_bounds": _beyond,
    "multipleOf": _between_steps,
    "items_bounds": _sizes,
    "properties_bounds": _counts,
    "patternProperties": _by_pattern,
    "propertyNames": _misnamed,
    "format": _no_format,
    "format_unknown": _no_format,
}


def _written(value: object) -> str:
    """As a model would write it, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
