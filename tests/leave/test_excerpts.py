"""Text of a log is shown to who asks for it, and to nobody else."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from behaviour_log import TOOL, USER, chat, everything, said
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from unmoor.cli.main import unmoor
from unmoor.core.errors import UsageError
from unmoor.engines.surface.load import surface
from unmoor.leave.check import check_move
from unmoor.leave.checks.registry import kinds
from unmoor.leave.finding import SHOWN_REQUESTS, Excerpt, MoveReport
from unmoor.leave.gather import Brought, case_of
from unmoor.leave.reading.excerpts import MOST_CHARACTERS, excerpts
from unmoor.leave.reading.read import ReadTraffic, read_uses
from unmoor.report import move_page, move_sarif, move_text
from unmoor.traffic.readers import read_traffic

LOST = 3
ROAD = ("move", "check", "--from", "vllm", "--to", "llama-cpp", "--traffic")
ASKED = "how high is the tower"


@pytest.fixture(autouse=True, scope="module")
def nothing_installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No grammar library is asked: what it says is the business of other tests."""
    before = os.environ.get("UNMOOR_HOME")
    os.environ["UNMOOR_HOME"] = str(tmp_path_factory.mktemp("home"))
    yield
    del os.environ["UNMOOR_HOME"]
    if before is not None:
        os.environ["UNMOOR_HOME"] = before


def reading(*records: dict[str, Any]) -> ReadTraffic:
    log = "\n".join(json.dumps(record) for record in records).encode()
    return lambda cutter, watch: read_traffic(log, where="log", cutter=cutter, watch=watch)


def checked(*records: dict[str, Any]) -> MoveReport:
    uses, _ = read_uses(reading(*records))
    case = case_of(surface("vllm"), surface("llama-cpp"), uses, Brought(), say=lambda _: None)
    return check_move(case)


TextPath = tuple[str | int, ...]


