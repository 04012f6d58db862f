"""Runs a client against the scripted server, one case at a time, and judges what its result file says."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from unmoor.fake.conformance.answers import ASKED_TOKENS, MODEL
from unmoor.fake.conformance.cases import Case
from unmoor.fake.conformance.clients import Client, filled
from unmoor.fake.conformance.judge import Asked, CaseResult, Standing, judge, without_result
from unmoor.fake.conformance.reading import read_result
from unmoor.fake.conformance.server import CaseServer

ASKED = Asked(requests=10, rate_rps=10.0)
_MOST_RESULT_BYTES = 64 << 20
_SAID_CHARACTERS = 200


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """How a client is called here: `program` takes the place of its command's first word, `tokenizer` names a folder.

    A client that has not ended after `timeout_s` is ended.
    """

    client: Client
    program: str | None = None
    tokenizer: str = ""
    timeout_s: float = 120.0


def play(case: Case, call: Call) -> CaseResult:
    """The result of one case. What keeps a client from running is in the result; nothing is raised for it."""
    client = call.client
    reason = _not_played(case, client)
    if reason:
        return without_result(case, Standing.NOT_PLAYED, reason)
    with CaseServer(case) as server, tempfile.TemporaryDirectory(prefix="unmoor-conformance-") as folder:
        run = _Run(case, call, server.url, Path(folder))
        try:
            said = read_result(client.reads, run.result())
        except _NoResultError as failure:
            return without_result(case, Standing.DID_NOT_RUN, str(failure))
        except ValueError as error:
            return without_result(case, Standing.DID_NOT_RUN, f"its result file is no JSON: {error}")
        asked = msgspec.structs.replace(ASKED, random_arrivals=client.random_arrivals)
        if len(server.played) < asked.requests:
            elsewhere = f", and {server.elsewhere} at the other endpoint" if server.elsewhere else ""
            seen = f"{len(server.played)} of {asked.requests} requests came{elsewhere}"
            return without_result(case, Standing.DID_NOT_RUN, seen)
        return judge(case, asked, server.played, said)


def _not_played(case: Case, client: Client) -> str:
    """Why a client cannot be held to a case; "" where it can."""
    if case.endpoint == "completions" and client.completions is None:
        return "it is not known how this client is called with /v1/completions"
    if case.capped and client.capped is None:
        return "it is not known how this client is given a schedule and a limit of requests in flight"
    if case.capped and client.random_arrivals:
        return "it draws its own gaps, so that the server cannot know when a request was due"
    return ""


class _NoResultError(Exception):
    """A client that left no result file, with what it said."""


class _Run:
    """One run of a client in a folder of its own."""

    def __init__(self, case: Case, call: Call, url: str, folder: Path) -> None:
        self._client, self._call, self._folder = call.client, call, folder
        self._places = {
            "url": url,
            "model": MODEL,
            "requests": str(ASKED.requests),
            "rate": f"{ASKED.rate_rps:g}",
            "seconds": f"{ASKED.requests / ASKED.rate_rps:g}",
            "tokens": str(ASKED_TOKENS),
            "tokenizer": call.tokenizer,
            "out": str(folder / "result.json"),
            "dir": str(folder),
            "python": sys.executable,
        }
        client = call.client
        more = client.completions if case.endpoint == "completions" else client.capped if case.capped else client.chat
        self._command = [*filled((*client.command, *(more or ())), self._places)]
        if call.program:
            self._command[0] = call.program

    def result(self) -> bytes:
        """The result file's content. Raises _NoResultError where there is none."""
        for name, text in self._client.files.items():
            (self._folder / name).write_text(filled((text,), self._places)[0], encoding="utf-8")
        code = self._end_of_client()
        pattern = "printed" if self._client.printed else self._client.reads.file
        found = sorted(path for path in self._folder.glob(pattern) if path.is_file())
        if not found or not found[-1].stat().st_size:
            raise _NoResultError(f"it ended with exit code {code} and wrote no result: {self._last_words()}")
        if found[-1].stat().st_size > _MOST_RESULT_BYTES:
            raise _NoResultError(f"its result file is larger than {_MOST_RESULT_BYTES >> 20} MiB")
        return found[-1].read_bytes()

    def _end_of_client(self) -> int:
        with (self._folder / "printed").open("wb") as out, (self._folder / "told").open("wb") as err:
            try:
                # S603: a command that the user named, or a client's own, without a shell.
                process = subprocess.Popen(  # noqa: S603
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd=self._folder,
                    start_new_session=True,
                )
            except OSError as error:
                raise _NoResultError(f"{self._command[0]}: {error.strerror}") from None
            try:
                return process.wait(timeout=self._call.timeout_s)
            except subprocess.TimeoutExpired:
                raise _NoResultError(f"it had not ended after {self._call.timeout_s:g} s") from None
            finally:
                _end_group(process)

    def _last_words(self) -> str:
        for name in ("told", "printed"):
            lines = (self._folder / name).read_bytes().decode("utf-8", "replace").split("\n")
            said = [" ".join(line.split()) for line in lines if line.strip()]
            if said:
                return said[-1].replace(str(self._folder), "DIR")[-_SAID_CHARACTERS:]
        return "it said nothing"


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of the client's own session: it leads it, so that nobody else's process is in it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
