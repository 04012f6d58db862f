"""What each side makes of schemas: by the libraries themselves where they are here, else by the surface's table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from keyword_schemas import ROWS, Row, an_object

from unmoor.engines.surface.load import surface
from unmoor.engines.surface.surface import Source, Support, Surface, Trait
from unmoor.launch.schema_compilers import NAME, compilers
from unmoor.leave.case import Case
from unmoor.leave.checks.schemas import CHECK
from unmoor.leave.finding import Finding
from unmoor.leave.schemas.answers import SchemaAnswers
from unmoor.leave.schemas.ask import MOST_ASKED, ask_schemas
from unmoor.leave.schemas.backends import backends_for
from unmoor.leave.uses import Constraint, Rows, Uses

SOURCE = Source(how="run", what="a test", version="1", seen=date(2026, 12, 1))


def side(name: str, backends: str | None, schema: dict[str, Support] | None = None, **traits: str) -> Surface:
    """A surface that says only what enforces schemas."""
    told = {"structured_backends": Trait(value=backends, source="s", flag="--backend"),
            **{key: Trait(value=value, source="s") for key, value in traits.items()}}  # fmt: skip
    return Surface(
        engine=name,
        title=name.title(),
        version="1",
        as_of=date(2026, 12, 1),
        sources={"s": SOURCE},
        unknown_fields=Trait(value="ignored", source="s"),
        fields={},
        traits=told,
        schema=schema or {},
    )


def support(value: Any) -> Support:  # noqa: ANN401 - one of the words of Support
    return Support(value=value, source="s", note="as told")


XGRAMMAR, LLGUIDANCE = side("one", "xgrammar"), side("other", "guidance")


@pytest.fixture(scope="module")
def libraries() -> None:
    if compilers(()) is None:
        pytest.skip(f"needs `unmoor engines install {NAME}`")


def uses_of(*schemas: Any, kind: Any = "json_schema") -> Uses:  # noqa: ANN401 - any JSON
    """Traffic in which the schema with the key "k3" is that of lines 3 and 103."""
    uses = Uses()
    for number, schema in enumerate(schemas):
        uses.constraints[f"k{number}"] = Constraint(f"k{number}", kind, schema)
        uses.by_constraint[f"k{number}"] = Rows([number, number + 100])
    return uses


def answers_of(uses: Uses, source: Surface, target: Surface) -> SchemaAnswers:
    return ask_schemas(uses, source, target, say=lambda _: None)


def findings(uses: Uses, source: Surface, target: Surface) -> list[Finding]:
    case = Case(uses=uses, source=source, target=target, schemas=answers_of(uses, source, target))
    return [one.finding for one in CHECK.look(case)]


def kinds(found: Sequence[Finding]) -> list[str]:
    return [one.kind for one in found]


@pytest.mark.usefixtures("libraries")
def test_the_table_of_keywords_is_what_the_libraries_do() -> None:
    answers = answers_of(uses_of(*(row.schema for row in ROWS)), XGRAMMAR, LLGUIDANCE)
    for number, row in enumerate(ROWS):
        for told, expected in ((answers.source, row.xgrammar), (answers.target, row.llguidance)):
            answer = told[f"k{number}"]
            verdicts = {one.keyword: one.verdict for one in answer.keywords}
            assert verdicts.get(row.feature, answer.verdict) == expected, (answer.by, row)
    assert {answer.by for answer in answers.source.values()} == {"xgrammar 0.2.8"}
    assert {answer.by for answer in answers.target.values()} == {"llguidance 1.7.6"}


@pytest.mark.usefixtures("libraries")
def test_objects_are_strict_on_one_side_only() -> None:
    uses = uses_of(an_object(), an_object(additionalProperties=True), {"type": "string"})
    answers = answers_of(uses, XGRAMMAR, LLGUIDANCE)
    assert [answers.source[key].strict_objects for key in ("k0", "k1", "k2")] == [True, None, None]
    assert [answers.target[key].strict_objects for key in ("k0", "k1", "k2")] == [False, None, None]
    (found,) = findings(uses, XGRAMMAR, LLGUIDANCE)
    assert (found.kind, found.outcome, found.requests, found.lines) == ("UM135", "translated", 2, (0, 100))
    assert found.by == "llguidance 1.7.6"
    assert "lets them in" in found.seen
    (back,) = findings(uses, LLGUIDANCE, XGRAMMAR)
    assert "keeps them out" in back.seen


@pytest.mark.usefixtures("libraries")
def test_a_keyword_that_leaks_and_one_that_is_refused_are_told_by_key_and_line() -> None:
    allof = {"allOf": [{"type": "string"}, {"enum": ["yes", "no"]}]}
    (leak,) = findings(uses_of(allof), LLGUIDANCE, XGRAMMAR)
    assert (leak.kind, leak.outcome, leak.severity, leak.by) == ("UM116", "lost", "error", "xgrammar 0.2.8")
    assert leak.features == ("schema k0",)
    assert leak.requests == 2
    unique = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    (refused,) = findings(uses_of(unique), XGRAMMAR, LLGUIDANCE)
    assert (refused.kind, refused.outcome) == ("UM136", "lost")
    assert "uniqueItems" in refused.seen
    assert findings(uses_of(unique), LLGUIDANCE, XGRAMMAR) == []


@pytest.mark.usefixtures("libraries")
def test_what_both_sides_enforce_alike_is_not_told() -> None:
    plain = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 40},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 5},
            "when": {"type": "string", "format": "date"},
            "note": {"type": ["string", "null"]},
            "of": {"$ref": "#/$defs/of"},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
        "$defs": {"of": {"anyOf": [{"type": "integer"}, {"const": "none"}]}},
    }
    for source, target in ((XGRAMMAR, LLGUIDANCE), (LLGUIDANCE, XGRAMMAR), (XGRAMMAR, XGRAMMAR)):
        assert findings(uses_of(plain), source, target) == []
    # A leak on both sides is no loss of the move.
    overlapping = {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 0}]}
    assert findings(uses_of(overlapping), XGRAMMAR, XGRAMMAR) == []


@pytest.mark.usefixtures("libraries")
def test_findings_hold_no_text_of_a_schema() -> None:
    secret = {
        "type": "object",
        "properties": {"diagnosis": {"type": "array", "items": {"enum": ["gout"]}, "uniqueItems": True}},
        "patternProperties": {"^insurer": {"not": {"const": "acme"}}},
    }
    answers = answers_of(uses_of(secret), XGRAMMAR, LLGUIDANCE)
    found = findings(uses_of(secret), XGRAMMAR, LLGUIDANCE)
    assert found
    for word in ("diagnosis", "gout", "insurer", "acme"):
        assert word not in repr(found)
        assert word not in repr(answers)


@pytest.mark.usefixtures("libraries")
def test_a_server_refuses_what_its_library_would_take() -> None:
    checked = side("checked", "xgrammar", {"multipleOf": support("refused")})
    (found,) = findings(uses_of({"type": "integer", "multipleOf": 5}), XGRAMMAR, checked)
    assert (found.kind, found.by) == ("UM136", "table")
    assert "multipleOf (as told)" in found.seen
    assert [source.what for source in found.sources] == ["a test"]


@pytest.mark.usefixtures("libraries")
def test_the_next_backend_serves_what_the_first_is_not_given_or_refuses() -> None:
    auto = side("auto", "xgrammar, guidance", structured_fallback="allOf>guidance")
    allof = {"allOf": [{"type": "string"}, {"enum": ["yes", "no"]}]}
    broken = {"type": "object", "minProperties": 2}
    answers = answers_of(uses_of(allof, broken, {"type": "string"}), auto, XGRAMMAR)
    assert [answers.source[key].by for key in ("k0", "k1", "k2")] == [
        "llguidance 1.7.6",
        "llguidance 1.7.6",
        "xgrammar 0.2.8",
    ]
    assert answers.target["k1"].verdict == "refused"


@pytest.mark.usefixtures("libraries")
def test_a_regex_and_a_grammar_are_compiled() -> None:
    regexes = uses_of("[a-z]+", "a(", kind="regex")
    answers = answers_of(regexes, XGRAMMAR, LLGUIDANCE)
    assert [answers.target[key].verdict for key in ("k0", "k1")] == ["enforced", "refused"]
    lookahead = uses_of("(?!a)[a-z]+", kind="regex")
    told = answers_of(lookahead, XGRAMMAR, LLGUIDANCE)
    expected = ["UM136"] if told.target["k0"].verdict == "refused" else []  # refused by both: said all the same
    assert kinds(findings(lookahead, XGRAMMAR, LLGUIDANCE)) == expected
    choices = answers_of(uses_of(["yes", "no"], kind="choice"), XGRAMMAR, LLGUIDANCE)
    assert choices.source["k0"].verdict == choices.target["k0"].verdict == "enforced"


@pytest.mark.usefixtures("libraries")
def test_each_schema_is_asked_once_for_both_sides() -> None:
    said: list[str] = []
    uses = uses_of(an_object(), {"type": "string"})
    answers = ask_schemas(uses, XGRAMMAR, side("another", "xgrammar"), say=said.append)
    assert len(said) == 1
    assert answers.source == answers.target


@pytest.mark.usefixtures("libraries")
def test_schemas_that_explode_are_told_and_the_others_answered() -> None:
    large = {"enum": [f"x{number}" * 40 for number in range(20_000)]}
    deep: object = {"type": "integer"}
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    huge = {"type": "array", "minItems": 10**9, "items": {"type": "string", "minLength": 10**9}}
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    uses = uses_of(large, deep, huge, loop, {"type": "string", "maxLength": 3})
    answers = answers_of(uses, XGRAMMAR, LLGUIDANCE)
    assert [answers.target[f"k{number}"].too_large for number in range(5)] == [True, True, True, False, False]
    assert [answers.source[f"k{number}"].too_large for number in range(5)] == [True, True, False, False, False]
    assert answers.target["k4"].verdict == "enforced"
    told = {(one.features, one.outcome) for one in findings(uses, XGRAMMAR, LLGUIDANCE) if one.kind == "UM137"}
    assert told == {(("schema k2",), "lost")}


def test_without_a_library_the_table_answers_and_says_so(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"type": "integer", "multipleOf": 5}))
    code = (
        "import sys; from pathlib import Path; from unmoor.engines.surface.load import surface;"
        "from unmoor.leave.schemas.ask import ask_schemas; from unmoor.leave.uses import Uses;"
        "from unmoor.leave.schemas.files import read_schemas;"
        "more = read_schemas(Path(sys.argv[1])).constraints;"
        "told = ask_schemas(Uses(), surface('vllm'), surface('sglang'), more=more, say=print);"
        "print([(one.by, one.verdict) for one in (*told.source.values(), *told.target.values())]);"
        "print(*told.not_asked, sep='\\n')"
    )
    env = os.environ | {"UNMOOR_HOME": str(tmp_path / "home")}
    argv = [sys.executable, "-c", code, str(schema)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    assert "[('table', 'enforced'), ('table', 'refused')]" in done
    assert "not installed here, the table answered (unmoor engines install schema-compilers)" in done


def test_a_backend_that_must_be_configured_is_told_once() -> None:
    none = side("bare", "none")
    uses = uses_of({"type": "string"}, an_object())
    (found,) = findings(uses, side("table", "gbnf"), none)
    assert (found.kind, found.outcome, found.requests) == ("UM138", "translated", 4)
    assert "--backend" in found.fix
    assert findings(uses, none, none) == []


def test_the_table_alone_tells_leaks_and_refusals() -> None:
    table = {"multipleOf": support("leaks"), "not": support("refused"), "pattern": support("enforced")}
    target = side("gb", "gbnf", table | {"additionalProperties_absent": support("blocks")})
    source = side("good", "gbnf", {name: support("enforced") for name in (*table, "additionalProperties_absent")})
    schemas = (
        {"type": "integer", "multipleOf": 5},
        {"type": "string", "not": {"const": "x"}},
        {"type": "string", "pattern": "^a$"},
        an_object(),
    )
    found = {one.kind: one for one in findings(uses_of(*schemas), source, target)}
    assert sorted(found) == ["UM116", "UM135", "UM136"]
    assert [found[kind].features for kind in sorted(found)] == [("schema k0",), ("schema k3",), ("schema k1",)]
    assert {one.by for one in found.values()} == {"table"}
    assert findings(uses_of(*schemas), source, source) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.feature} {json.dumps(row.schema)[:40]}")
def test_known_surfaces_agree_with_the_libraries_about_each_feature(row: Row) -> None:
    """What a surface says of a library's features is what the library did here, unless a note says that it depends."""
    vllm = surface("vllm@0.32.0")
    for library, verdict in (("xgrammar", row.xgrammar), ("llguidance", row.llguidance)):
        told = vllm.schema.get(f"{library}/{row.feature}")
        if told is not None and told.value != "varies" and not told.note:
            assert told.value == verdict, f"{library}/{row.feature}"


