"""What a schema uses, which values fit it, and which miss it by one keyword alone: held against jsonschema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from keyword_schemas import ROWS, Row

from unmoor.core.json_schema import UNKNOWN, Validity
from unmoor.leave.schemas.features import MOST_ALIKE, are_disjoint, features_of
from unmoor.leave.schemas.instances import JUNK, Instances
from unmoor.leave.schemas.mutate import Trials, controls

NOT_IN_JSONSCHEMA = {"nullable_word", "format_unknown"}
"""Of OpenAPI; and presumed, as nobody here knows the format."""


def fits(schema: object, value: object) -> bool:
    """What the independent library says; formats are asserted where it knows them."""
    checker = jsonschema.FormatChecker(["email", "date", "ipv4"])
    return bool(jsonschema.Draft202012Validator(schema, format_checker=checker).is_valid(value))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.feature} {json.dumps(row.schema)[:40]}")
def test_each_feature_is_found_at_its_place(row: Row) -> None:
    features = features_of(row.schema)
    assert row.feature in features.count
    assert any(place.feature == row.feature for place in features.places)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.feature} {json.dumps(row.schema)[:40]}")
def test_controls_are_valid_and_mutations_are_not(row: Row) -> None:
    made = Trials().of(row.schema, features_of(row.schema))
    assert made or row.feature == "recursion"
    for place, trial in made.items():
        schema = json.loads(trial.schema)
        if "nullable" not in schema:
            assert all(fits(schema, json.loads(text)) for text in (*trial.good, *trial.extra)), place
        if place.feature not in NOT_IN_JSONSCHEMA:
            assert not any(fits(schema, json.loads(text)) for text in trial.bad), place
    assert all(fits(row.schema, json.loads(text)) for text in controls(row.schema) if "nullable" not in row.schema)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.feature} {json.dumps(row.schema)[:40]}")
def test_a_mutation_is_valid_but_for_its_keyword(row: Row) -> None:
    for place, trial in Trials().of(row.schema, features_of(row.schema)).items():
        if place.feature in {"patternProperties", "prefixItems"}:
            continue  # of these only what stands in them is opened
        bare = {name: value for name, value in json.loads(trial.schema).items() if name not in place.keywords}
        assert all(fits(bare, json.loads(text)) for text in trial.bad), place
        assert trial.bad or place.feature in {
            "ref",
            "recursion",
            "nullable",
            "nullable_word",
            "additionalProperties_absent",
        }, place


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.feature} {json.dumps(row.schema)[:40]}")
def test_validity_is_what_the_standard_says(row: Row) -> None:
    if "nullable" in row.schema:
        pytest.skip("OpenAPI's word, which the standard does not know")
    for value in (*JUNK, *Instances(row.schema).candidates(row.schema), {"a": 1}, {"a": 1, "b": 2}, [3], [1, 3]):
        try:
            ours = Validity(row.schema).fits(row.schema, value)
        except UNKNOWN:
            continue
        assert ours == fits(row.schema, value), value


def test_places_are_numbered_not_named() -> None:
    schema = {
        "type": "object",
        "properties": {"patient": {"type": "object", "properties": {"diagnosis": {"type": "string", "maxLength": 9}}}},
    }
    places = features_of(schema).places
    assert ("length_bounds", "/properties/0/properties/0") in {(place.feature, place.at) for place in places}
    assert "patient" not in repr([place.at for place in places])


def test_a_feature_is_tried_a_few_times_and_counted_every_time() -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string", "maxLength": n} for n in range(20)}}
    features = features_of(schema)
    assert features.count["length_bounds"] == 20
    assert sum(place.feature == "length_bounds" for place in features.places) == MOST_ALIKE


def test_schemas_that_differ_in_numbers_and_names_share_their_trials() -> None:
    trials = Trials()
    schemas: list[dict[str, Any]] = [
        {"type": "object", "properties": {f"name{n}": {"type": "string", "maxLength": n + 3}}} for n in range(50)
    ]
    made = [trial for schema in schemas for trial in trials.of(schema, features_of(schema)).values()]
    assert len(made) == 100
    assert len({trial.schema for trial in made}) == 2


def test_branches_that_no_value_shares_are_told_from_those_that_overlap() -> None:
    def tagged(value: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"kind": {"const": value}}, "required": ["kind"]}

    assert are_disjoint([{"type": "string"}, {"type": "null"}])
    assert are_disjoint([tagged("a"), tagged("b")])
    assert not are_disjoint([tagged("a"), tagged("a")])
    assert not are_disjoint([{"type": "integer"}, {"type": "number"}])
    assert not are_disjoint([{"type": "object"}, {"type": "object"}])
    assert not are_disjoint([{}, {"type": "string"}])
    assert not are_disjoint([True, {"type": "string"}])


def test_references_that_lead_in_a_circle_are_found_and_end() -> None:
    round_and_round = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    features = features_of(round_and_round)
    assert features.count["recursion"] == 3
    assert controls(round_and_round) == ()
    assert features_of({"$ref": "https://example.com/other.json"}).count == {"ref_elsewhere": 1}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"enum": ["x" * 1000] * 11_000}, "bytes"),
        ({"enum": list(range(300_000))}, "values"),
    ],
    ids=["10 MB", "300,000 values"],
)
def test_a_schema_that_is_too_large_is_not_looked_at(schema: object, why: str) -> None:
    features = features_of(schema)
    assert features.places == ()
    assert why in features.too_large


def test_a_schema_that_is_too_deep_is_not_looked_at() -> None:
    deep: object = {"type": "integer"}
    for _ in range(100_000):
        deep = {"items": deep}
    assert "deep" in features_of(deep).too_large
    while isinstance(deep, dict):  # taken apart by hand: the interpreter would do it recursively
        deep = deep.pop("items", None)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 7, "properties": [], "required": "a", "anyOf": {}, "enum": 3, "minimum": "x", "uniqueItems": "yes"},
        {"type": "string", "pattern": "(a+)+$", "minLength": 10**12},
        {"type": "string", "pattern": "((((", "maxLength": -1},
        {"type": "string", "pattern": "^(?:a{1,1000}){1,1000}{1,1000}$"},
        {"type": "array", "minItems": 10**12, "items": {"type": "array", "minItems": 10**12}, "uniqueItems": True},
        {"type": "number", "multipleOf": 0, "minimum": 10**400},
        {"type": "integer", "multipleOf": 1e-300, "maximum": 1e308},
        {"oneOf": [{"$ref": "#"}, {"$ref": "#"}], "not": {"$ref": "#"}},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"properties": {"a": 5, "b": None}, "required": [1, None], "dependentRequired": [1]},
        {"if": 3, "then": 4, "not": 5, "contains": 6, "prefixItems": 7, "patternProperties": 8, "propertyNames": 9},
        [1, 2],
        "text",
        True,
        None,
    ],
    ids=lambda schema: json.dumps(schema)[:50],
)
def test_hostile_schemas_are_walked_and_tried_without_harm(schema: object) -> None:
    features = features_of(schema)
    Trials().of(schema, features)
    controls(schema)


def test_the_page_has_the_table_that_is_tested() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "schemas.md").read_text()
    table = [line for line in page.splitlines() if line.endswith(("enforced |", "leaks |", "refused |", "blocks |"))]
    assert table == [
        f"| `{row.feature}` | `{json.dumps(row.schema)}` | {row.xgrammar} | {row.llguidance} |" for row in ROWS
    ]
