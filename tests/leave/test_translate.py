"""Bodies translated for another engine: taken there, the same on the way back, and nothing left out in silence."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.engines.surface.load import known_surfaces, surface
from unmoor.engines.surface.surface import Surface
from unmoor.engines.surface.translate import Served, ServedAdapter, Translated, endpoint_of, translate
from unmoor.leave.case import Case
from unmoor.leave.checks.request_fields import CHECK, NEEDS_FLAG
from unmoor.leave.finding import Finding
from unmoor.leave.reading.read import UseReader
from unmoor.traffic.entry import Entry

EXAMPLE = Path(__file__).parents[2] / "examples" / "move" / "requests.jsonl.gz"
ENGINES = ("vllm", "sglang", "tensorrt-llm", "llama-cpp")
PAIRS = list(itertools.permutations(ENGINES, 2))
BASE, ADAPTER = "llama-3.1-70b", "claims-de"
SERVED = Served(BASE, {ADAPTER: ServedAdapter(0, "/adapters/de"), "claims-fr": ServedAdapter(1, "/adapters/fr")})
CHAT: Mapping[str, Any] = {"model": BASE, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def bodies() -> list[dict[str, Any]]:
    with gzip.open(EXAMPLE) as lines:
        return [json.loads(line)["request"] for line in lines]


def moved(body: Mapping[str, Any], source: str, target: str, served: Served = SERVED) -> Translated:
    return translate(body, surface(source), surface(target), served=served)


def complaints(several: Sequence[Mapping[str, Any]], source: Surface, target: Surface) -> list[Finding]:
    """What the check of fields says of bodies meant for `target`, as if all in them had been acted on before."""
    reader = UseReader()
    for line, body in enumerate(several, 1):
        reader.watch(line, Entry(at_s=None, input_tokens=1, output_tokens=None, body=body))
    fields = {
        place: tuple({*source.fields.get(place, ()), *target.fields.get(place, ())})
        for place in {**source.fields, **target.fields}
    }
    ignoring = surface("llama-cpp").unknown_fields
    lenient = msgspec.structs.replace(
        target,
        fields=fields,
        domains={},
        unknown_fields=ignoring,
        sources={**source.sources, **target.sources, **surface("llama-cpp").sources},
        version="every field",
    )
    found = [one.finding for one in CHECK.look(Case(uses=reader.uses, source=lenient, target=target))]
    return [one for one in found if one.outcome != "same" and one.kind != NEEDS_FLAG.id]  # flags are the server's


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_translated_body_of_the_example_is_taken_and_every_field_accounted_for(source: str, target: str) -> None:
    made = []
    for body in bodies():
        before = deepcopy(body)
        told = moved(body, source, target)
        assert body == before
        made.append(told.body)
        gone = [name for name in body if name not in told.body]
        words = " ".join((*told.rules, *(lost.field for lost in told.lost), *told.dropped))
        assert [name for name in gone if name not in words] == []
    assert complaints(made, surface(source), surface(target)) == []


@pytest.mark.parametrize("engine", known_surfaces())
def test_to_the_same_engine_nothing_changes(engine: str) -> None:
    for body in bodies():
        assert moved(body, engine, engine) == Translated(body=body)


def test_between_versions_only_what_changed_is_touched() -> None:
    for body in bodies():
        for source, target in itertools.permutations(("vllm@0.32.0", "vllm@0.33.0")):
            told = moved(body, source, target)
            lost = {one.field for one in told.lost}
            assert told.body == {name: value for name, value in body.items() if name not in lost}
            assert not any(surface(source).domains[name].takes(body[name]) for name in lost)  # refused today as well


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_once_there_and_back_every_further_round_gives_the_same(source: str, target: str) -> None:
    tried = 0
    for body in bodies():
        there = moved(body, source, target)
        back = moved(there.body, target, source)
        if there.lost or back.lost:
            continue
        tried += 1
        again = moved(back.body, source, target)
        assert moved(again.body, target, source).body == back.body
        assert (again.lost, again.dropped) == ((), ())
    assert tried > 100


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_check_of_fields_and_the_translation_lose_the_same(source: str, target: str) -> None:
    reader = UseReader()
    for line, body in enumerate(bodies(), 1):
        reader.watch(line, Entry(at_s=None, input_tokens=1, output_tokens=None, body=body))
    here, there = surface(source), surface(target)
    found: dict[int, set[str]] = {}
    for one in CHECK.look(Case(uses=reader.uses, source=here, target=there)):
        for line in one.rows if one.finding.outcome == "lost" else ():
            found.setdefault(line, set()).update(name.split(".")[1] for name in one.finding.features)
    for line, body in enumerate(bodies(), 1):
        endpoint = endpoint_of(body)
        if endpoint not in here.fields or endpoint not in there.fields:
            assert line not in found
            continue
        lost = {one.field.partition(".")[0] for one in moved(body, source, target).lost}
        refused_today = {
            name for name, value in body.items() if name in here.domains and not here.domains[name].takes(value)
        }
        assert found.get(line, set()) - lost == set(), body
        elsewhere = {"priority", "tool_choice"}  # which checks of their own tell
        assert lost - found.get(line, set()) <= refused_today | elsewhere, body


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
CONTENT: Mapping[str, st.SearchStrategy[Any]] = {
    "json_schema": st.just(SCHEMA),
    "json_object": st.just("json_object"),
    "regex": st.sampled_from(["(yes|no)", "[0-9]{4}"]),
    "grammar": st.just('root ::= "yes" | "no"'),
    "structural_tag": st.just({"type": "any_text"}),
    "max_tokens": st.integers(1, 4096),
    "temperature": st.floats(0, 2),
    "top_p": st.floats(0.01, 1),
    "top_k": st.integers(1, 100),
    "min_p": st.floats(0, 1),
    "repetition_penalty": st.floats(0.1, 2),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "seed": st.integers(0, 2**31),
    "n": st.integers(1, 4),
    "stop": st.lists(TEXTS, min_size=1, max_size=4),
    "stop_token_ids": st.lists(st.integers(0, 9), min_size=1, max_size=2),
    "include_stop": st.booleans(),
    "min_tokens": st.integers(0, 5),
    "ignore_eos": st.booleans(),
    "logprobs": st.booleans(),
    "priority": st.integers(-100, 100),
    "cache_salt": st.just("salt"),
    "reasoning_effort": st.sampled_from(["low", "medium", "high"]),
    "thinking_budget": st.integers(1, 100),
    "chat_template_kwargs": st.just({"enable_thinking": True}),
    "adapter": st.sampled_from(sorted(SERVED.adapters)),
}
"""What a chat may ask for, within the range of all engines."""
ONE_OF_THESE = ("json_schema", "json_object", "regex", "grammar", "structural_tag")


def spelled(concept: str, content: Any, engine: Surface) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """The field, or the two, by which an engine's chat is asked; nothing where it has none."""
    spelling = engine.spellings[concept]
    if spelling.absent or "chat" not in spelling.endpoints:
        return {}
    if concept == "adapter":
        placed = SERVED.adapters[content]
        forms = {
            "name": content,
            "request": {"lora_name": content, "lora_int_id": placed.number + 1, "lora_path": placed.path},
            "scaled": [{"id": placed.number, "scale": 1.0}],
        }
        return {spelling.path: forms[spelling.form]}
    if spelling.value is None:
        parts = {spelling.path: content}
    else:
        if concept == "structural_tag":
            content = (
                {"format": content, "type": "structural_tag"} if spelling.payload == "response_format" else content
            )
        parts = {spelling.payload or spelling.path: content}
        if spelling.payload != "response_format":
            parts[spelling.path] = spelling.value
        if concept == "json_schema":
            parts["response_format.json_schema.name"] = "answer"
    tree: dict[str, Any] = {}
    for path, value in parts.items():
        *way, last = path.split(".")
        inner = tree
        for name in way:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return tree


