from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Never

import click
import pytest

from unmoor.cli.main import INTERRUPTED, TERMINATED, VERBS, run, unmoor
from unmoor.core.errors import PlanError, WorldError


def called(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "unmoor.cli", *args], capture_output=True, text=True, check=False)


def test_help_lists_every_verb() -> None:
    shown = called("--help")
    assert shown.returncode == 0
    assert all(f"  {name}" in shown.stdout and verb.help in shown.stdout for name, verb in VERBS.items())


def test_help_imports_nothing_heavy() -> None:
    probe = (
        "import sys; from unmoor.cli.main import run; run(['--help']); "
        "print(sorted({'numpy', 'msgspec', 'jinja2', 'asyncio'} & set(sys.modules)), file=sys.stderr)"
    )
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert shown.stderr.strip() == "[]"


def test_help_answers_in_a_blink() -> None:
    # The bound is 0.3 s; the best of three leaves room for a machine that is doing other work.
    def once() -> float:
        start = time.monotonic()
        called("--help")
        return time.monotonic() - start

    assert min(once() for _ in range(3)) < 0.3


def test_version_names_the_package() -> None:
    assert called("--version").stdout.startswith("unmoor ")


def test_no_verb_shows_help_and_is_a_usage_error() -> None:
    shown = called()
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert shown.stderr.startswith("Usage: unmoor")


@pytest.mark.parametrize("args", [("--help",), ("--version",), ("explain", "--help")])
def test_what_cannot_be_printed_for_a_closed_standard_output_is_an_error(args: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "unmoor.cli", *args],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "error: standard output: Bad file descriptor\n  hint: is there room where it goes, and is it open?\n",
    )


def test_unknown_verb_names_the_nearest() -> None:
    shown = called("decid", "--json")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.startswith("error: unknown verb 'decid'\n  hint: did you mean 'decide'?")


def test_unknown_option_names_the_nearest() -> None:
    shown = called("decide", "--jsn")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.startswith("error: unknown option '--jsn'\n  hint: did you mean '--json'?")


REPORT = "  hint: run it again with UNMOOR_TRACEBACK=1 for the whereabouts, and report them; what was measured stays\n"


def raising(error: BaseException) -> Callable[[], Never]:
    def fail() -> Never:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            PlanError("no SLO", where="plan.toml:3", seen="nothing", expected="[slo]", hint="add one"),
            2,
            "error: plan.toml:3: no SLO\n  seen:     nothing\n  expected: [slo]\n  hint: add one\n",
        ),
        (WorldError("the disk is full"), 1, "error: the disk is full\n"),
        (KeyboardInterrupt(), INTERRUPTED, "\ninterrupted: what was finished stays\n"),
        (
            click.UsageError("a flag is missing"),
            2,
            "error: a flag is missing\n  hint: write unmoor fails [OPTIONS]\n  see: unmoor fails --help\n",
        ),
        (
            OSError(28, "No space left on device", "out.html"),
            1,
            "error: out.html: No space left on device\n  hint: is there room, and may it be used?\n",
        ),
        (
            RecursionError("too deep"),
            1,
            "error: a defect of unmoor, or something it did not foresee\n  seen:     RecursionError: too deep\n"
            + REPORT,
        ),
    ],
    ids=["the user's", "the world's", "ctrl-c", "usage", "disk full", "unforeseen"],
)
def test_a_failure_is_text_on_stderr_and_a_code(
    error: BaseException, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group = click.Group("unmoor", commands=[click.Command("fails", callback=raising(error))])
    assert run(["fails"], group) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", text)


def test_a_reader_that_closed_early_gets_no_complaint() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    shown = subprocess.run(
        [sys.executable, "-m", "unmoor.cli", "--help"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert shown.stderr == ""


@pytest.mark.parametrize("redirect", [">/dev/full", ">&-"])
def test_a_standard_output_that_takes_nothing_is_no_traceback(redirect: str) -> None:
    line = f"{sys.executable} -m unmoor.cli --help {redirect}"
    shown = subprocess.run(["/bin/sh", "-c", line], stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in shown.stderr
    assert "Exception ignored" not in shown.stderr
    if redirect == ">/dev/full":
        assert (shown.returncode, "hint:" in shown.stderr) == (1, True)


def test_the_real_group_is_what_runs_by_default() -> None:
    assert unmoor.list_commands(click.Context(unmoor)) == list(VERBS)


def test_a_polite_end_is_an_exception_so_that_what_is_under_way_is_ended() -> None:
    code = (
        "import time\nfrom unmoor.cli.main import unwind_on_sigterm\nunwind_on_sigterm()\n"
        "try:\n    print('up', flush=True)\n    time.sleep(60)\nfinally:\n    print('ended', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as us:
        assert us.stdout is not None
        assert us.stdout.readline() == "up\n"
        us.terminate()
        assert us.stdout.read() == "ended\n"
    assert us.returncode == TERMINATED
