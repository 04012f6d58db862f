"""In which form a keyword stands: what decides it where a side's support of the keyword varies.

A form is a key of a surface's table beside the plain feature ("pattern:partial"): of those that the surface has, the
most specific is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]

SAYS_NOTHING = frozenset(
    (
        *("$schema", "$id", "$comment", "$vocabulary", "$defs", "definitions", "title", "description", "default"),
        *("example", "examples", "deprecated", "readOnly", "writeOnly", "discriminator", "xml", "externalDocs"),
        *("enumNames", "enumDescriptions", "propertyOrdering", "markdownDescription"),
        *("contentEncoding", "contentMediaType", "contentSchema"),
    )
)
"""Keywords that keep no value out: notes of JSON Schema 2020-12, of OpenAPI and of what writes schemas for them."""

_LOOKAROUND = re.compile(r"\(\?<?[=!]")
_NOT_REGULAR = re.compile(r"\(\?(?!:)|\\[bB1-9kpP]")
_PLAIN_OBJECT = SAYS_NOTHING | {"type", "properties", "required"}
_MOST_REFERENCES = 8


def forms_of(feature: str, node: Schema, follow: Callable[[object], object]) -> tuple[str, ...]:
    """The forms in which `feature` stands at `node`, the most specific first. `follow` gives what a reference leads to.

    What stands beside a reference, or beside anyOf or oneOf, is first of all that ("beside_ref", "beside_anyOf").
    """
    beside = []
    if "$ref" in node and feature not in {"ref", "ref_elsewhere", "recursion"}:
        beside.append("beside_ref")
    if not {"anyOf", "oneOf"}.isdisjoint(node) and feature not in {"anyOf", "oneOf", "ref", "ref_elsewhere"}:
        beside.append("beside_anyOf")
    told = _FORMS.get(feature)
    return (*beside, *(f"{feature}:{form}" for form in (told(node, follow) if told else ())))


def constraining(node: Schema) -> frozenset[str]:
    """The keywords of a schema that may keep a value out."""
    return frozenset(node) - SAYS_NOTHING


def _pattern(node: Schema, _follow: Callable[[object], object]) -> Sequence[str]:
    text = node.get("pattern")
    if not isinstance(text, str):
        return ()
    if _LOOKAROUND.search(text):
        return "lookaround", "not_regular"
    if _NOT_REGULAR.search(text):
        return ("not_regular",)
    ends = text.startswith("^") and text.endswith("$") and not text.endswith("\\$")
    if not ends:
        return ("partial",)
    return () if _has_outer_choice(text) else ("whole",)


def _has_outer_choice(text: str) -> bool:
    """Whether the pattern is several, parted by | outside of every group: then ^ and $ are not those of the whole."""
    bare = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "", text)
    depth = 0
    for character in bare:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "|" and depth == 0:
            return True
    return False


def _format(node: Schema, _follow: Callable[[object], object]) -> Sequence[str]:
    name = node.get("format")
    return (name,) if isinstance(name, str) else ()


def _all_of(node: Schema, follow: Callable[[object], object]) -> Sequence[str]:
    if "properties" in node:
        return ("beside_properties",)
    branches = [_followed(one, follow) for one in node["allOf"]]
    if any(one is None for one in branches):
        return ()
    plain = [isinstance(one, dict) and "properties" in one and set(one) <= _PLAIN_OBJECT for one in branches]
    if all(plain):
        return ("objects",)
    return ("no_objects",) if not any(_may_be_object(one) for one in branches) else ()


def _may_be_object(branch: object) -> bool:
    if not isinstance(branch, dict):
        return True
    kinds = branch.get("type")
    named = {kinds} if isinstance(kinds, str) else set(map(str, kinds)) if isinstance(kinds, list) else set()
    if named:
        return "object" in named
    values = branch.get("enum", [branch["const"]] if "const" in branch else None)
    return not isinstance(values, list) or any(isinstance(value, dict) for value in values)


def _followed(branch: object, follow: Callable[[object], object]) -> object:
    """The schema that a branch is, behind its references; None where it says more beside one, or leads nowhere."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(branch, dict) or "$ref" not in branch:
            return branch
        if constraining(branch) != {"$ref"}:
            return None
        branch = follow(branch["$ref"])
    return None


def _ref(node: Schema, _follow: Callable[[object], object]) -> Sequence[str]:
    return ("alone",) if constraining(node) == {"$ref"} else ("beside",)


def _any_of(node: Schema, _follow: Callable[[object], object]) -> Sequence[str]:
    """What stands beside the branches; a type repeats what they say, as a rule, and counts only without them."""
    more = constraining(node) - {"anyOf", "oneOf", "type", "nullable"}
    return ("beside",) if more else ()


def _tuple(node: Schema, _follow: Callable[[object], object]) -> Sequence[str]:
    if _is_exact(node):
        return ("exact",)
    return ("beside_items",) if "items" in node else ("open",)


def _is_exact(node: Schema) -> bool:
    """Whether a list has as many items as are described, no fewer and no more."""
    listed = node.get("prefixItems")
    return (
        isinstance(listed, list) and "items" not in node and node.get("minItems") == len(listed) == node.get("maxItems")
    )


def _items_bounds(node: Schema, _follow: Callable[[object], object]) -> Sequence[str]:
    return ("beside_prefixItems",) if "prefixItems" in node and not _is_exact(node) else ()


def _contains(node: Schema, _follow: Callable[[object], object]) -> Sequence[str]:
    if not {"minContains", "maxContains"}.isdisjoint(node):
        return ("counted",)
    return ("beside_items",) if "items" in node else ("alone",)


def _multiple(node: Schema, _follow: Callable[[object], object]) -> Sequence[str]:
    return ("integer",) if node.get("type") == "integer" else ("number",) if node.get("type") == "number" else ()


_FORMS: Mapping[str, Callable[[Schema, Callable[[object], object]], Sequence[str]]] = {
    "pattern": _pattern,
    "format": _format,
    "allOf": _all_of,
    "ref": _ref,
    "anyOf": _any_of,
    "oneOf": _any_of,
    "prefixItems": _tuple,
    "items_bounds": _items_bounds,
    "contains": _contains,
    "multipleOf": _multiple,
}