@st.composite
def asked(draw: st.DrawFn) -> tuple[Surface, Surface, dict[str, Any]]:
    """A move, and a chat in the source's own words."""
    source, target = (surface(name) for name in draw(st.sampled_from(PAIRS)))
    concepts = draw(st.sets(st.sampled_from(sorted(set(CONTENT) - set(ONE_OF_THESE)))))
    constraint = draw(st.sampled_from([(), *((one,) for one in ONE_OF_THESE)]))
    body = {"model": BASE, "messages": CHAT["messages"]}
    for concept in (*sorted(concepts), *constraint):
        body |= spelled(concept, draw(CONTENT[concept]), source)
    return source, target, body


@given(asked())
def test_what_is_not_lost_comes_back_as_it_was(move: tuple[Surface, Surface, dict[str, Any]]) -> None:
    source, target, body = move
    there = translate(body, source, target, served=SERVED)
    assert complaints([there.body], source, target) == []
    assert there.dropped == ()
    if not there.lost:
        assert translate(there.body, target, source, served=SERVED).body == body


@given(asked())
def test_only_what_the_target_has_not_is_lost(move: tuple[Surface, Surface, dict[str, Any]]) -> None:
    source, target, body = move
    kept = {"model", "messages"} | {name for name in body if name in target.fields["chat"]}
    lost = {one.field.partition(".")[0] for one in translate(body, source, target, served=SERVED).lost}
    spelled_otherwise = {"priority", "response_format", "reasoning_format"}
    assert lost & kept <= spelled_otherwise