def test_vllm_gives_schemas_to_three_backends() -> None:
    vllm = surface("vllm@0.32.0")
    assert backends_for(vllm, {"enum"}) == ("xgrammar", "llguidance", "outlines")
    assert backends_for(vllm, {"enum", "multipleOf"}) == ("llguidance",)
    assert backends_for(vllm, {"multipleOf", "patternProperties_combined"}) == ("outlines",)
    assert backends_for(surface("sglang"), {"multipleOf"}) == ("xgrammar",)


@pytest.mark.usefixtures("libraries")
def test_a_servers_check_sees_what_stands_within_other_keywords() -> None:
    checked = side("checked", "xgrammar", {"multipleOf": support("refused")})
    inside = {"allOf": [{"type": "integer"}, {"multipleOf": 5}]}
    (found,) = findings(uses_of(inside), XGRAMMAR, checked)
    assert found.kind == "UM136"
    assert "First: k0 at /allOf/1" in found.seen


@pytest.mark.usefixtures("libraries")
def test_another_version_than_the_sides_own_is_said() -> None:
    older = side("older", "xgrammar", structured_versions="xgrammar==0.2.7")
    answers = answers_of(uses_of({"type": "string"}), XGRAMMAR, older)
    assert answers.target["k0"].by == "xgrammar 0.2.8 (Older has 0.2.7)"


