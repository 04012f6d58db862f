"""Every constraint is a feature with its outcome, and none is the same of which it is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unmoor.engines.surface.load import surface
from unmoor.leave.check import check_move
from unmoor.leave.finding import MoveReport
from unmoor.leave.gather import Brought, case_of
from unmoor.leave.uses import Uses

AN_OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


def checked(folder: Path, source: str, target: str, *schemas: dict[str, Any]) -> MoveReport:
    (folder / "schemas").mkdir(exist_ok=True)
    for number, schema in enumerate(schemas):
        (folder / "schemas" / f"{number}.json").write_text(json.dumps(schema))
    brought = Brought(schemas=folder / "schemas")
    return check_move(case_of(surface(source), surface(target), Uses(), brought, say=lambda _: None))


@pytest.mark.parametrize(
    ("schema", "outcome", "kinds"),
    [
        ({"type": "string", "pattern": "b"}, "lost", ("UM116",)),
        ({"type": "string", "pattern": "^(?=a)b$"}, "lost", ("UM116",)),
        ({"type": "string", "pattern": "^a+$"}, "same", ()),
        ({"type": "string", "pattern": "^a|b$"}, "unknown", ()),
        ({"type": "string", "pattern": r"^(a)\1$"}, "unknown", ()),
        ({"type": "string", "format": "uri"}, "lost", ("UM116",)),
        ({"type": "string", "format": "uuid"}, "same", ()),
        ({"allOf": [{"type": "string"}, {"enum": ["yes", "no"]}]}, "lost", ("UM116",)),
        ({"allOf": [AN_OBJECT, {"properties": {"c": {"type": "string"}}}]}, "translated", ("UM135",)),
        (
            {"allOf": [AN_OBJECT, {"properties": {"c": {"type": "string", "format": "uri"}}}]},
            "lost",
            ("UM116", "UM135"),
        ),
        ({**AN_OBJECT, "allOf": [AN_OBJECT, {"required": ["a"]}]}, "lost", ("UM116", "UM135")),
        ({"allOf": [AN_OBJECT, {"minProperties": 1}]}, "unknown", ("UM135",)),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, "same", ()),
        ({"$ref": "#/$defs/n", "minLength": 5, "$defs": {"n": {"type": "string"}}}, "same", ()),
        ({"$ref": "#n", "$defs": {"n": {"$anchor": "n", "type": "integer"}}}, "lost", ("UM136",)),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "minItems": 1, "maxItems": 1}, "same", ()),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, "lost", ("UM116",)),
        ({**AN_OBJECT, "unevaluatedProperties": False}, "unknown", ()),
        ({**AN_OBJECT, "dependencies": {"a": ["b"]}}, "unknown", ()),
        ({"type": "integer", "minimum": 5, "exclusiveMinimum": True}, "unknown", ()),
        ({"type": "array", "items": [{"type": "integer"}], "additionalItems": False}, "unknown", ()),
        ({"type": "integer", "ownWord": 1}, "unknown", ()),
        ({"type": "integer", "x-own": 1, "title": "t", "default": 3}, "same", ()),
        (AN_OBJECT, "same", ()),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else "",
)
def test_a_form_of_a_keyword_decides_or_it_is_told_as_not_known(
    tmp_path: Path, schema: dict[str, Any], outcome: str, kinds: tuple[str, ...]
) -> None:
    report = checked(tmp_path, "vllm", "llama-cpp", schema)
    (feature,) = report.features
    assert (feature.outcome, feature.kinds, feature.requests) == (outcome, kinds, 0)
    told = [one for one in report.not_looked_at if feature.name in one]
    assert bool(told) == (outcome == "unknown")
    assert "ownWord" not in repr(report)


def test_what_stands_beside_a_reference_was_never_enforced_where_it_is_skipped(tmp_path: Path) -> None:
    schema = {"$ref": "#/$defs/s", "minLength": 5, "$defs": {"s": {"type": "string"}}}
    report = checked(tmp_path, "llama-cpp", "sglang", schema)
    assert [(one.outcome, one.kinds) for one in report.features] == [("same", ())]


def test_a_schema_that_is_not_compiled_is_not_the_same(tmp_path: Path) -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    report = checked(tmp_path, "vllm", "sglang", deep)
    assert [one.outcome for one in report.features] == ["unknown"]
    assert report.findings == ()
    assert any("nested more than 64 deep" in one for one in report.not_looked_at)


def test_of_very_many_constraints_none_is_left_out(tmp_path: Path) -> None:
    schemas = [{"type": "array", "items": {"const": number}, "uniqueItems": True} for number in range(60)]
    report = checked(tmp_path, "llama-cpp", "vllm", *schemas)
    assert [one.outcome for one in report.features] == ["lost"] * 60
