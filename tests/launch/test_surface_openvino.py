"""The embedded server's surface against the server itself: what it says is what the server's own code reads."""

from __future__ import annotations

import ast
import json
from importlib.resources import files
from typing import Any

import pytest
from server_modules import server_module

from unmoor.engines.registry import engine
from unmoor.engines.surface.load import surface

SHOWN = surface("openvino", strict=True)
wire = server_module("openai_wire")
Refusal = server_module("http_wire").Refusal


def parse(endpoint: str, **asked: object) -> Any:  # noqa: ANN401 - the module's types are not importable here
    of = {"messages": [{"role": "user", "content": "a"}]} if endpoint == "chat" else {"prompt": "a"}
    return wire.parse(json.dumps({**of, **asked}).encode(), chat=endpoint == "chat")


def test_numbers_have_the_server_s_own_bounds() -> None:
    for number in wire.NUMBERS:
        domain = SHOWN.domains[number.name]
        if number.name == "seed":  # bounds that a float cannot hold
            assert (domain.low, domain.high) == (None, None)
            continue
        assert (domain.low, domain.high) == (number.least, number.most), number.name


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("name", [name for name, one in SHOWN.domains.items() if one.only or one.low is not None])
def test_the_server_refuses_what_lies_outside_a_domain_and_takes_its_ends(endpoint: str, name: str) -> None:
    domain = SHOWN.domains[name]
    ends = [end for end in (domain.low, domain.high) if end is not None]
    for value in (*domain.only, *(int(end) if end.is_integer() else end for end in ends)):
        assert parse(endpoint, **{name: value})
    outside = "required" if name == "tool_choice" else 2 if domain.only else domain.low - 1  # type: ignore[operator]
    assert not domain.takes(outside)
    with pytest.raises(Refusal):
        parse(endpoint, **{name: outside})


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_what_is_told_as_ignored_is_and_what_is_told_as_refused_is_refused(endpoint: str) -> None:
    plain = parse(endpoint)
    for field in ("stop_token_ids", "priority", "user", "store", "continue_final_message", "regex"):
        assert field not in SHOWN.fields["chat"]
        assert parse(endpoint, **{field: 1}) == plain
    for name, asked in {"tools": [{}], "logit_bias": {"1": 2}, "prompt_logprobs": 1}.items():
        assert SHOWN.spellings[name].note == "400"
        with pytest.raises(Refusal):
            parse(endpoint, **{name: asked})


def test_missing_values_are_those_that_the_server_puts_in() -> None:
    assert parse("completions").max_tokens == SHOWN.traits["missing_max_tokens_completions"].value
    assert parse("chat").max_tokens is None
    assert parse("chat").numbers["temperature"] == SHOWN.traits["missing_temperature"].value
    assert parse("completions", max_completion_tokens=3).max_tokens == 3


def test_flags_are_the_server_s_options() -> None:
    source = (files("unmoor") / "launch" / "servers" / "openvino" / "server.py").read_text()
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    adds = [call.args[0] for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"]
    options = {arg.value for arg in adds if isinstance(arg, ast.Constant)}
    told = {name for flag in SHOWN.flags.values() for name in flag.names if not name.startswith("--no-")}
    assert told == options


def test_metrics_are_those_that_are_scraped() -> None:
    for meaning, name in engine("openvino").scrape.items():
        assert SHOWN.metrics[meaning].names == (name,)


def test_its_version_is_that_of_the_package_that_is_installed() -> None:
    assert SHOWN.version == engine("openvino").known_version