def test_constraints_go_where_the_target_looks_for_them() -> None:
    regex = {**CHAT, "structured_outputs": {"regex": "[a-z]+"}}
    assert moved(regex, "vllm", "sglang").body == {**CHAT, "regex": "[a-z]+"}
    assert moved(regex, "vllm", "tensorrt-llm").body == {
        **CHAT,
        "response_format": {"type": "regex", "regex": "[a-z]+"},
    }
    told = moved(regex, "vllm", "llama-cpp")
    assert (told.body, [one.field for one in told.lost]) == (CHAT, ["structured_outputs.regex"])
    schema = {**CHAT, "structured_outputs": {"json": SCHEMA}}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    assert moved(schema, "vllm", "sglang").body == {**CHAT, "response_format": form}
    prompt = {"model": BASE, "prompt": "hello", "response_format": form}
    assert moved(prompt, "vllm", "llama-cpp").body == {"model": BASE, "prompt": "hello", "json_schema": SCHEMA}
    lark = {**CHAT, "structured_outputs": {"grammar": 'start: "yes"'}}
    assert [one.field for one in moved(lark, "vllm", "sglang").lost] == ["structured_outputs.grammar"]
    both = {**CHAT, "structured_outputs": {"regex": "[a-z]+"}, "response_format": form}
    assert [one.field for one in moved(both, "vllm", "tensorrt-llm").lost] == ["structured_outputs.regex"]


@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS)
def test_choices_become_a_regular_expression_for_them_and_nothing_else(choices: list[str], other: str) -> None:
    body = {**CHAT, "structured_outputs": {"choice": choices}}
    told = moved(body, "vllm", "sglang")
    assert told.lost == ()
    matched = [text for text in (*choices, other) if re.fullmatch(told.body["regex"], text)]
    assert matched == [text for text in (*choices, other) if text in choices]


def test_choices_become_a_grammar_where_there_is_no_regular_expression() -> None:
    told = moved({**CHAT, "structured_outputs": {"choice": ["yes", 'a "no"']}}, "vllm", "llama-cpp")
    assert told.body == {**CHAT, "grammar": r'root ::= "yes" | "a \"no\""'}
    unlike = moved({**CHAT, "structured_outputs": {"choice": [1, 2]}}, "vllm", "llama-cpp")
    assert (unlike.body, [one.field for one in unlike.lost]) == (CHAT, ["structured_outputs.choice"])


