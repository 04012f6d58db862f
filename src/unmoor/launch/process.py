"""Starts an engine for real, waits until it has answered, and ends it with all its children."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from unmoor.core.errors import EngineDiedError
from unmoor.engines.contract import Command, Diagnosis, Engine, LaunchSpec, Settings
from unmoor.launch.identity import Identity, identify, marked, new_mark
from unmoor.launch.ready import wait_until_ready

GRACE_S = 10.0
TAIL_BYTES = 64 * 1024

# All that an engine inherits. Anything else in our environment could change what is measured, or be a secret.
PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_HOME",
})  # fmt: skip


class RunningEngine:
    """An engine that we started. Leaving its context ends it and every child that carries its mark."""

    def __init__(self, engine: Engine, spec: LaunchSpec, command: Command, *, log_path: Path) -> None:
        self._engine = engine
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._mark = new_mark()
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
        order = {
            "argv": self.argv,
            "env": {name: os.environ[name] for name in PASSED_ON & os.environ.keys()} | self.env,
            "mark": self._mark,
            "log_path": str(self.log_path),
            "cwd": str(self.log_path.parent),
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
        told = json.loads(_pipe(self._supervisor.stdout).readline() or "{}")
        if "pid" not in told:
            self.stop()
            raise EngineDiedError(
                f"{self._engine.title} could not be started",
                where=self.argv[0],
                seen=told.get("error"),
                hint=f"install it again: unmoor engines install {self._engine.name}",
            )
        self.identity = identify(int(told["pid"]), self._mark)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def alive(self) -> bool:
        """Whether the engine's own process still runs. Its supervisor outlives it by the seconds it takes to clean up."""
        if self._supervisor is None or self._supervisor.poll() is not None or self.identity is None:
            return False
        return identify(self.identity.pid, self.identity.mark) == self.identity

    def check_alive(self) -> None:
        """Raises EngineDiedError, with the engine's own words turned into ours, when it has ended."""
        if not self.alive():
            raise died(self._engine, tail(self.log_path), log_path=self.log_path, code=self._exit_code())

    def stop(self) -> None:
        """Ends the engine and all that carries its mark, and returns when they have gone. Twice is no harm."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is None:
            return
        _pipe(supervisor.stdin).close()
        try:
            supervisor.wait(GRACE_S * 2)
        except subprocess.TimeoutExpired:
            supervisor.kill()
            supervisor.wait()
        _pipe(supervisor.stdout).close()

    def children(self) -> tuple[Identity, ...]:
        """Every process of this engine that still runs."""
        return marked(self._mark)

    def _exit_code(self) -> int | None:
        if self._supervisor is None:
            return None
        told = _pipe(self._supervisor.stdout).readline()
        return json.loads(told).get("exit") if told else None


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