@pytest.mark.usefixtures("libraries")
def test_a_source_whose_backend_is_not_known_claims_nothing() -> None:
    leak = {"allOf": [{"type": "string"}, {"enum": ["yes", "no"]}]}
    (found,) = findings(uses_of(leak), side("bare", "none"), XGRAMMAR)
    assert (found.kind, found.outcome) == ("UM116", "lost")
    assert "Bare was not tried" in found.seen


@pytest.mark.usefixtures("libraries")
def test_what_could_be_configured_is_asked_as_well() -> None:
    bare = side("bare", "none", {"xgrammar/allOf": support("leaks"), "llguidance/allOf": support("enforced")})
    leak = {"allOf": [{"type": "string"}, {"enum": ["yes", "no"]}]}
    unconfigured, found = findings(uses_of(leak), LLGUIDANCE, bare)
    assert (unconfigured.kind, found.kind) == ("UM138", "UM116")
    assert found.by == "xgrammar 0.2.8, if that is configured"


def test_schemas_as_people_write_them_are_no_finding_between_engines_that_enforce_them() -> None:
    """What a library of data classes writes for them, with titles, defaults, references and a tagged union."""
    said = ("vllm", "sglang", "llama-cpp")
    for source in said:
        for target in said:
            assert findings(uses_of(PERSON), surface(source), surface(target)) == [], (source, target)
    assert kinds(findings(uses_of(PERSON), surface("vllm"), surface("tensorrt-llm"))) == ["UM138"]


