"""A small schema for each feature, and what the two grammar libraries make of it: the table in docs/reference."""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    """One schema, the feature that it shows, and what xgrammar 0.2.8 and llguidance 1.7.6 make of that."""

    schema: dict[str, Any]
    feature: str
    xgrammar: str
    llguidance: str


def an_object(**more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, **more}


ROWS = (
    Row(an_object(additionalProperties=False), "additionalProperties_false", "enforced", "enforced"),
    Row({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "uniqueItems", "leaks", "refused"),
    Row({"type": "string", "not": {"const": "x"}}, "not", "leaks", "refused"),
    Row(
        an_object(**{"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["b"]}}),
        "if_then_else",
        "leaks",
        "refused",
    ),
    Row(an_object(dependentRequired={"a": ["b"]}), "dependentRequired", "leaks", "refused"),
    Row(an_object(dependentSchemas={"a": {"required": ["b"]}}), "dependentSchemas", "leaks", "refused"),
    Row({"type": "array", "items": {"type": "integer"}, "contains": {"const": 3}}, "contains", "leaks", "refused"),
    Row({"type": "array", "contains": {"const": 3}}, "contains", "blocks", "refused"),
    Row({"allOf": [{"type": "string"}, {"enum": ["yes", "no"]}]}, "allOf", "leaks", "enforced"),
    Row({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 0}]}, "oneOf", "leaks", "refused"),
    Row({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "anyOf", "enforced", "enforced"),
    Row({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "anyOf", "enforced", "enforced"),
    Row({"type": "string", "pattern": "^a+$"}, "pattern", "enforced", "enforced"),
    Row({"type": "string", "pattern": "^a+$", "maxLength": 3}, "pattern_with_length", "leaks", "enforced"),
    Row({"type": "string", "format": "email"}, "format", "enforced", "enforced"),
    Row({"type": "string", "format": "phone"}, "format_unknown", "leaks", "refused"),
    Row({"type": "integer", "multipleOf": 5}, "multipleOf", "enforced", "enforced"),
    Row({"type": "number", "multipleOf": 0.5}, "multipleOf", "leaks", "enforced"),
    Row(
        {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
        "patternProperties",
        "enforced",
        "enforced",
    ),
    Row({"type": "object", "propertyNames": {"pattern": "^a+$"}}, "propertyNames", "enforced", "refused"),
    Row({"type": "number", "minimum": 5.5, "maximum": 9}, "number_bounds", "enforced", "enforced"),
    Row({"type": "integer", "minimum": 5, "maximum": 9}, "integer_bounds", "enforced", "enforced"),
    Row(
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
        "items_bounds",
        "enforced",
        "enforced",
    ),
    Row({"type": "string", "minLength": 2, "maxLength": 3}, "length_bounds", "enforced", "enforced"),
    Row(an_object(minProperties=1), "properties_bounds", "enforced", "refused"),
    Row(
        {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2},
        "properties_bounds",
        "enforced",
        "enforced",
    ),
    Row({"type": "object", "minProperties": 2}, "properties_bounds", "refused", "enforced"),
    Row(an_object(required=["a", "z"]), "required_undeclared", "leaks", "enforced"),
    Row({"enum": ["a", 1, None]}, "enum", "enforced", "enforced"),
    Row({"const": "a"}, "const", "enforced", "enforced"),
    Row({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, "ref", "enforced", "enforced"),
    Row(
        {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "more": {"type": "array", "items": {"$ref": "#"}}},
            "required": ["v"],
            "additionalProperties": False,
        },
        "recursion",
        "enforced",
        "enforced",
    ),
    Row(
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": False,
            "minItems": 2,
        },
        "prefixItems",
        "enforced",
        "enforced",
    ),
    Row({"type": ["string", "null"]}, "nullable", "enforced", "enforced"),
    Row({"type": "string", "nullable": True}, "nullable_word", "blocks", "blocks"),
)
