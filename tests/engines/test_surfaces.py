"""Engines' surfaces: every statement named and sourced; what was captured from the engines agrees with the tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from unmoor.core.errors import UsageError
from unmoor.engines.surface import concepts
from unmoor.engines.surface.load import known_surfaces, surface
from unmoor.engines.surface.surface import Domain, Source, Statement, Surface

GOLDENS = Path(__file__).parent / "goldens"
CAPTURED = GOLDENS / "surfaces"
ALL = [f"{engine}@{version}" for engine, versions in known_surfaces().items() for version in versions]
CONCEPTS: Mapping[str, Mapping[str, str]] = {
    "spellings": concepts.REQUEST,
    "domains": concepts.REQUEST,
    "traits": concepts.TRAITS,
    "routes": concepts.ROUTES,
    "errors": concepts.ERRORS,
    "metrics": concepts.METRICS,
    "flags": concepts.FLAGS,
    "parsers": concepts.FAMILIES,
    "schema": concepts.SCHEMA,
    "adapter": concepts.ADAPTER,
    "checkpoint": concepts.CHECKPOINT,
}
# Where a capture of a library gives a schema under another name than the feature's.
FEATURE_OF = {"oneOf_overlap": "oneOf", "multipleOf_num": "multipleOf"}


def golden(name: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads((CAPTURED / name).read_text())


def statements(shown: Surface) -> Iterator[tuple[str, Statement]]:
    yield "unknown_fields", shown.unknown_fields
    for group in CONCEPTS:
        for name, one in getattr(shown, group).items():
            if group == "checkpoint":
                yield from ((f"{group}.{name}.{hardware}", support) for hardware, support in one.items())
            else:
                yield f"{group}.{name}", one
    for method, forms in shown.quant_methods.items():
        yield from ((f"quant_methods.{method}.{form}", support) for form, support in forms.items())


@pytest.mark.parametrize("asked", ALL)
def test_every_key_is_a_concept(asked: str) -> None:
    shown = surface(asked)
    for group, known in CONCEPTS.items():
        named = {name.rpartition("/")[2] if group == "schema" else name for name in getattr(shown, group)}
        assert named <= set(known), f"{group} of {asked}"
    for scheme, rows in shown.checkpoint.items():
        assert set(rows) <= set(concepts.HARDWARE), f"checkpoint.{scheme} of {asked}"


@pytest.mark.parametrize("asked", ALL)
def test_every_statement_has_a_source_and_every_source_a_statement(asked: str) -> None:
    shown = surface(asked)
    used = set()
    for name, one in statements(shown):
        assert one.source in shown.sources, f"{name} of {asked}"
        assert shown.source_of(one).seen <= shown.as_of, f"{name} of {asked} was seen after the surface's day"
        used.add(one.source)
    assert used == set(shown.sources)


@pytest.mark.parametrize("asked", ALL)
def test_every_surface_says_what_each_request_needs(asked: str) -> None:
    shown = surface(asked)
    engine, _, version = asked.partition("@")
    assert (shown.engine, shown.version) == (engine, version)
    assert "nearest_version" not in {caveat.code for caveat in shown.caveats}
    assert shown.unknown_fields.value in {"ignored", "refused"}
    assert {"chat", "completions"} <= set(shown.fields)
    assert set(shown.spellings) == set(concepts.REQUEST)
    assert set(shown.flags) == set(concepts.FLAGS)


@pytest.mark.parametrize("asked", ALL)
def test_spelled_paths_begin_with_a_field_of_each_endpoint_that_takes_them(asked: str) -> None:
    shown = surface(asked)
    for name, one in shown.spellings.items():
        if one.absent:
            assert (one.value, one.payload, one.also) == (None, "", ()), f"{name} of {asked}"
            continue
        for endpoint in one.endpoints:
            tops = {path.partition(".")[0] for path in (one.path, *one.also)}
            assert tops & set(shown.fields[endpoint]), f"{name} of {asked} in {endpoint}"


@pytest.mark.parametrize("asked", [one for one in ALL if surface(one).options])
def test_flags_are_options_of_the_parser_and_gone_ones_are_not(asked: str) -> None:
    shown = surface(asked)
    options = {flag for option in shown.options.values() for flag in option.flags}
    for name, flag in shown.flags.items():
        for spelled in flag.names if not flag.in_file else ():
            assert spelled.partition(".")[0] in options, f"{name} of {asked}"  # after a dot: a key of the option
    assert not set(shown.gone_flags) & options


@pytest.mark.parametrize("asked", [one for one in ALL if surface(one).options])
def test_parsers_are_choices_where_the_command_line_lists_them(asked: str) -> None:
    shown = surface(asked)
    for kind, option in (("tool", "tool_call_parser"), ("reasoning", "reasoning_parser")):
        choices = shown.options[option].choices if option in shown.options else None
        for family, one in shown.parsers.items():
            assert choices is None or set(getattr(one, kind)) <= set(choices), f"{kind} parsers of {family} of {asked}"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_options_are_those_that_the_engine_showed(engine: str) -> None:
    shown = surface(f"{engine}@{known_surfaces()[engine][0]}")
    long = {flag for option in shown.options.values() for flag in option.flags if flag.startswith("--")}
    assert long == {*json.loads((GOLDENS / engine / "flags.json").read_text()), "--help"}


@pytest.mark.parametrize("asked", golden("request_fields.json"))
def test_fields_are_those_of_the_engine_s_request_models(asked: str) -> None:
    for endpoint, fields in golden("request_fields.json")[asked].items():
        public = [field for field in fields if not field.startswith("_")]  # what begins so cannot come in a request
        assert list(surface(asked).fields[endpoint]) == public


@pytest.mark.parametrize(("asked", "field", "value", "taken"), golden("sampling_values.json"))
def test_domains_take_what_the_engine_s_checks_took(asked: str, field: str, value: float, taken: bool) -> None:  # noqa: FBT001 - a column
    assert surface(asked).domains[field].takes(value) is taken


@pytest.mark.parametrize("library", ["xgrammar", "llguidance"])
def test_schema_support_is_what_the_library_did_with_a_valid_and_an_invalid_answer(library: str) -> None:
    shown = surface("vllm@0.32.0")
    looked_at = 0
    for schema, answers in golden("schema_answers.json").items():
        support = shown.schema.get(f"{library}/{FEATURE_OF.get(schema, schema)}")
        if support is None or support.value == "varies":
            continue
        valid, invalid = answers[library]
        looked_at += 1
        if isinstance(valid, str):
            assert support.value == "refused", schema
        elif schema in {"additionalProperties_absent", "property_order"}:  # here the second answer is valid too
            assert support.value == ("enforced" if invalid else "blocks"), schema
        else:
            assert support.value == ("leaks" if invalid else "enforced"), schema
    assert looked_at > 25


def test_metrics_and_routes_of_a_live_server_were_there() -> None:
    shown = surface("vllm@0.32.0")
    live = set(golden("vllm@0.32.0.metrics.json"))
    for name, metric in shown.metrics.items():
        assert metric.source != "live" or set(metric.names) <= live, name
        assert not set(metric.formerly) & live, name
    served = set(golden("vllm@0.32.0.routes.json"))
    for name, route in shown.routes.items():
        plain = route.path and route.source == "live" and "DEV_MODE" not in route.needs
        assert not plain or f"{route.method} {route.path}" in served, name
        assert "DEV_MODE" not in route.needs or f"{route.method} {route.path}" not in served, name


def test_a_version_takes_over_its_base_and_may_take_a_statement_back() -> None:
    before, after = surface("vllm@0.32.0"), surface("vllm@0.33.0")
    assert "--disable-prefix-caching" in before.gone_flags
    assert "--disable-prefix-caching" not in after.gone_flags
    assert "--disable-prefix-caching" in after.flags["prefix_caching"].names
    assert "--swap-space" in after.gone_flags
    assert (before.options["kv_cache_dtype"].choices or ())[:1] == ("auto",)
    assert after.options["kv_cache_dtype"].choices is None
    assert "return_weight_versions" in set(after.fields["chat"]) - set(before.fields["chat"])
    assert after.sources["live"].version == "vLLM 0.32.0"
    assert after.sources["code"].version == "vLLM 0.33.0"


def test_an_unknown_version_gets_the_nearest_below_with_a_caveat_or_a_refusal() -> None:
    assert surface("vllm").version == surface("vllm@v0.33.0").version == "0.33.0"
    for asked, version in (("vllm@0.34.1", "0.33.0"), ("vllm@0.32.2", "0.32.0"), ("vllm@0.11.0", "0.32.0")):
        found = surface(asked)
        assert (found.version, [caveat.code for caveat in found.caveats]) == (version, ["nearest_version"])
        assert asked.partition("@")[2] in found.caveats[0].text
    with pytest.raises(UsageError) as caught:
        surface("vllm@0.34.1", where="--to", strict=True)
    assert str(caught.value).startswith("--to: the surface of vllm 0.34.1 is not known")
    assert "0.32.0, 0.33.0" in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("vlm", "did you mean 'vllm'?"),
        ("tgi@3", "one of"),
        ("vllm@latest", "known: 0.32.0, 0.33.0"),
        ("", "no surface is known of ''"),
        ("vllm@0.33.0@x", "a version that cannot be read"),
        ("vllm@\u0663", "a version that cannot be read"),
        ("vllm@0.33.0 ", "a version that cannot be read"),
        ("vllm@" + "9" * 5000, "(5005 characters)"),
    ],
)
def test_what_names_no_surface_is_an_error_with_a_way_out(asked: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        surface(asked)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("version", ["0.32", "v0.32", "0.32.0+cpu", "0.32.0.0", "0.32.0+cu129.git1a2b"])
def test_equal_versions_and_builds_of_one_are_known_under_strict(version: str) -> None:
    found = surface(f"vllm@{version}", strict=True)
    assert (found.version, found.caveats) == ("0.32.0", surface("vllm@0.32.0").caveats)
    for another in ("0.32.1", "0.32.0rc1", "0.32.0-rc1", "0.32.0.post1"):
        with pytest.raises(UsageError, match="is not known"):
            surface(f"vllm@{another}", strict=True)


@pytest.mark.parametrize(
    ("domain", "taken", "refused"),
    [
        (Domain(source="x", low=0, high=1), (0, 0.5, 1, True, "text", None), (-1, 1.5)),
        (Domain(source="x", low=0, low_open=True, high=2, high_open=True), (1,), (0, 2)),
        (Domain(source="x", low=1, off=(-1,)), (1, -1), (0,)),
        (Domain(source="x", only=("auto", "none"), also=(None,)), ("auto", None), ("required", 3)),
    ],
)
def test_a_domain_takes_values_by_its_bounds_and_lists(
    domain: Domain, taken: tuple[Any, ...], refused: tuple[Any, ...]
) -> None:
    assert all(domain.takes(value) for value in taken)
    assert not any(domain.takes(value) for value in refused)


def test_a_source_says_how_where_and_when() -> None:
    source = Source(how="run", what="raw answers", version="vLLM 0.32.0", seen=date(2026, 11, 30))
    assert source.cited() == "raw answers (run, vLLM 0.32.0, 2026-11-30)"