@pytest.mark.usefixtures("libraries")
def test_of_very_many_schemas_the_most_used_are_compiled_and_the_table_answers_for_the_rest() -> None:
    target = side("one", "xgrammar", {"length_bounds": support("enforced")})
    uses = uses_of(*({"type": "string", "maxLength": number} for number in range(1, MOST_ASKED + 21)))
    often = f"k{MOST_ASKED + 10}"
    uses.by_constraint[often] = Rows(range(5))
    answers = answers_of(uses, XGRAMMAR, target)
    by = [answer.by for answer in answers.target.values()]
    assert (by.count("xgrammar 0.2.8"), by.count("table")) == (MOST_ASKED, 20)
    assert answers.target[often].by == "xgrammar 0.2.8"
    assert answers.not_asked == (f"20 constraints beyond the {MOST_ASKED} most used: the table answered",)


PERSON = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Person",
    "type": "object",
    "$defs": {
        "Address": {
            "title": "Address",
            "type": "object",
            "properties": {
                "street": {"title": "Street", "type": "string"},
                "zip": {"anyOf": [{"type": "string", "pattern": "^[0-9]{5}$"}, {"type": "null"}], "default": None},
            },
            "required": ["street"],
        },
        "Kind": {"enum": ["home", "work"], "type": "string"},
        "Node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": None},
            },
            "required": ["value"],
        },
    },
    "properties": {
        "name": {"type": "string", "description": "The full name", "examples": ["A. Person"]},
        "age": {"exclusiveMinimum": 0, "maximum": 130, "type": "integer"},
        "addresses": {"items": {"$ref": "#/$defs/Address"}, "type": "array", "minItems": 1, "maxItems": 3},
        "kind": {"allOf": [{"$ref": "#/$defs/Kind"}], "default": "home"},
        "birthday": {"format": "date", "type": "string"},
        "node": {"$ref": "#/$defs/Node"},
        "labels": {"additionalProperties": {"type": "string"}, "type": "object"},
        "pet": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": kind}, "lives": {"type": "integer"}},
                    "required": ["kind", "lives"],
                }
                for kind in ("cat", "dog")
            ],
        },
        "anything": {},
    },
    "required": ["name", "age", "addresses", "node", "pet"],
}
