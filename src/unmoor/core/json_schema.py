"""Whether a value fits a JSON schema: the part of JSON Schema 2020-12 in which schemas for answers are written.

Unlike the standard, a known `format` is asserted, because that is what those who write it expect of an answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

Schema = Mapping[str, Any]
Path = tuple[str | int, ...]

MOST_STEPS = 20_000
MOST_DEPTH = 64
MOST_MATCHED = 64
"""Texts longer than this are not held against a pattern, which could take for ever."""

_EXAMPLE_FORMATS: dict[str, str] = {
    "email": r"[^@\s]+@[^@\s]+\.[^@\s]+",
    "date": r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
    "time": r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]\d\d:\d\d)",
    "date-time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)",
    "duration": r"P(?=.)(\d+Y)?(\d+M)?(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+S)?)?",
    "ipv4": r"((25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(25[0-5]|2[0-4]\d|1?\d?\d)",
    "ipv6": r"[0-9a-fA-F:]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*",
    "hostname": r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*",
    "uuid": r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "uri": r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*",
    "json-pointer": r"(/[^/~]*(~[01][^/~]*)*)*",
    "relative-json-pointer": r"(0|[1-9]\d*)(#|(/[^/]*)*)",
}


class CannotTellError(Exception):
    """It would take too long, or needs what is not known here: a reference elsewhere, a pattern of another dialect."""


class Validity:
    """Asks values against the schemas of one `root`. `instead` stands in for the root itself, whoever refers to it."""

    def __init__(self, root: object, *, instead: Schema | None = None) -> None:
        self._root = root
        self._instead = instead
        self._steps = 0

    def fits(self, schema: object, value: object) -> bool:
        """Whether `value` fits `schema`. Raises CannotTellError."""
        self._steps = 0
        return self._fits(schema, value, 0)

    def _fits(self, schema: object, value: object, depth: int) -> bool:
        self._steps += 1
        if depth > MOST_DEPTH or self._steps > MOST_STEPS:
            raise CannotTellError
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise CannotTellError
        node: Schema = schema
        if node is self._root and self._instead is not None:
            node = self._instead
        return all(self._keyword(name, node, value, depth + 1) for name in node)

    def _keyword(self, name: str, node: Schema, value: object, depth: int) -> bool:
        check = _SIMPLE.get(name)
        if check is not None:
            return check(node, value)
        nested = _NESTED.get(name)
        return nested is None or nested(self, node, value, depth)

    def ref(self, node: Schema, value: object, depth: int) -> bool:
        """A reference within the schema."""
        path = pointer(node["$ref"])
        target = None if path is None else resolve(self._root, path)
        if target is None:
            raise CannotTellError
        return self._fits(target, value, depth)

    def all_of(self, node: Schema, value: object, depth: int) -> bool:
        """All of several."""
        return all(self._fits(one, value, depth) for one in node["allOf"])

    def any_of(self, node: Schema, value: object, depth: int) -> bool:
        """One of several, or more."""
        return any(self._fits(one, value, depth) for one in node["anyOf"])

    def one_of(self, node: Schema, value: object, depth: int) -> bool:
        """Exactly one of several."""
        return sum(self._fits(one, value, depth) for one in node["oneOf"]) == 1

    def not_(self, node: Schema, value: object, depth: int) -> bool:
        """What must not fit."""
        return not self._fits(node["not"], value, depth)

    def if_(self, node: Schema, value: object, depth: int) -> bool:
        """If, with then and else."""
        return self._fits(node.get("then" if self._fits(node["if"], value, depth) else "else", True), value, depth)

    def properties(self, node: Schema, value: object, depth: int) -> bool:
        """Properties, and those by pattern, and all others."""
        if not isinstance(value, dict):
            return True
        named, by_pattern = node.get("properties", {}), node.get("patternProperties", {})
        others = node.get("additionalProperties", True)
        for key, inner in value.items():
            told = [named[key]] if key in named else []
            told += [schema for pattern, schema in by_pattern.items() if matches(pattern, key)]
            if not all(self._fits(schema, inner, depth) for schema in told or [others]):
                return False
        return True

    def items(self, node: Schema, value: object, depth: int) -> bool:
        """Items, behind those told one by one."""
        if not isinstance(value, list):
            return True
        first, rest = node.get("prefixItems", []), node.get("items", True)
        return all(self._fits(first[at] if at < len(first) else rest, inner, depth) for at, inner in enumerate(value))

    def contains(self, node: Schema, value: object, depth: int) -> bool:
        """Contains, so many times."""
        if not isinstance(value, list):
            return True
        found = sum(self._fits(node["contains"], inner, depth) for inner in value)
        return bool(node.get("minContains", 1) <= found <= node.get("maxContains", math.inf))

    def names(self, node: Schema, value: object, depth: int) -> bool:
        """The names of properties."""
        return not isinstance(value, dict) or all(self._fits(node["propertyNames"], key, depth) for key in value)

    def dependent(self, node: Schema, value: object, depth: int) -> bool:
        """Schemas that hold once a property is there."""
        named = node["dependentSchemas"]
        return not isinstance(value, dict) or all(
            self._fits(inner, value, depth) for key, inner in named.items() if key in value
        )


def types_of(node: Schema) -> tuple[str, ...]:
    """The types that a schema names; empty where it names none."""
    kinds = node.get("type")
    return (kinds,) if isinstance(kinds, str) else tuple(filter(_is_text, kinds)) if isinstance(kinds, list) else ()


def pointer(ref: object) -> Path | None:
    """The path that a reference within the schema leads along; None for any other reference."""
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return None
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in ref[1:].split("/")[1:])


def resolve(root: object, path: Path) -> object:
    """What stands at `path`; None where nothing does."""
    at: Any = root
    for step in path:
        if isinstance(at, list):
            at = at[int(step)] if str(step).isascii() and str(step).isdigit() and int(step) < len(at) else None
        else:
            at = at.get(step) if isinstance(at, dict) else None
    return at


def same(one: object, other: object) -> bool:
    """Whether two values are equal in JSON, where true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def matches(pattern: object, text: str) -> bool:
    """Whether the pattern is found in the text. Raises CannotTellError for one that could take for ever."""
    if len(text) > MOST_MATCHED:
        raise CannotTellError
    return _compiled(pattern).search(text) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: object) -> re.Pattern[str]:
    # A repetition within a repetition may try every way to part the text between the two.
    if not isinstance(pattern, str) or len(pattern) > 1000 or re.search(r"[+*}][^()]*\)[+*{]", pattern):  # noqa: PLR2004
        raise CannotTellError
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        raise CannotTellError from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _type(node: Schema, value: object) -> bool:
    kinds = types_of(node)
    if value is None and node.get("nullable") is True:
        return True
    return any(_is_type(kind, value) for kind in kinds)


