"""Which features a JSON schema uses, and where: each place by its JSON pointer, with properties numbered, not named."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unmoor.core.json_schema import Path, Schema, pointer, resolve, types_of
from unmoor.leave.schemas.forms import SAYS_NOTHING, forms_of

MOST_BYTES = 1 << 20
MOST_DEPTH = 64
MOST_NODES = 20_000
MOST_TARGETS = 500
MOST_ALIKE = 3
"""So many places of one feature are tried; the others behave like them."""

FORMATS = frozenset(
    (
        *("email", "date", "time", "date-time", "duration", "ipv4", "ipv6", "hostname", "uuid", "uri", "uri-reference"),
        *("uri-template", "json-pointer", "relative-json-pointer"),
    )
)
"""Formats of JSON Schema 2020-12 that grammar libraries know."""

_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("anyOf", "oneOf", "prefixItems")
_ALONE = ("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems")
_PARTS = ("not", "if", "then", "else", "contains", "propertyNames")
# What stands under not, if, contains, propertyNames, dependentSchemas and an allOf of several means something only
# together with what is around it: it is part of that keyword, and is tried with it.

_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LENGTHS = ("minLength", "maxLength")
_UNTRIED = (
    "dependencies",
    "additionalItems",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
)
"""Keywords of JSON Schema, of this draft or an older one, of which neither a trial nor a table knows."""

_KNOWN = frozenset(
    (
        *_BY_NAME, *_LISTS, *_ALONE, *_PARTS, *_NUMBERS, *_LENGTHS, *_UNTRIED,
        *("type", "enum", "const", "required", "allOf", "$ref", "nullable", "format", "pattern"),
        *("multipleOf", "uniqueItems"),
        *("minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"),
        *("dependentRequired", "dependentSchemas"),
    )
)  # fmt: skip

_ONE_KEYWORD = (
    *("not", "dependentRequired", "dependentSchemas", "contains", "anyOf", "multipleOf", "patternProperties"),
    *("propertyNames", "enum", "const", "prefixItems", "unevaluatedProperties", "unevaluatedItems"),
)


@dataclass(frozen=True, slots=True, eq=False)
class FeaturePlace:
    """One feature at one place, which equals no other. `keywords` of `node` make it; `at` names no property.

    `forms` are the forms in which it stands there (`schemas.forms`), the most specific first.
    """

    feature: str
    at: str
    keywords: tuple[str, ...]
    node: Schema
    forms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Features:
    """What a schema uses.

    `places` are the first `MOST_ALIKE` of each feature; `within` those inside of a keyword that is tried as a whole
    (not, if, contains, propertyNames, dependentSchemas, allOf): a server's own check of the schema sees them too.
    `count` tells how many there are of each in both, further names among them ("patternProperties_combined").
    `too_large` says why it was not looked at; empty where it was.
    """

    places: tuple[FeaturePlace, ...] = ()
    within: tuple[FeaturePlace, ...] = ()
    count: Mapping[str, int] = field(default_factory=dict)
    too_large: str = ""


def features_of(schema: object) -> Features:
    """The features of `schema`, which may be anything that JSON can be. Bounded in size, depth and places."""
    fault = too_large(schema)
    if fault:
        return Features(too_large=fault)
    places, within, count = _Places(schema), _Places(schema), dict[str, int]()
    recursive = _recursive(schema)
    seen: set[int] = set()
    for node, path, at in schemas_in(schema):
        seen.add(id(node))
        for feature, keywords in _features_of_node(node):
            places.keep(feature, at, keywords, node, count)
        if path in recursive:
            places.keep("recursion", at, ("$ref",), node, count)
    for node, _, at in schemas_in(schema, everywhere=True):
        if id(node) not in seen:
            for feature, keywords in _features_of_node(node):
                within.keep(feature, at, keywords, node, count)
    return Features(tuple(places.kept), tuple(within.kept), count)


class _Places:
    """Places of one schema: the first of each feature."""

    def __init__(self, schema: object) -> None:
        self._schema = schema
        self.kept: list[FeaturePlace] = []

    def keep(self, feature: str, at: str, keywords: tuple[str, ...], node: Schema, count: dict[str, int]) -> None:
        """Counts the place, and keeps it where not enough are kept; without keywords it is only counted."""
        if feature == "ref" and self._follow(node["$ref"]) is None:
            feature = "ref_elsewhere"
        known = count[feature] = count.get(feature, 0) + 1
        if known <= MOST_ALIKE and keywords:
            self.kept.append(FeaturePlace(feature, at, keywords, node, forms_of(feature, node, self._follow)))

    def _follow(self, ref: object) -> object:
        path = pointer(ref)
        return None if path is None else resolve(self._schema, path)


def too_large(schema: object) -> str:
    """Why this is not looked at, in words without any of its text; empty where it can be."""
    waiting: list[tuple[object, int]] = [(schema, 0)]
    seen = 0
    while waiting:
        part, depth = waiting.pop()
        seen += 1
        if depth > MOST_DEPTH:
            return f"it is nested more than {MOST_DEPTH} deep"
        if seen > MOST_NODES * 10:
            return f"it has more than {MOST_NODES * 10} values"
        if isinstance(part, dict):
            waiting.extend((inner, depth + 1) for inner in part.values())
        elif isinstance(part, list):
            waiting.extend((inner, depth + 1) for inner in part)
    if (size := len(msgspec.json.encode(schema))) > MOST_BYTES:
        return f"it has {size} bytes, and at most {MOST_BYTES} are tried"
    return ""


def schemas_in(schema: object, *, everywhere: bool = False) -> Iterator[tuple[Schema, Path, str]]:
    """Every schema in `schema`, from the outside in, with its path and its numbered JSON pointer.

    Those that are part of a keyword which is tried as a whole only if `everywhere`.
    """
    by_name = (*_BY_NAME, "dependentSchemas") if everywhere else _BY_NAME
    lists = (*_LISTS, "allOf") if everywhere else _LISTS
    alone = (*_ALONE, *_PARTS) if everywhere else _ALONE
    waiting: deque[tuple[object, Path, str]] = deque([(schema, (), "")])
    seen = 0
    while waiting and seen < MOST_NODES:
        node, path, at = waiting.popleft()
        if not isinstance(node, dict):
            continue
        seen += 1
        yield node, path, at
        for name in by_name:
            if isinstance(named := node.get(name), dict):
                waiting += [
                    (inner, (*path, name, key), f"{at}/{name}/{number}")
                    for number, (key, inner) in enumerate(named.items())
                ]
        for name in lists:
            if isinstance(listed := node.get(name), list):
                waiting += [
                    (inner, (*path, name, number), f"{at}/{name}/{number}") for number, inner in enumerate(listed)
                ]
        waiting += [(node[name], (*path, name), f"{at}/{name}") for name in alone if isinstance(node.get(name), dict)]
        if not everywhere and isinstance(one := node.get("allOf"), list) and len(one) == 1:
            waiting.append((one[0], (*path, "allOf", 0), f"{at}/allOf/0"))


def _features_of_node(node: Schema) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each feature of this schema alone; without keywords: only for the count."""
    for keyword in _ONE_KEYWORD:
        if keyword in node:
            yield keyword, (keyword,)
    if node.get("uniqueItems") is True:
        yield "uniqueItems", ("uniqueItems",)
    if "if" in node and ("then" in node or "else" in node):
        yield "if_then_else", ("if", "then", "else")
    if isinstance(several := node.get("allOf"), list) and len(several) > 1:
        yield "allOf", ("allOf",)
    if isinstance(branches := node.get("oneOf"), list):
        yield "anyOf" if are_disjoint(branches) else "oneOf", ("oneOf",)
    if "$ref" in node:
        yield "ref", ("$ref",)
    yield from _untold(node)
    if is_nullable(node):
        yield "nullable_word" if node.get("nullable") is True else "nullable", ("type",)
    yield from _bounds(node)
    yield from _text(node)
    yield from _object(node)


