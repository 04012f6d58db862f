"""The calibration server as a process of its own, which ends with this one."""

from __future__ import annotations

import secrets
import subprocess
import sys
from types import TracebackType
from typing import Self

import msgspec

from unmoor.core.calibration import Answer, Kept
from unmoor.core.errors import WorldError

MODEL = "calibration"
_GRACE_S = 5.0


class CalibrationServer:
    """A server of known pace that answers as long as its `with` block lasts.

    Its standard input is a pipe from here: should this process be killed, it ends as well. `url` is where it answers,
    `pid` which process it is.
    """

    def __init__(self) -> None:
        self.url = ""
        self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Raises WorldError where it does not start."""
        argv = [sys.executable, "-m", "unmoor.fake.calibration"]
        environment = {"PYTHONPATH": ":".join(filter(None, sys.path)), "UNMOOR_MARK": secrets.token_hex(16)}
        self._process = subprocess.Popen(  # noqa: S603 - our own command line
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # a Ctrl-C is this process's, which then ends it
        )
        self.pid = self._process.pid
        try:
            self.url = self._line().decode()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def answer_with(self, answer: Answer) -> Kept:
        """From now on requests get this answer; how well it kept its pace until now. Raises WorldError if it died."""
        return msgspec.json.decode(self._ask(msgspec.json.encode(answer)), type=Kept)

    def kept(self) -> Kept:
        """How well it kept its pace since it was asked last. Raises WorldError if it died."""
        return msgspec.json.decode(self._ask(b""), type=Kept)

    def _ask(self, line: bytes) -> bytes:
        if self._process is None or self._process.stdin is None:
            raise self._died()
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._died() from None
        return self._line()

    def _line(self) -> bytes:
        line = self._process.stdout.readline() if self._process and self._process.stdout else b""
        if not line.endswith(b"\n"):
            raise self._died()
        return line.strip()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()  # our own child, not waited for yet: its id is nobody else's
            process.wait()

    @staticmethod
    def _died() -> WorldError:
        return WorldError(
            "the calibration server ended",
            where="unmoor.fake.calibration",
            seen="no answer on its pipe",
            expected="a server that runs until it is stopped",
            hint="start it by hand and see what it says: python -m unmoor.fake.calibration",
        )
