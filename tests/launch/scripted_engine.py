"""An engine that is a few lines of Python: real processes and sockets, behind the same contract as the real ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from unmoor.engines.contract import (
    Command,
    Diagnosis,
    InstallSpec,
    Knob,
    LaunchSpec,
    Metric,
    ModelFormat,
    SchedulerModel,
    Settings,
)
from unmoor.engines.diagnosis import Rule, diagnose
from unmoor.launch.process import free_port

ANSWERS = """
import http.server, json, os, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"choices": [{"text": "four"}], "environment": dict(os.environ)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""

# Spawns a child that ignores polite requests, in a session of its own, as badly behaved workers do.
WITH_STUBBORN_CHILD = (
    """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"],
                 start_new_session=True)
"""
    + ANSWERS
)

# Spawns two that bear no mark, as those that set their own title do: one in the engine's session, and one in a session
# of its own, orphaned at once. Leaves its temporary folder's name, and a piece of shared memory that nobody unlinks.
WITH_UNMARKED_CHILDREN = (
    """
import mmap, os, subprocess, sys, tempfile
name = "/dev/shm/unmoor-test-" + os.path.basename(tempfile.gettempdir())
held = open(name + ".part", "w+b")
held.truncate(4096)
shared = mmap.mmap(held.fileno(), 4096)
os.link(name + ".part", name)  # as semaphores get their names
os.unlink(name + ".part")
open(tempfile.gettempdir() + "/left", "w").close()
sleeps = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", sleeps], env={}, pass_fds=[held.fileno()])
orphans = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
subprocess.run([sys.executable, "-c", orphans, sleeps], env={})
"""
    + ANSWERS
)

NEVER_ANSWERS = "import time; time.sleep(600)"
DIES = "import sys; print('engine: boom, the widget is missing', flush=True); sys.exit(3)"
DIES_UNKNOWN = "import sys; print('last words nobody knows', flush=True); sys.exit(3)"
CRASHES = "import os; print('loading', flush=True); os.kill(os.getpid(), 11)"
KILLED = "import os; print('loading', flush=True); os.kill(os.getpid(), 9)"


class ScriptedEngine:
    """Runs `script` with the port as its argument."""

    name = "scripted"
    title = "Scripted"
    known_version = "1"
    tables_name: str | None = None
    knobs: tuple[Knob, ...] = ()
    scrape: Mapping[Metric, str] = {}
    metrics_path = "/metrics"
    cache_reset_path: str | None = None
    cache_reset_hint = ""
    install: InstallSpec | None = None
    absent_reason = "a test's"
    model_format: ModelFormat = "gguf"
    cpu_weights = "none"

    def __init__(self, script: str) -> None:
        self._script = script

    def command(self, spec: LaunchSpec, settings: Settings) -> Command:
        files = {"beside.txt": "read me"} if settings else {}
        return Command(argv=(spec.python, "-c", self._script, str(spec.port)), env={"OURS": "1"}, files=files)

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        return diagnose(log_tail, (Rule("boom", "went boom", "find the widget"),))

    def scheduler(self, settings: Settings) -> SchedulerModel:
        return SchedulerModel(policy="mixed", max_running=len(settings) + 1, max_batch_tokens=1, kv_block_tokens=1)


def spec_for(folder: Path, *, python: str = sys.executable) -> LaunchSpec:
    return LaunchSpec(
        python=python,
        model_dir=str(folder),
        served_name="demo",
        host="127.0.0.1",
        port=free_port(),
        threads=1,
        context_tokens=512,
    )
