"""JSON schemas from clients: what is refused unseen, and what the engine has said of those that it has seen. No I/O.

The engine has no call that only compiles a schema: it does so within a step. There a failure ends every request that
shares the step, and a large schema stands still for seconds. So what cannot work is refused before.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

MAX_SCHEMA_BYTES = 64 * 1024
MAX_DEPTH = 64
MAX_REPEATS = 1000
REMEMBERED = 1024

TYPES = {"null", "boolean", "object", "array", "number", "integer", "string"}
# Where a schema holds schemas by name, in a list, or one alone; everything else (enum, const, default) holds data.
BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
ALONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
         "unevaluatedProperties", "unevaluatedItems", "additionalItems")  # fmt: skip
REPEATS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")

_LOOKAROUND = re.compile(r"\(\?(?!:)")
_BACKREFERENCE_OR_BOUNDARY = re.compile(r"\\[1-9bB]")
_BOUNDS = re.compile(r"\{(\d+)(?:,(\d*))?\}")


def fault_of(schema: dict[str, Any]) -> str | None:
    """Why this schema cannot be used, without asking the engine; None when nothing speaks against it.

    Quotes nothing of the schema but the engine's own words for its parts.
    """
    if len(json.dumps(schema)) > MAX_SCHEMA_BYTES:
        return f"it has more than {MAX_SCHEMA_BYTES} bytes"
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_DEPTH:
            return f"it is nested more than {MAX_DEPTH} deep"
        fault = _fault_of_part(part, schema)
        if fault is not None:
            return fault
        if isinstance(part, dict):
            waiting.extend((inner, depth + 1) for inner in _schemas_in(part))
    return None


def _schemas_in(part: dict[str, Any]) -> Iterator[Any]:
    for name in BY_NAME:
        if isinstance(part.get(name), dict):
            yield from part[name].values()
    for name in LISTS:
        if isinstance(part.get(name), list):
            yield from part[name]
    for name in ALONE:
        if name in part:
            yield from part[name] if isinstance(part[name], list) else (part[name],)


def _fault_of_part(part: Any, root: dict[str, Any]) -> str | None:
    if isinstance(part, bool):
        return None
    if not isinstance(part, dict):
        return "a part that should be a schema is none"
    wanted = part.get("type", [])
    kinds = wanted if isinstance(wanted, list) else [wanted]
    if not all(isinstance(kind, str) and kind in TYPES for kind in kinds):
        return "it has an unknown 'type'"
    if "enum" in part and not (isinstance(part["enum"], list) and part["enum"]):
        return "it has an 'enum' without values"
    if "$ref" in part and not _resolves(part["$ref"], root):
        return "it has a '$ref' that leads nowhere within it"
    return _fault_of_bounds(part)


def _fault_of_bounds(part: dict[str, Any]) -> str | None:
    for name in REPEATS:
        bound = part.get(name, 0)
        if isinstance(bound, bool) or not isinstance(bound, int) or not 0 <= bound <= MAX_REPEATS:
            return f"its '{name}' is not a whole number up to {MAX_REPEATS}"
    if any(part.get(f"min{of}", 0) > part.get(f"max{of}", MAX_REPEATS) for of in ("Length", "Items", "Properties")):
        return "it has a least that is more than its most"
    named = part.get("patternProperties")
    patterns = [part["pattern"]] if "pattern" in part else []
    return next(filter(None, map(_fault_of_pattern, [*patterns, *(named if isinstance(named, dict) else ())])), None)


def _fault_of_pattern(pattern: Any) -> str | None:
    if not isinstance(pattern, str):
        return "it has a 'pattern' that is no text"
    if _LOOKAROUND.search(pattern) or _BACKREFERENCE_OR_BOUNDARY.search(pattern):
        return "it has a 'pattern' with a lookaround, a named group, a back reference or a word boundary"
    repeats = 1
    for least, most in _BOUNDS.findall(pattern):
        repeats *= max(1, int(least), int(most or 0))
        if repeats > MAX_REPEATS:
            return f"it has a 'pattern' with more than {MAX_REPEATS} repetitions"
    return None


def _resolves(ref: Any, root: dict[str, Any]) -> bool:
    if not isinstance(ref, str) or not ref.startswith("#"):
        return False
    at: Any = root
    for step in ref[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(at, list) and name.isascii() and name.isdigit() and len(name) < len(str(MAX_SCHEMA_BYTES)):
            at = dict(enumerate(at)).get(int(name))
        else:
            at = at.get(name) if isinstance(at, dict) else None
    return isinstance(at, dict | bool) and (ref == "#" or ref.startswith("#/"))


class Tried:
    """What became of the schemas that the engine has seen; the last `REMEMBERED` of them, by their hash."""

    def __init__(self) -> None:
        self._faults: OrderedDict[bytes, str | None] = OrderedDict()

    def note(self, schema: str, fault: str | None) -> None:
        """Keeps that it compiled (None), or why it did not."""
        key = _key(schema)
        self._faults[key] = fault
        self._faults.move_to_end(key)
        if len(self._faults) > REMEMBERED:
            self._faults.popitem(last=False)

    def knows(self, schema: str) -> bool:
        """Whether it was tried."""
        return _key(schema) in self._faults

    def fault(self, schema: str) -> str | None:
        """Why it cannot be used; None when it can, or was never tried."""
        return self._faults.get(_key(schema))


def _key(schema: str) -> bytes:
    return sha256(schema.encode()).digest()
