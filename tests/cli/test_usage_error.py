from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import click
import pytest

import unmoor
from unmoor.cli.main import VERBS
from unmoor.core.errors import UserError


def called(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "unmoor.cli", *args], capture_output=True, text=True, check=False)


def refused(*args: str) -> str:
    """The one hint of a call that is wrong."""
    done = called(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    (hint,) = [line.removeprefix("  hint: ") for line in done.stderr.splitlines() if line.startswith("  hint: ")]
    return hint


def places_of(verb: str) -> list[tuple[str, ...]]:
    """Every place of a verb, or of one of its own, where a path stands, as the words before it."""
    at = VERBS[verb]
    return places_in(getattr(importlib.import_module(at.module), at.attribute), (verb,))


def places_in(command: click.Command, words: tuple[str, ...]) -> list[tuple[str, ...]]:
    if isinstance(command, click.Group):
        return [place for name, one in command.commands.items() for place in places_in(one, (*words, name))]
    paths = [param for param in command.params if isinstance(param.type, click.Path)]
    return [(*words, param.opts[0]) if isinstance(param, click.Option) else words for param in paths]


SOURCES = Path(unmoor.__file__).parent
THE_USERS = {"UserError", *(error.__name__ for error in UserError.__subclasses__())}


def test_every_error_of_ours_that_is_the_users_to_mend_has_a_hint() -> None:
    calls = [
        (f"{file.relative_to(SOURCES)}:{node.lineno}", {keyword.arg for keyword in node.keywords})
        for file in sorted(SOURCES.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in THE_USERS
    ]
    assert len(calls) > 50
    assert [place for place, given in calls if not given & {"hint", None}] == []  # None: ** passes it on


@pytest.mark.parametrize("verb", VERBS)
def test_an_option_that_no_verb_knows_has_a_hint_on_every_verb(verb: str) -> None:
    assert refused(verb, "--hlep") == "did you mean '--help'?"


@pytest.mark.parametrize("verb", ["decide", "bakeoff", "report", "profile"])
def test_a_missing_argument_is_answered_with_how_the_verb_is_written(verb: str) -> None:
    assert refused(verb).startswith(f"write unmoor {verb} [OPTIONS] ")


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("profile log --replicas many", "--replicas N: "),
        ("profile log --replicas 0", "--replicas N: "),
        ("profile log --kv-tokens 1e6", "--kv-tokens N: KV capacity of a replica"),
        ("profile log --tpot-ms inf", "--tpot-ms MS: "),
        ("decide plan --as-of today", "--as-of YYYY-MM-DD: "),
        ("engines fetch m --format pickle", "--format [gguf|hf|all]: "),
    ],
)
def test_a_value_that_an_option_does_not_take_is_answered_with_what_it_takes(call: str, hint: str) -> None:
    assert refused(*call.split()).startswith(hint)


@pytest.mark.parametrize("call", ["profile log --most-broken x", "profile log --replicas 1.5"])
def test_what_is_no_whole_number_is_called_that(call: str) -> None:
    assert called(*call.split()).stderr.splitlines()[0].endswith(" is not a valid whole number.")


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("profile log another", "write unmoor profile [OPTIONS] LOG"),
        ("profile log --format", "`unmoor VERB --help` says what follows --format, if anything"),
        ("profile log --json=3", "`unmoor VERB --help` says what follows --json, if anything"),
        ("profil log", "did you mean 'profile'?"),
        ("engines install", "write unmoor engines install [OPTIONS] NAME"),
    ],
)
def test_any_other_mistake_in_a_call_has_its_hint(call: str, hint: str) -> None:
    assert refused(*call.split()) == hint


@pytest.mark.parametrize("path", [path for verb in VERBS for path in places_of(verb)])
def test_an_empty_name_is_refused_wherever_a_path_stands(path: tuple[str, ...]) -> None:
    done = called(*path, "")
    assert (done.returncode, done.stdout) == (2, "")
    assert "an empty name" in done.stderr
    assert "  hint: " in done.stderr


def test_paths_stand_on_every_verb_that_reads_or_writes_a_file() -> None:
    assert {verb for verb in VERBS if not places_of(verb)} == {"engines", "explain"}


def test_a_name_that_no_verb_of_a_group_has_is_answered_with_those_there_are() -> None:
    assert refused("engines", "instal").startswith("known: fetch, install, list")