def _is_type(kind: str, value: object) -> bool:
    if kind == "integer":
        return _is_number(value) and float(value) == int(value)  # type: ignore[arg-type, call-overload]  # a number
    if kind == "number":
        return _is_number(value)
    classes: dict[str, type] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return kind in classes and isinstance(value, classes[kind])


def _bound(of: Callable[[Any], bool], measure: Callable[[Any], float], holds: Callable[[float, float], bool],
           name: str) -> Callable[[Schema, object], bool]:  # fmt: skip
    def check(node: Schema, value: object) -> bool:
        if not _is_number(node[name]):
            raise CannotTellError
        return not of(value) or holds(measure(value), node[name])

    return check


def _multiple(node: Schema, value: object) -> bool:
    step = node["multipleOf"]
    if not _is_number(step) or step <= 0:
        raise CannotTellError
    if not _is_number(value):
        return True
    parts = value / step
    return math.isfinite(parts) and abs(parts - round(parts)) < 1e-9  # noqa: PLR2004 - rounding of decimal steps


def _unique(node: Schema, value: object) -> bool:
    if node["uniqueItems"] is not True or not isinstance(value, list):
        return True
    return not any(same(one, other) for at, one in enumerate(value) for other in value[:at])


def _required(node: Schema, value: object) -> bool:
    return not isinstance(value, dict) or all(key in value for key in node["required"])


def _dependent_required(node: Schema, value: object) -> bool:
    needed = node["dependentRequired"]
    return not isinstance(value, dict) or all(
        one in value for key, several in needed.items() if key in value for one in several
    )


def _pattern(node: Schema, value: object) -> bool:
    return not isinstance(value, str) or matches(node["pattern"], value)


def _format(node: Schema, value: object) -> bool:
    known = _EXAMPLE_FORMATS.get(node["format"]) if isinstance(node["format"], str) else None
    return known is None or not isinstance(value, str) or re.fullmatch(known, value, re.ASCII) is not None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _at_least(value: float, bound: float) -> bool:
    return value >= bound


def _at_most(value: float, bound: float) -> bool:
    return value <= bound


def _enum(node: Schema, value: object) -> bool:
    return any(same(one, value) for one in node["enum"])


_SIMPLE: dict[str, Callable[[Schema, object], bool]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda node, value: same(node["const"], value),
    "minimum": _bound(_is_number, float, _at_least, "minimum"),
    "maximum": _bound(_is_number, float, _at_most, "maximum"),
    "exclusiveMinimum": _bound(_is_number, float, lambda value, bound: value > bound, "exclusiveMinimum"),
    "exclusiveMaximum": _bound(_is_number, float, lambda value, bound: value < bound, "exclusiveMaximum"),
    "multipleOf": _multiple,
    "minLength": _bound(_is_text, len, _at_least, "minLength"),
    "maxLength": _bound(_is_text, len, _at_most, "maxLength"),
    "pattern": _pattern,
    "format": _format,
    "minItems": _bound(_is_list, len, _at_least, "minItems"),
    "maxItems": _bound(_is_list, len, _at_most, "maxItems"),
    "uniqueItems": _unique,
    "minProperties": _bound(_is_object, len, _at_least, "minProperties"),
    "maxProperties": _bound(_is_object, len, _at_most, "maxProperties"),
    "required": _required,
    "dependentRequired": _dependent_required,
}

_NESTED: dict[str, Callable[[Validity, Schema, object, int], bool]] = {
    "$ref": Validity.ref,
    "allOf": Validity.all_of,
    "anyOf": Validity.any_of,
    "oneOf": Validity.one_of,
    "not": Validity.not_,
    "if": Validity.if_,
    "properties": Validity.properties,
    "patternProperties": Validity.properties,
    "additionalProperties": Validity.properties,
    "items": Validity.items,
    "prefixItems": Validity.items,
    "contains": Validity.contains,
    "propertyNames": Validity.names,
    "dependentSchemas": Validity.dependent,
}


UNKNOWN = (CannotTellError, TypeError, AttributeError, KeyError, RecursionError, OverflowError, ValueError)
"""What is raised where it cannot be told; all but the first by keywords whose values are not of their type."""


def fits(validity: Validity, schema: object, value: object) -> bool:
    """Whether it is known that `value` fits. A schema that is none fits nothing."""
    try:
        return validity.fits(schema, value)
    except UNKNOWN:
        return False