def places(value: object, path: TextPath = ()) -> Iterator[TextPath]:
    """Where a record holds text: its strings, those that are a format's own words too; a model's name is no text."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))
    elif isinstance(value, str) and path not in {("timestamp",), ("request", "model")}:
        yield path


def planted(value: Any, path: TextPath, secret: str) -> Any:  # noqa: ANN401 - a record is any JSON
    """The record with `secret` at `path`."""
    if not path:
        return secret
    key, rest = path[0], path[1:]
    changed = planted(value[key], rest, secret)
    if isinstance(value, dict):
        return {**value, key: changed}
    return [changed if place == key else one for place, one in enumerate(value)]


def written(tmp_path: Path, *records: dict[str, Any]) -> Path:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    return log


def run(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(unmoor, [str(arg) for arg in args], standalone_mode=False)
    if isinstance(done.exception, UsageError):
        return done.exception.exit_code, str(done.exception)
    assert done.exception is None, done.exception
    return int(done.return_value or 0), done.stdout


LOSES = chat(said(), structured_outputs={"regex": "a|b"}, priority=3, messages=[USER])


def test_who_asks_sees_how_the_requests_of_a_finding_begin(tmp_path: Path) -> None:
    log, page, sarif = written(tmp_path, *[LOSES] * 5), tmp_path / "page.html", tmp_path / "out.sarif"
    _, text = run(*ROAD, log, "--show-text", "--page", page, "--sarif", sarif)
    plain = " ".join(text.split())
    regex = "chat.structured_outputs.regex “a|b”"
    assert f"line {SHOWN_REQUESTS}: {regex}, asked “{ASKED}”, answered “high”" in plain
    assert f"line {SHOWN_REQUESTS + 1}: " not in text
    assert ASKED in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert ASKED not in sarif.read_text()
    _, shown = run(*ROAD, log, "--show-text", "--json")
    (*_, excerpt) = json.loads(shown)["excerpts"]
    pieces = [{"feature": regex.partition(" ")[0], "text": "a|b"}, {"feature": "chat.priority", "text": "3"}]
    assert {name: excerpt[name] for name in ("line", "asked", "answered")} == {
        "line": SHOWN_REQUESTS,
        "asked": ASKED,
        "answered": "high",
    }
    assert [piece for piece in excerpt["pieces"] if piece in pieces] == pieces


def test_who_does_not_ask_sees_none(tmp_path: Path) -> None:
    log, page = written(tmp_path, LOSES), tmp_path / "page.html"
    outputs = [run(*ROAD, log, "--page", page)[1], run(*ROAD, log, "--json")[1], page.read_text()]
    assert [output for output in outputs if ASKED in output] == []


def shown(record: dict[str, Any]) -> Excerpt:
    (one,) = excerpts(checked(record).findings, reading(record))
    return one


def test_an_excerpt_is_one_short_line_that_steers_no_terminal() -> None:
    content = "a\x1b[31m\n" + "b" * 500 + "</tool_call>\n"
    one = shown(chat(said(content=content), priority=3, messages=[{"role": "user", "content": "\x00 \t c\u202e"}]))
    assert one.asked == r"\x00 \t c\u202e"
    assert one.answered is not None
    assert one.answered.startswith(r"a\x1b[31m\nb")
    assert one.answered.endswith(r"bb</tool_call>\n")
    assert len(one.answered) == MOST_CHARACTERS


@given(text=st.text(min_size=1, max_size=300))
def test_whatever_a_text_is_its_excerpt_fits_and_prints(text: str) -> None:
    one = shown(chat(said(content=text), priority=3, stop_regex=text))
    for told in (one.answered, *(piece.text for piece in one.pieces)):
        assert told is not None
        assert len(told) <= MOST_CHARACTERS
        assert told.isprintable()


def test_the_schema_and_the_stop_string_of_a_finding_are_shown() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 7}}, "patternProperties": {}}
    schema |= {"if": {"required": ["n"]}, "not": {"const": 1}}
    stopped = {"choices": [{"message": {"content": "it"}, "finish_reason": "stop", "stop_reason": "\n##"}]}
    format_ = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    pieces = {piece.feature: piece.text for piece in shown(chat(stopped, stop="\n##", response_format=format_)).pieces}
    assert pieces["answer.stop_reason"] == r"\n##"
    (text,) = [text for feature, text in pieces.items() if feature.startswith("schema ")]
    assert text.startswith('{"type":"object","properties":{"n":{"type":"integer","multipleOf":7}}')


def test_of_a_raw_output_the_end_is_shown_where_its_call_is() -> None:
    raw = "well " * 100 + '<tool_call>\n{"name": "look"}\n</tool_call>'
    one = shown(chat(said(content="high", raw=raw, reasoning=raw), tools=[TOOL], priority=3))
    (reasoning,) = [piece.text for piece in one.pieces if piece.feature == "answer.message.reasoning"]
    for told in (one.answered, reasoning):
        assert told is not None
        assert told.startswith("well well")
        assert told.endswith(r'<tool_call>\n{"name": "look"}\n</tool_call>')


def test_of_lengths_alone_there_is_nothing_to_show() -> None:
    assert excerpts((), reading(LOSES)) == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("LOG", "--brief", "--json"), "--brief: two forms of one report"),
        (("LOG", "--brief", "--show-text"), "--show-text: the brief form shows no text"),
        (("-", "--show-text"), "standard input, which cannot be read twice"),
    ],
)
def test_options_of_which_one_would_do_nothing_are_refused(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    log = written(tmp_path, LOSES)
    code, text = run(*ROAD, *(str(log) if option == "LOG" else option for option in options))
    assert code == 2
    assert said in text


SECRET = st.text("abcdefghijklmnopqrstuvwxyz", min_size=14, max_size=20).map(lambda word: f"zq{word}")
SCHEMA = {"type": "object", "title": "t", "properties": {"a": {"type": "string", "pattern": "^b$", "enum": ["c"]}}}
RECORDS = [
    *everything(),
    chat(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}, user="u"),
    chat(structured_outputs={"regex": "a|b"}, metadata={"k": "v"}, session_id="s"),
    chat(structured_outputs={"choice": ["a", "b"]}, guided_grammar="root ::= a", stop=["x", "y"]),
    chat(said(raw='<tool_call>{"name": "look"}</tool_call>'), tools=[TOOL], chat_template="{{ m }}", bad_words=["w"]),
    chat(frobnicate="f", stop_regex="a", documents=[{"title": "t", "text": "t"}], suffix="s", lora_path="p"),
]
PLACES = [(at, path) for at, record in enumerate(RECORDS) for path in places(record)]


def told(report: MoveReport) -> dict[str, str]:
    """The report in every form."""
    return {
        "text": move_text.render(report, kinds()),
        "brief": move_text.render_brief(report, kinds()),
        "page": move_page.render(report, kinds()),
        "json": msgspec.json.encode(report).decode(),
        "sarif": json.dumps(move_sarif.render(report, kinds(), version="1", uri=str)),
    }


def test_places_to_plant_a_secret_are_many() -> None:
    assert {path[-1] for _, path in PLACES} >= {"content", "regex", "raw", "name", "pattern", "k", "message", "stop"}


@given(secret=SECRET, place=st.sampled_from(PLACES))
@settings(deadline=None, max_examples=120)
def test_whatever_text_a_log_holds_is_in_no_report(secret: str, place: tuple[int, TextPath]) -> None:
    at, path = place
    report = checked(planted(RECORDS[at], path, secret), RECORDS[0])
    assert [name for name, output in told(report).items() if secret in output] == []


@given(secret=SECRET)
@settings(deadline=None, max_examples=30)
def test_names_of_a_schemas_properties_are_in_no_report(secret: str) -> None:
    schema = {"type": "object", "properties": {secret: {"type": "string", "pattern": "^b$"}}, "required": [secret]}
    schema |= {"patternProperties": {f"^{secret}": {"uniqueItems": True}}, "$defs": {secret: {"multipleOf": 3}}}
    asked = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
    report = checked(chat(response_format=asked), chat(tools=[tool]), chat(guided_json=schema))
    assert [name for name, output in told(report).items() if secret in output] == []


@given(secret=SECRET, place=st.sampled_from(PLACES))
@settings(deadline=None, max_examples=30)
def test_whoever_asks_for_text_gets_none_of_it_in_sarif(secret: str, place: tuple[int, TextPath]) -> None:
    records = [planted(RECORDS[place[0]], place[1], secret)]
    report = checked(*records)
    report = replace(report, excerpts=excerpts(report.findings, reading(*records)))
    assert secret not in json.dumps(move_sarif.render(report, kinds(), version="1", uri=str))