def test_values_that_switch_off_do_so_there_and_values_outside_are_lost() -> None:
    assert moved({**CHAT, "top_k": -1}, "vllm", "tensorrt-llm").body["top_k"] == 0
    assert moved({**CHAT, "top_k": 0}, "vllm", "sglang").body["top_k"] == -1
    told = moved({**CHAT, "repetition_penalty": 2.5}, "vllm", "sglang")
    assert (dict(told.body), [one.field for one in told.lost]) == (CHAT, ["repetition_penalty"])
    assert moved({**CHAT, "repetition_penalty": 2.5}, "vllm", "llama-cpp").body["repeat_penalty"] == 2.5
    assert moved({**CHAT, "min_p": 1.5}, "tensorrt-llm", "llama-cpp").body["min_p"] == 1


def test_priorities_turn_round_only_on_the_same_scale() -> None:
    assert moved({**CHAT, "priority": -5}, "vllm", "sglang").body["priority"] == 5
    assert moved({**CHAT, "priority": 5}, "sglang", "vllm").body["priority"] == -5
    for target in ("tensorrt-llm", "llama-cpp"):
        told = moved({**CHAT, "priority": 0}, "vllm", target)
        assert (told.body, [one.field for one in told.lost]) == (CHAT, ["priority"])


def test_adapters_by_name_by_path_and_by_number() -> None:
    by_engine = {
        "vllm": {**CHAT, "model": ADAPTER},
        "sglang": {**CHAT, "lora_path": ADAPTER},
        "tensorrt-llm": {**CHAT, "lora_request": {"lora_name": ADAPTER, "lora_int_id": 1, "lora_path": "/adapters/de"}},
        "llama-cpp": {**CHAT, "lora": [{"id": 0, "scale": 1.0}]},
    }
    for source, target in PAIRS:
        assert moved(by_engine[source], source, target) == Translated(
            body=by_engine[target], rules=moved(by_engine[source], source, target).rules
        )
    assert moved({**CHAT, "model": f"{BASE}:{ADAPTER}"}, "sglang", "vllm").body == by_engine["vllm"]
    untold = moved(by_engine["sglang"], "sglang", "tensorrt-llm", Served())
    assert [one.field for one in untold.lost] == ["lora_path"]
    half = moved({**CHAT, "lora": [{"id": 0, "scale": 0.5}]}, "llama-cpp", "vllm")
    assert (half.body, [one.field for one in half.lost]) == (CHAT, ["lora"])


def test_fields_without_effect_are_left_out_where_they_would_be_refused() -> None:
    body = {**CHAT, "user": "desk", "store": True, "guided_json": SCHEMA, "nobody_knows": 1}
    told = moved(body, "vllm", "tensorrt-llm")
    assert told.body == {**CHAT, "user": "desk"}
    assert set(told.dropped) == {"store", "guided_json", "nobody_knows"}
    assert told.lost == ()
    assert moved(body, "vllm", "llama-cpp").body == body
    ignored = moved({**CHAT, "regex": "[a-z]+"}, "vllm", "sglang")
    assert (ignored.body, ignored.dropped) == (CHAT, ("regex",))


def test_an_endpoint_of_which_nothing_is_known_loses_everything() -> None:
    body = {"model": BASE, "input": "hello", "temperature": 0.5}
    assert endpoint_of(body) == "responses"
    told = moved(body, "vllm", "llama-cpp")
    assert ([one.field for one in told.lost], told.body) == (["model", "input", "temperature"], {})


def test_rules_and_losses_hold_no_text_of_anybodys() -> None:
    text = "rosebud"
    body = {
        **CHAT,
        "messages": [{"role": "user", "content": text}],
        "structured_outputs": {"choice": [text, "other"]},
        "stop": [text],
        "priority": 3,
        "documents": [{"text": text}],
        "cache_salt": text,
    }
    for target in ENGINES[1:]:
        told = moved(body, "vllm", target)
        assert text not in repr((told.rules, told.lost, told.dropped))