def _untold(node: Schema) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What no engine is known to enforce, and what no draft of JSON Schema has, which constrains nothing by it."""
    yield from ((keyword, (keyword,)) for keyword in _UNTRIED if keyword in node)
    if isinstance(node.get("items"), list):
        yield "items_list", ("items",)
    if words := tuple(name for name in _NUMBERS if isinstance(node.get(name), bool)):
        yield "exclusive_word", words
    if others := tuple(name for name in node if name not in _KNOWN | SAYS_NOTHING and not name.startswith("x-")):
        yield "keyword_unknown", others


def are_disjoint(branches: list[Any]) -> bool:
    """Whether it is plain that no value fits two of them: their types differ, or what one property must be."""
    kinds = [{"number" if kind == "integer" else kind for kind in types_of(one)} for one in branches if _is_schema(one)]
    if len(kinds) < len(branches) or not all(kinds):
        return False
    if sum(map(len, kinds)) == len(set().union(*kinds)):
        return True
    names = set.intersection(*({*one.get("properties", {})} & {*one.get("required", ())} for one in branches))
    return any(_tells_apart(name, branches) for name in names)


def _tells_apart(name: str, branches: list[Any]) -> bool:
    values: list[str] = []
    for one in branches:
        inner = one["properties"][name]
        fixed = [inner["const"]] if _is_schema(inner) and "const" in inner else inner.get("enum", ())
        values += {repr(value) for value in fixed} or [""]
    return "" not in values and len(values) == len(set(values))


def _is_schema(value: object) -> bool:
    return isinstance(value, dict)


def is_nullable(node: Schema) -> bool:
    """Whether the schema takes null beside something else."""
    kinds = node.get("type")
    if isinstance(kinds, list):
        return "null" in kinds and len(kinds) > 1
    return isinstance(kinds, str) and kinds != "null" and node.get("nullable") is True


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _present(node: Schema, *names: str) -> tuple[str, ...]:
    return tuple(name for name in names if name in node)


def _bounds(node: Schema) -> Iterator[tuple[str, tuple[str, ...]]]:
    if numbers := _present(node, *_NUMBERS):
        kinds = types_of(node)
        yield "integer_bounds" if "integer" in kinds and "number" not in kinds else "number_bounds", numbers
    for feature, names in (("items_bounds", ("minItems", "maxItems")),
                           ("properties_bounds", ("minProperties", "maxProperties"))):  # fmt: skip
        if found := _present(node, *names):
            yield feature, found


def _text(node: Schema) -> Iterator[tuple[str, tuple[str, ...]]]:
    lengths = _present(node, *_LENGTHS)
    if "pattern" in node:
        yield "pattern", ("pattern",)
    if "format" in node:
        known = isinstance(node["format"], str) and node["format"] in FORMATS
        yield "format" if known else "format_unknown", ("format",)
    if lengths:
        yield "pattern_with_length" if _present(node, "pattern", "format") else "length_bounds", lengths


def _object(node: Schema) -> Iterator[tuple[str, tuple[str, ...]]]:
    properties = node.get("properties")
    named = properties if isinstance(properties, dict) else {}
    if named or "object" in types_of(node):
        if "additionalProperties" not in node and named:
            yield "additionalProperties_absent", ("additionalProperties",)
        elif node.get("additionalProperties") is False:
            yield "additionalProperties_false", ("additionalProperties",)
    if len(named) > 1:
        yield "property_order", ()
    required = node.get("required")
    if named and isinstance(required, list) and any(isinstance(one, str) and one not in named for one in required):
        yield "required_undeclared", ("required",)
    patterns = node.get("patternProperties")
    if isinstance(patterns, dict) and (named or len(patterns) > 1):
        yield "patternProperties_combined", ()
    if "propertyNames" in node and _present(node, "properties", "patternProperties", "unevaluatedProperties"):
        yield "propertyNames_combined", ()


def _recursive(schema: object) -> frozenset[Path]:
    """The paths of the references that lead back to where they stand."""
    leads: dict[Path, Path] = {}
    for node, path, _ in schemas_in(schema):
        target = pointer(node.get("$ref"))
        if target is not None:
            leads[path] = target
    targets = set(leads.values())
    edges: dict[Path, set[Path]] = {target: set() for target in targets}
    for path, target in leads.items():
        for end in range(len(path) + 1):
            if (outer := tuple(map(str, path[:end]))) in targets:
                edges[outer].add(target)
    on_cycle = {target for target in targets if _returns(target, edges)} if len(targets) <= MOST_TARGETS else targets
    return frozenset(path for path, target in leads.items() if target in on_cycle)


def _returns(start: Path, edges: Mapping[Path, set[Path]]) -> bool:
    waiting, seen = list(edges[start]), set[Path]()
    while waiting:
        at = waiting.pop()
        if at == start:
            return True
        if at not in seen:
            seen.add(at)
            waiting.extend(edges[at])
    return False
