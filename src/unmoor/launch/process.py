"""Starts an engine for real, waits until it has answered, and ends it with all its children."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self

from unmoor.core.errors import EngineDiedError
from unmoor.engines.contract import Command, Diagnosis, Engine, LaunchSpec, Settings
from unmoor.launch.family import end_all, family
from unmoor.launch.identity import Identity, new_mark, runs
from unmoor.launch.ready import wait_until_ready

GRACE_S = 10.0
CRASHES = frozenset({-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGILL, -signal.SIGBUS})
TAIL_BYTES = 64 * 1024

# All that an engine inherits. Anything else in our environment could change what is measured, or be a secret.
PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_HOME",
})  # fmt: skip


class RunningEngine:
    """An engine that we started. Leaving its context ends it and every process that came from it."""

    def __init__(self, engine: Engine, spec: LaunchSpec, command: Command, *, log_path: Path) -> None:
        self._engine = engine
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._mark = new_mark()
        # Of its own, so that what it leaves there can go with it. Short: sockets lie in it, whose paths have a limit.
        self._temporary = Path(tempfile.gettempdir()) / f"unmoor-{self._mark[:12]}"
        self._seen: frozenset[Identity] = frozenset()
        self.served_name = spec.served_name
        self.host = spec.host
        self.port = spec.port
        self.url = f"http://{spec.host}:{spec.port}"
        self.argv = command.argv
        self.env = dict(command.env)
        self.log_path = log_path
        self.identity: Identity | None = None

    @property
    def pid(self) -> int | None:
        """The engine's process id; None when it ended before it could be read."""
        return self.identity.pid if self.identity else None

    def __enter__(self) -> Self:
        try:
            told = self._start()
        except BaseException:  # an interrupt too: whoever is not inside the context yet does not leave it
            self.stop()
            raise
        if told.get("started_ticks") is None and "error" in told:
            self.stop()
            raise EngineDiedError(
                f"{self._engine.title} could not be started",
                where=self.argv[0],
                seen=told.get("error"),
                hint=f"install it again: unmoor engines install {self._engine.name}",
            )
        if told.get("started_ticks") is not None:
            self.identity = Identity(int(told["pid"]), int(told["started_ticks"]), self._mark)
        return self

    def _start(self) -> dict[str, Any]:
        """What the supervisor tells once it has started the engine, or could not."""
        order = {
            "argv": self.argv,
            "env": _passed_on() | self.env,
            "mark": self._mark,
            "log_path": str(self.log_path),
            "cwd": str(self.log_path.parent),
            "temporary": str(self._temporary),
            "grace_s": GRACE_S,
        }
        self._supervisor = subprocess.Popen(
            [sys.executable, "-P", "-m", "unmoor.launch.supervise"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        pipe = _pipe(self._supervisor.stdin)
        pipe.write(json.dumps(order).encode() + b"\n")
        pipe.flush()
        told: dict[str, Any] = json.loads(_pipe(self._supervisor.stdout).readline() or "{}")
        return told or {"error": "its supervisor ended before it had started"}

    def __exit__(self, *_: object) -> None:
        self.stop()

    def alive(self) -> bool:
        """Whether the engine's own process still runs. Its supervisor outlives it by the seconds of its sweep."""
        if self._supervisor is None or self._supervisor.poll() is not None or self.identity is None:
            return False
        return runs(self.identity)

    def check_alive(self) -> None:
        """Raises EngineDiedError, with the engine's own words turned into ours, when it has ended."""
        if not self.alive():
            raise died(self._engine, tail(self.log_path), log_path=self.log_path, code=self._exit_code())

    def stop(self) -> None:
        """Ends the engine and all that came from it, and returns when they have gone. Twice is no harm."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is None:
            return
        self._family(supervisor.pid if supervisor.poll() is None else None)
        with suppress(BrokenPipeError):  # it was killed before it had read all of its order
            _pipe(supervisor.stdin).close()
        try:
            supervisor.wait(GRACE_S * 2)
        except subprocess.TimeoutExpired:
            supervisor.kill()
            supervisor.wait()
        _pipe(supervisor.stdout).close()
        if supervisor.returncode < 0:  # it was killed, and has swept nothing
            end_all(lambda: {*filter(runs, self._seen), *self._family(None)}, within_s=GRACE_S)
            shutil.rmtree(self._temporary, ignore_errors=True)

    def children(self) -> tuple[Identity, ...]:
        """Every process of this engine that still runs."""
        return self._family(self._supervisor.pid if self._supervisor else None)

    def _family(self, supervisor: int | None) -> tuple[Identity, ...]:
        found = family(self._mark, leader=self.identity, supervisor=supervisor)
        self._seen |= frozenset(found)  # without its supervisor, an orphan in another session is known no other way
        return found

    def _exit_code(self) -> int | None:
        if self._supervisor is None:
            return None
        told = _pipe(self._supervisor.stdout).readline()
        return json.loads(told).get("exit") if told else None


def _passed_on() -> dict[str, str]:
    """What an engine inherits, and a lasting place for what torch compiles: by default that lies in TMPDIR."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unmoor" / "torchinductor"
    kept = {name: os.environ[name] for name in PASSED_ON & os.environ.keys()}
    return {"TORCHINDUCTOR_CACHE_DIR": str(cache)} | kept


@contextmanager
def launch(
    engine: Engine,
    spec: LaunchSpec,
    settings: Settings,
    *,
    log_path: Path,
    ready_timeout_s: float,
    say: Callable[[str], None],
) -> Iterator[RunningEngine]:
    """The engine, started with `settings` and ready: it has answered a real completion. It ends with the context.

    Raises UsageError for a knob it does not have; EngineDiedError when it does not start, with its reason, or has not
    answered after `ready_timeout_s`.
    """
    command = engine.command(spec, settings)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    for name, text in command.files.items():
        (log_path.parent / name).write_text(text)
    if not _port_is_free(spec.host, spec.port):
        raise EngineDiedError(
            f"port {spec.port} is taken",
            where=f"{spec.host}:{spec.port}",
            expected="a free port",
            hint="another server listens there; leave the port out, and a free one is chosen",
        )
    with RunningEngine(engine, spec, command, log_path=log_path) as running:
        took_s = wait_until_ready(
            running.url,
            running.served_name,
            title=engine.title,
            check_alive=running.check_alive,
            timeout_s=ready_timeout_s,
            say=say,
            log_path=log_path,
        )
        say(f"{engine.title} answers on port {spec.port} after {took_s:.1f} s")
        yield running


def died(engine: Engine, log_tail: str, *, log_path: Path, code: int | None) -> EngineDiedError:
    """The error for an engine that has ended: diagnosed where its words are known, its last line else."""
    found = engine.diagnose(log_tail) or _by_exit_code(log_tail, code)
    return EngineDiedError(f"{engine.title} {found.message}", where=str(log_path), seen=found.seen, hint=found.hint)


def _by_exit_code(log_tail: str, code: int | None) -> Diagnosis:
    lines = [line.strip() for line in log_tail.splitlines() if line.strip()]
    seen = lines[-1][:300] if lines else "nothing in its log"
    if code == -signal.SIGKILL:
        return Diagnosis(
            message="was killed, most likely because memory ran out",
            seen=seen,
            hint="free memory, or give less: a smaller context, a smaller KV cache, a lower max_running",
        )
    if code in CRASHES:
        return Diagnosis(
            message=f"crashed ({signal.Signals(-code).name}), perhaps of a damaged model",
            seen=seen,
            hint="unmoor engines fetch MODEL checks the model that is here, and brings it again where it is damaged",
        )
    return Diagnosis(message=f"ended by itself (exit code {code})", seen=seen, hint="its log says more")


def tail(path: Path, size: int = TAIL_BYTES) -> str:
    """The last `size` bytes of a log as text; empty for one that is not there."""
    try:
        with path.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - size))
            return log.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _port_is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections that have just ended must not make a port look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:  # pragma: no cover - every stream asked for is a pipe
        raise AssertionError("opened without a pipe")
    return stream
