"""Makes values for JSON schemas: a few candidates for each, of which `core/json_schema.py` then says which fit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from re import _constants as re_names  # type: ignore[attr-defined]  # the only parser of patterns there is
from re import _parser as re_parser  # type: ignore[attr-defined]
from typing import Any

from unmoor.core.json_schema import Schema, Validity, fits, pointer, resolve, types_of

MOST_DEPTH = 12
MOST_CANDIDATES = 24
MOST_ITEMS = 40
MOST_BRANCHES = 8
MOST_CHARACTERS = 2000
MOST_STEPS = 3000

FORMAT_EXAMPLES: Mapping[str, str] = {
    "email": "a@b.co",
    "date": "2024-02-29",
    "time": "12:34:56Z",
    "date-time": "2024-02-29T12:34:56Z",
    "duration": "P1DT2H",
    "ipv4": "192.168.0.1",
    "ipv6": "2001:0db8:0000:0000:0000:0000:0000:0001",
    "hostname": "example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "uri": "https://example.com/a",
    "uri-reference": "/a/b",
    "uri-template": "/a/{b}",
    "json-pointer": "/a/0",
    "relative-json-pointer": "1/a",
}
JUNK: tuple[object, ...] = (
    *("", "a", "aa", "nope", "zzzzzz", "Z 9!", 0, 1, -1, 3, 7, 0.5, 1000003, True, None, [], {}),
    *([0], ["a"], [0, 0], {"unmoor_a": 0}, {"unmoor_a": "a"}),
)
"""Values of every type, some of which miss whatever a keyword asks for."""

_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")


class Instances:
    """Makes candidates for the schemas of one root. Bounded in depth and in steps."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._validity = Validity(root)
        self._steps = 0

    def fitting(self, schema: object, *, most: int = 8) -> list[Any]:
        """Different values that fit `schema`, fewest words first; empty where none could be made."""
        self._steps = 0
        return list(islice(self._fitting(schema, 0), most))

    def candidates(self, schema: object) -> list[Any]:
        """Values that nearly fit `schema`, and some that do."""
        self._steps = 0
        return list(islice(self._candidates(schema, 0), MOST_CANDIDATES))

    def _fitting(self, schema: object, depth: int) -> Iterator[Any]:
        seen: set[str] = set()
        for value in islice(self._candidates(schema, depth), MOST_CANDIDATES):
            key = json.dumps(value)
            if key not in seen and fits(self._validity, schema, value):
                seen.add(key)
                yield value

    def _one(self, schema: object, depth: int) -> object:
        """The first value that fits. Raises LookupError where none could be made."""
        for value in self._fitting(schema, depth):
            return value
        raise LookupError

    def _candidates(self, schema: object, depth: int) -> Iterator[Any]:
        self._steps += 1
        if depth > MOST_DEPTH or self._steps > MOST_STEPS or schema is False:
            return
        if not isinstance(schema, dict):
            yield from ("a", 1)
            return
        if "const" in schema:
            yield schema["const"]
        elif isinstance(schema.get("enum"), list):
            yield from schema["enum"][:MOST_CANDIDATES]
        elif "$ref" in schema:
            path = pointer(schema["$ref"])
            target = resolve(self._root, path) if path is not None else None
            yield from self._candidates(merged(without(schema, "$ref"), target), depth + 1)
        elif isinstance(several := schema.get("allOf"), list):
            whole: Schema = without(schema, "allOf")
            for one in several:
                whole = merged(whole, self._followed(one))
            yield from self._candidates(whole, depth + 1)
        elif branches := self._branches(schema):
            plain = without(schema, "anyOf", "oneOf")
            tried = branches[:MOST_BRANCHES]
            yield from alternately([self._candidates(merged(plain, self._followed(one)), depth + 1) for one in tried])
        else:
            kinds = types_of(schema) or _inferred(schema)
            made = [self._of_type(kind, schema, depth) for kind in kinds]
            yield from alternately([*made, iter((None,))] if schema.get("nullable") is True else made)

    def _followed(self, schema: object) -> object:
        """The schema that a reference alone stands for."""
        for _ in range(MOST_DEPTH):
            path = pointer(schema["$ref"]) if isinstance(schema, dict) and "$ref" in schema else None
            if path is None or not isinstance(schema, dict):
                break
            schema = merged(without(schema, "$ref"), resolve(self._root, path))
        return schema

    def _branches(self, schema: Schema) -> list[Any]:
        for name in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(name), list) and branches:
                return branches
        return []

    def _of_type(self, kind: str, schema: Schema, depth: int) -> Iterator[Any]:
        if kind == "object":
            yield from self._objects(schema, depth)
        elif kind == "array":
            yield from self._arrays(schema, depth)
        elif kind == "string":
            yield from strings(schema)
        elif kind in {"integer", "number"}:
            yield from numbers(schema, whole=kind == "integer")
        elif kind == "boolean":
            yield from (True, False)
        elif kind == "null":
            yield None

    def _objects(self, schema: Schema, depth: int) -> Iterator[dict[str, Any]]:
        named = schema.get("properties")
        properties: dict[str, Any] = named if isinstance(named, dict) else {}
        wanted = schema.get("required")
        required = [one for one in wanted if isinstance(one, str)] if isinstance(wanted, list) else []
        least: dict[str, Any] = {}
        try:
            for name in ordered({*required}, properties, required):
                least[name] = self._one(properties.get(name, True), depth + 1)
        except LookupError:
            return
        fewest = schema.get("minProperties", 0)
        if not isinstance(fewest, int) or fewest > MOST_ITEMS:
            return
        if len(least) >= fewest:
            yield dict(least)
        more = dict(least)
        for name, inner in properties.items():
            if name not in more and depth < MOST_DEPTH // 2:
                for value in islice(self._fitting(inner, depth + 1), 1):
                    more[name] = value
                    yield {key: more[key] for key in ordered(set(more), properties, required)}
                    yield {key: value if key == name else least[key]
                           for key in ordered({*least, name}, properties, required)}  # fmt: skip
        yield from self._with_others(schema, more, depth, fewest)

    def _with_others(self, schema: Schema, made: dict[str, Any], depth: int, fewest: int) -> Iterator[dict[str, Any]]:
        """Objects with properties that are not described: by pattern, or any."""
        patterns = schema.get("patternProperties")
        for pattern, inner in patterns.items() if isinstance(patterns, dict) else ():
            for name in islice(texts_of(pattern), 2):
                for value in islice(self._fitting(inner, depth + 1), 2):
                    yield {**made, name: value}
        if len(made) >= fewest and not {"additionalProperties", "propertyNames"} & schema.keys():
            return  # a strict library would keep such an object out for that alone
        others = schema.get("additionalProperties", True)
        names = schema.get("propertyNames", True)
        told = [name for name in self._fitting(names, depth + 1) if isinstance(name, str)] if names is not True else []
        for count in range(1, max(2, fewest - len(made) + 1)):
            keys = told[:count] if names is not True else [f"unmoor_{number}" for number in range(count)]
            for value in islice(self._fitting(others, depth + 1), 1):
                yield {**made, **dict.fromkeys(keys, value)}

    def _arrays(self, schema: Schema, depth: int) -> Iterator[list[Any]]:
        fewest = schema.get("minItems", 0)
        if not isinstance(fewest, int) or fewest > MOST_ITEMS:
            return
        first = schema.get("prefixItems")
        try:
            head = [self._one(one, depth + 1) for one in first] if isinstance(first, list) else []
        except LookupError:
            return
        items = schema.get("items", True)
        pool = list(islice(self._fitting(items, depth + 1), MOST_ITEMS)) if items is not False else []
        if "contains" in schema:
            pool = [*islice(self._fitting(schema["contains"], depth + 1), 2), *pool]
        if not pool:
            yield head[: max(fewest, len(head))]
            yield []
            return
        for size in sorted({fewest, fewest + 1, len(head) + 1, len(head)}):
            tail = max(0, size - len(head))
            yield [*head[:size], *(pool[at % len(pool)] for at in range(tail))]
            yield [*head[:size], *(apart(pool[at % len(pool)], at // len(pool)) for at in range(tail))]


def apart(value: object, number: int) -> object:
    """Another value of the same type, the `number`-th."""
    if number == 0 or isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return value + number
    return value + "a" * number if isinstance(value, str) else value


def alternately(several: Iterable[Iterator[Any]]) -> Iterator[Any]:
    """One of each in turn, until all have ended."""
    waiting = list(several)
    while waiting:
        going = []
        for one in waiting:
            for value in islice(one, 1):
                yield value
                going.append(one)
        waiting = going


def without(schema: Schema, *keywords: str) -> dict[str, Any]:
    """The schema less some of its keywords."""
    return {name: value for name, value in schema.items() if name not in keywords}


def merged(one: object, other: object) -> dict[str, Any]:
    """A schema that asks for both, as far as such can be put into one: candidates are made of it, no verdict."""
    first = dict(one) if isinstance(one, dict) else {}
    for name, value in other.items() if isinstance(other, dict) else ():
        mine = first.get(name)
        if name in {"properties", "patternProperties"} and isinstance(mine, dict) and isinstance(value, dict):
            first[name] = {**mine, **{key: merged(mine.get(key), inner) for key, inner in value.items()}}
        elif name in {"required", "allOf"} and isinstance(mine, list) and isinstance(value, list):
            first[name] = [*mine, *(each for each in value if each not in mine)]
        elif name == "enum" and isinstance(mine, list) and isinstance(value, list):
            first[name] = [each for each in mine if each in value]
        elif name.startswith(("min", "exclusiveMin")) and _both_numbers(mine, value):
            first[name] = max(mine, value)
        elif name.startswith(("max", "exclusiveMax")) and _both_numbers(mine, value):
            first[name] = min(mine, value)
        else:
            first[name] = value
    return first


def _both_numbers(one: object, other: object) -> bool:
    return isinstance(one, int | float) and isinstance(other, int | float)


def ordered(names: set[str], properties: Mapping[str, Any], required: Iterable[str]) -> list[str]:
    """`names` as declared: grammar layers force that order. Those that are not declared come behind."""
    return [name for name in dict.fromkeys((*properties, *required, *sorted(names))) if name in names]


def _inferred(schema: Schema) -> tuple[str, ...]:
    """The type that keywords speak of, where none is named."""
    speaks_of = {
        "object": ("properties", "required", "patternProperties", "minProperties", "maxProperties", "propertyNames"),
        "array": ("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"),
        "string": ("pattern", "format", "minLength", "maxLength"),
        "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
    found = tuple(kind for kind, names in speaks_of.items() if any(name in schema for name in names))
    return found or _TYPES


def strings(schema: Schema) -> Iterator[str]:
    """Texts for a schema of texts: its format's, its pattern's, and plain ones of its lengths."""
    least, most = schema.get("minLength", 0), schema.get("maxLength", MOST_CHARACTERS)
    if not isinstance(least, int) or not isinstance(most, int) or least > MOST_CHARACTERS:
        return
    if isinstance(schema.get("format"), str) and schema["format"] in FORMAT_EXAMPLES:
        yield FORMAT_EXAMPLES[schema["format"]]
    if "pattern" in schema:
        yield from texts_of(schema["pattern"])
    for size in dict.fromkeys((max(least, 1), least, max(least, 2), most if "maxLength" in schema else least)):
        if least <= size <= min(most, MOST_CHARACTERS):
            yield "a" * size
    yield from ("A1", "1", "-")


def numbers(schema: Schema, *, whole: bool) -> Iterator[int | float]:
    """Numbers at and between a schema's bounds, and multiples of its step."""
    bounds = [
        schema[name]
        for name in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
        if isinstance(schema.get(name), int | float) and not isinstance(schema[name], bool)
    ]
    step = schema.get("multipleOf")
    if isinstance(step, int | float) and not isinstance(step, bool) and step > 0:
        start = min((bound for bound in bounds), default=0) // step
        yield from (_plain((start + number) * step) for number in range(8))
    near = [chain.from_iterable((bound, bound + 1, bound - 1) for bound in bounds)] if bounds else []
    middle = [sum(bounds) / len(bounds)] if bounds else []
    for value in chain(*near, middle, (0, 1, -1, 2, 10)):
        if whole and value != int(value):
            yield int(value)
        else:
            yield _plain(value)
    if not whole:
        yield 0.5


def _plain(value: float) -> int | float:
    """A whole number without its fraction: JSON writes 10.0 otherwise than 10."""
    return int(value) if isinstance(value, int) or value.is_integer() else round(value, 9)


def texts_of(pattern: object) -> Iterator[str]:
    """Texts that most likely match: each repetition at its least, then once more."""
    if not isinstance(pattern, str) or len(pattern) > MOST_CHARACTERS:
        return
    try:
        parsed = re_parser.parse(pattern)
        for more in (0, 1, 3):
            yield "".join(_text_of(parsed, more, 0))
    except (re_parser.error, OverflowError, RecursionError, LookupError):
        return


def _text_of(parsed: Iterable[tuple[Any, Any]], more: int, depth: int) -> Iterator[str]:
    """A text for each part of a parsed pattern. Raises LookupError for what only a search could match."""
    if depth > MOST_DEPTH:
        raise LookupError
    for name, about in parsed:
        if name in {re_names.MAX_REPEAT, re_names.MIN_REPEAT}:
            least, most, inner = about
            if least > MOST_CHARACTERS:
                raise LookupError
            for _ in range(min(least + more, int(most))):
                yield from _text_of(inner, more, depth + 1)
        elif name is re_names.SUBPATTERN:
            yield from _text_of(about[-1], more, depth + 1)
        elif name is re_names.BRANCH:
            yield from _text_of(about[1][0], more, depth + 1)
        elif name is not re_names.AT:
            yield _one_character(name, about)


def _one_character(name: object, about: Any) -> str:  # noqa: ANN401 - the parser's own, untyped
    if name is re_names.LITERAL:
        return chr(about)
    if name is re_names.IN:
        return _character(about)
    if name is re_names.ANY:
        return "a"
    if name is re_names.NOT_LITERAL:
        return "a" if about != ord("a") else "b"
    raise LookupError


def _character(allowed: list[tuple[Any, Any]]) -> str:
    """A character of a set; of one that leaves some out, the first plain one that it does not."""
    sample = {"CATEGORY_DIGIT": "1", "CATEGORY_WORD": "a", "CATEGORY_SPACE": " "}
    if allowed[0][0] is re_names.NEGATE:
        barred = {chr(about) for name, about in allowed if name is re_names.LITERAL}
        return next(one for one in "aZ1 -" if one not in barred)
    name, about = allowed[0]
    if name is re_names.LITERAL:
        return chr(about)
    if name is re_names.RANGE:
        return chr(about[0])
    return sample.get(str(about), "a")
