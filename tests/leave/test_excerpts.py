"""Text of a log is shown to who asks for it, and to nobody else."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from behaviour_log import USER, chat, said
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from unmoor.cli.main import unmoor
from unmoor.core.errors import UsageError
from unmoor.engines.surface.load import surface
from unmoor.leave.check import check_move
from unmoor.leave.checks.registry import kinds
from unmoor.leave.finding import MoveReport
from unmoor.leave.gather import Brought, case_of
from unmoor.leave.reading.excerpts import MOST_CHARACTERS, SHOWN_LINES, excerpts
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
    assert f"line {SHOWN_LINES}: “{ASKED}”, answered “high”" in text
    assert f"line {SHOWN_LINES + 1}: “" not in text
    assert ASKED in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert ASKED not in sarif.read_text()
    _, shown = run(*ROAD, log, "--show-text", "--json")
    assert json.loads(shown)["excerpts"][0] == {"line": 1, "asked": ASKED, "answered": "high"}


def test_who_does_not_ask_sees_none(tmp_path: Path) -> None:
    log, page = written(tmp_path, LOSES), tmp_path / "page.html"
    outputs = [run(*ROAD, log, "--page", page)[1], run(*ROAD, log, "--json")[1], page.read_text()]
    assert [output for output in outputs if ASKED in output] == []


def test_an_excerpt_is_one_short_line_that_steers_no_terminal() -> None:
    record = chat(
        said(content="a\x1b[31m\n" + "b" * 500), priority=3, messages=[{"role": "user", "content": "\u202e \t c"}]
    )
    (one,) = excerpts(checked(record).findings, reading(record))
    assert one.asked == "c"
    assert one.answered is not None
    assert one.answered.startswith("a [31m b")
    assert len(one.answered) == MOST_CHARACTERS


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
PLACES = ("message", "system", "stop", "answer", "schema", "user", "tool", "regex", "arguments", "unknown field")


def planted(place: str, secret: str) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": f"f_{secret}", "description": secret, "parameters": {}}}
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": json.dumps({"a": secret})}}
    schema = {"type": "object", "properties": {secret: {"type": "string", "pattern": f"^{secret}$"}}}
    records = {
        "message": chat(messages=[{"role": "user", "content": secret}]),
        "system": chat(messages=[{"role": "system", "content": secret}, USER]),
        "stop": chat(stop=[secret]),
        "answer": chat(said(content=secret)),
        "schema": chat(response_format={"type": "json_schema", "json_schema": {"name": secret, "schema": schema}}),
        "user": chat(user=secret),
        "tool": chat(tools=[tool]),
        "regex": chat(structured_outputs={"regex": f"{secret}|b"}),
        "arguments": chat(said("tool_calls", content=None, tool_calls=[call])),
        "unknown field": chat(frobnicate=secret),
    }
    return records[place]


@given(secret=SECRET, place=st.sampled_from(PLACES))
@settings(deadline=None, max_examples=60)
def test_whatever_text_a_log_holds_is_in_no_report(secret: str, place: str) -> None:
    report = checked(planted(place, secret))
    sarif = move_sarif.render(report, kinds(), version="1", uri=str)
    outputs = [move_text.render(report, kinds()), move_page.render(report, kinds()), json.dumps(sarif)]
    assert [output for output in outputs if secret in output] == []
