"""Runs one of the probes: a script of ours in the environment of a library or an engine, answering in JSON lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from importlib.resources import files
from typing import Any

from unmoor.core.errors import EngineDiedError, InstallError
from unmoor.launch.pip import isolated_environment

Line = dict[str, Any]


def run_probe(python: str, name: str, lines: Iterable[Line], *, timeout_s: float) -> list[Line]:
    """What `launch/probes/NAME.py`, run by `python`, answers to `lines`.

    It gets a session of its own, which is ended with all that is in it when it has answered, when `timeout_s` have
    passed, or when we are interrupted. Raises InstallError where `python` cannot be run, EngineDiedError where the
    probe fails or takes longer.
    """
    script = str(files("unmoor") / "launch" / "probes" / f"{name}.py")
    asked = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    try:
        child = subprocess.Popen(  # noqa: S603 - no shell; the script is ours
            [python, "-I", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=isolated_environment(os.environ),
            start_new_session=True,
        )
    except OSError as error:
        raise InstallError(
            "its environment cannot be used", where=python, seen=str(error), hint="install it again"
        ) from None
    try:
        told, complaint = child.communicate(asked, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise EngineDiedError(
            f"the probe {name} has not answered within {timeout_s:.0f} s", where=python, hint="ask for less at once"
        ) from None
    finally:
        _end(child)
    if child.returncode != 0:
        last = complaint.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
        raise EngineDiedError(f"the probe {name} failed", where=python, seen=last[0], hint="install it again")
    return [json.loads(line) for line in told.splitlines()]


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the session that the child leads. Until it is waited for, nobody else can have its id."""
    if child.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
