"""What a load generator costs and carries: ours beside others and beside a bare loop, on the same calibration server.

    python benchmarks/client_cpu.py --rounds 5 --tokenizer DIR --vllm VLLM --sglang PYTHON --guidellm EXE --aiperf EXE

The client, with all its processes, has one core and the server another. Counted is CPU, user and system, of the whole
process tree, less that of a run of one request, over the chunks or requests that the server counted. The order
rotates; a ratio is taken within its round. What is not named is left out. `--realtime` keeps other work of a shared
machine off both cores (it takes the right to do so).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from client_cpu_loops import LOOPS, PROMPT, Seen
from client_cpu_peers import PEERS, Load, Peer, run_peer

from unmoor.core.calibration import Answer, Kept
from unmoor.core.record import Record
from unmoor.measure.client.load import PlannedRequest, Target
from unmoor.measure.client.replay import connections_allowed, replay
from unmoor.measure.headroom.calibration_server import MODEL, CalibrationServer

LONG = (200, 30.0, Answer(chunks=200, gap_s=0.02, first_s=0.02))
"""120 streams at a time at 50 tokens a second, some 6,000 chunks a second."""
SHORT = (2000, 400.0, Answer(chunks=4, gap_s=0.0, first_s=0.01))
ONE = (1, 10.0, Answer(chunks=4, gap_s=0.0, first_s=0.01))
MANY = (2000, 1000.0, Answer(chunks=100, gap_s=0.05, first_s=0.05))
"""2,000 streams at 20 tokens a second, begun within 2 s and all open for 3 s."""
MILLION = (2000, 1000.0, Answer(chunks=500, gap_s=0.05, first_s=0.05))
RATES = {200.0: 1000, 500.0: 2500, 2000.0: 6000}
START_UPS = 2
"""A start is measured in so many rounds; what is taken off is the median."""
Work = tuple[int, float, Answer]
Run = Callable[[Work], tuple[float, float | None]]
"""Runs a client; its CPU in seconds, and the p99 of its own figure: receive lag of ours, ITL of others, in seconds."""


class Bench:
    """The server, the clients that were named, and the cores of both."""

    def __init__(self, server: CalibrationServer, chosen: argparse.Namespace, folder: Path) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self.core = cores[-1]
        os.sched_setaffinity(server.pid, {cores[0]})
        self.realtime: bool = chosen.realtime
        self.policy = ["--realtime"] if self.realtime else []
        if self.realtime:
            os.sched_setscheduler(server.pid, os.SCHED_RR, os.sched_param(1))
        self.server = server
        self.folder = folder
        self.tokenizer = chosen.tokenizer
        self.runs: dict[str, Run] = {name: self._loop(name) for name in LOOPS}
        for peer, run in zip(PEERS, (chosen.vllm, chosen.sglang, chosen.guidellm, chosen.aiperf), strict=True):
            if run is not None:
                self.runs[peer.name] = self._peer(peer, run)

    def measure(self, name: str, work: Work) -> tuple[float, float | None, Kept]:
        """One run of a client: CPU seconds, its own p99, and what the server says."""
        self.server.answer_with(work[2])
        cpu_s, p99_s = self.runs[name](work)
        return cpu_s, p99_s, self.server.kept()

    def _loop(self, name: str) -> Run:
        def run(work: Work) -> tuple[float, float | None]:
            argv = [sys.executable, __file__, "--loop", name, "--url", self.server.url, "--core", str(self.core)]
            argv += ["--requests", str(work[0]), "--rate", str(work[1]), *self.policy]
            done = subprocess.run(argv, check=True, capture_output=True, text=True)  # noqa: S603 - ourselves
            told = json.loads(done.stdout)
            return told["cpu_s"], told["p99_s"]

        return run

    def _peer(self, peer: Peer, program: str) -> Run:
        def run(work: Work) -> tuple[float, float | None]:
            load = Load(requests=work[0], rate_rps=work[1], chunks=work[2].chunks)
            folder = self.folder / f"{time.monotonic_ns()}"
            argv = peer.argv(program, self.server.url, self.tokenizer, load)
            spent = run_peer(peer, argv, folder, core=self.core, realtime=self.realtime)
            return spent.cpu_s, spent.itl_p99_s

        return run


def costs(bench: Bench, rounds: int) -> dict[str, Any]:
    """CPU µs per chunk of long streams and per short request, of every client, by round."""
    found: dict[str, dict[str, list[float]]] = {name: {"chunk_us": [], "request_us": []} for name in bench.runs}
    starts: dict[str, list[float]] = {name: [] for name in bench.runs}
    names = list(bench.runs)
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            try:
                if number < START_UPS:
                    starts[name].append(bench.measure(name, ONE)[0])
                long_s, _, long = bench.measure(name, LONG)
                short_s, _, short = bench.measure(name, SHORT)
            except RuntimeError as failure:
                _tell(f"{name}: {failure}")
                continue
            _tell(f"round {number + 1}, {name}: {long_s:.3f} s for {long.chunks} chunks, {short_s:.3f} s for "
                  f"{short.requests} short requests, starts {starts[name][-1]:.3f} s, server late p99 "
                  f"{long.late_p99_s}, load average {os.getloadavg()[0]:.1f}")  # fmt: skip
            found[name]["chunk_us"].append(long_s * 1e6 / long.chunks)
            found[name]["request_us"].append(short_s * 1e6 / short.requests)
    for name, units in found.items():
        start_us = statistics.median(starts[name]) * 1e6 if starts[name] else 0.0
        chunks, requests = (LONG[0] * LONG[2].chunks, SHORT[0])
        units["chunk_us"] = [value - start_us / chunks for value in units["chunk_us"]]
        units["request_us"] = [value - start_us / requests for value in units["request_us"]]
    return {name: _beside(units, found["ours"], found["bare epoll"]) for name, units in found.items()}


def _beside(
    units: dict[str, list[float]], ours: dict[str, list[float]], bare: dict[str, list[float]]
) -> dict[str, dict[str, Any]]:
    return {
        unit: {**_spread(values), "times_ours": _ratios(values, ours[unit]), "times_bare": _ratios(values, bare[unit])}
        for unit, values in units.items()
        if values
    }


def lags(bench: Bench, rounds: int) -> list[dict[str, Any]]:
    """2,000 streams at 20 tokens a second: what each client says of its p99, and how the server kept its pace."""
    rows = []
    for _ in range(rounds):
        for name in bench.runs:
            if name in LOOPS and name != "ours":
                continue
            try:
                cpu_s, p99_s, kept = bench.measure(name, MANY)
            except RuntimeError as failure:
                _tell(f"{name}: {failure}")
                continue
            rows.append({
                "client": name, "p99_s": p99_s, "cpu_s": cpu_s, "requests": kept.requests, "chunks": kept.chunks,
                "server_gap_p99_s": kept.gap_p99_s, "server_late_p99_s": kept.late_p99_s,
                "request_rps": kept.request_rps, "load_average": os.getloadavg()[0],
            })  # fmt: skip
            _tell(json.dumps(rows[-1]))
    return rows


def rates(bench: Bench, rounds: int) -> list[dict[str, Any]]:
    """Short answers at drawn (Poisson) schedules: the rate that was due, and the one that was sent."""
    rows = []
    for _ in range(rounds):
        for rate_rps, requests in RATES.items():
            bench.server.answer_with(SHORT[2])
            argv = [sys.executable, __file__, "--poisson", "--url", bench.server.url, "--core", str(bench.core)]
            argv += ["--requests", str(requests), "--rate", str(rate_rps), *bench.policy]
            done = subprocess.run(argv, check=True, capture_output=True, text=True)  # noqa: S603 - ourselves
            rows.append({
                "client": "ours", "asked_rps": rate_rps, **json.loads(done.stdout),
                "server_rps": bench.server.kept().request_rps, "load_average": os.getloadavg()[0],
            })  # fmt: skip
            _tell(json.dumps(rows[-1]))
    for name in [name for name in bench.runs if name not in LOOPS]:
        rate_rps, requests = max(RATES.items())  # what the server saw: their own word is not needed
        try:
            _, _, kept = bench.measure(name, (requests, rate_rps, SHORT[2]))
        except RuntimeError as failure:
            _tell(f"{name}: {failure}")
            continue
        rows.append({"client": name, "asked_rps": rate_rps, "server_rps": kept.request_rps})
        _tell(json.dumps(rows[-1]))
    return rows


def memory(bench: Bench) -> dict[str, Any]:
    """Peak memory of a million chunks, records kept and not."""
    found: dict[str, Any] = {}
    for keep in ("kept", "handed over"):
        bench.server.answer_with(MILLION[2])
        argv = [sys.executable, __file__, "--memory", keep, "--url", bench.server.url, "--core", str(bench.core)]
        argv += ["--requests", str(MILLION[0]), "--rate", str(MILLION[1]), *bench.policy]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)  # noqa: S603 - ourselves
        found[f"records {keep}"] = json.loads(done.stdout)
        _tell(json.dumps(found))
    return found


def run_loop(name: str, url: str, requests: int, rate_rps: float) -> dict[str, Any]:
    """One of our loops in this process, warmed up: its CPU in seconds."""
    LOOPS[name](url, 1, 1.0)  # imports and first calls are no cost of a chunk
    before_s = time.process_time()
    seen: Seen = LOOPS[name](url, requests, rate_rps)
    cpu_s = time.process_time() - before_s
    if seen.answers != requests:
        raise RuntimeError(f"{seen.answers} answers of {requests} came whole")
    return {"cpu_s": cpu_s, "p99_s": seen.receive_lag_p99_s}


def run_poisson(url: str, requests: int, rate_rps: float) -> dict[str, Any]:
    """Ours at a drawn schedule."""
    random, due_s, planned = Random(int(rate_rps)), 0.0, []  # noqa: S311 - a schedule, no secret
    for index in range(requests):
        planned.append(PlannedRequest(index=index, due_s=due_s, prompt=PROMPT, max_tokens=4))
        due_s += random.expovariate(rate_rps)
    report = replay(Target(url=url, served_name=MODEL), planned, sink=lambda _: None, timeout_s=60.0)
    return {
        "requests": report.requests, "failures": report.failures, "offered_rps": report.offered_rps,
        "achieved_rps": report.achieved_rps, "send_lag_p99_s": report.send_lag_p99_s,
    }  # fmt: skip


def run_memory(url: str, requests: int, rate_rps: float, *, keep: bool) -> dict[str, Any]:
    """Ours, with its peak resident memory before and after, in bytes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    records: list[Record] = []
    chunks = 0

    def sink(record: Record) -> None:
        nonlocal chunks
        chunks += len(record.chunk_at_ns)
        if keep:
            records.append(record)

    planned = [PlannedRequest(index=i, due_s=i / rate_rps, prompt=PROMPT, max_tokens=500) for i in range(requests)]
    report = replay(Target(url=url, served_name=MODEL), planned, sink=sink, timeout_s=300.0)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"chunks": chunks, "failures": report.failures, "before_bytes": before, "peak_bytes": after}


def _spread(values: Sequence[float]) -> dict[str, Any]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": len(values)}


def _ratios(values: Sequence[float], others: Sequence[float]) -> dict[str, Any]:
    pairs = list(zip(values, others, strict=False))
    return _spread([value / other for value, other in pairs]) if pairs else {}


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Runs what was asked for and prints it as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", default="costs,lags,rates,memory", help="what to run, with commas")
    parser.add_argument("--tokenizer", help="a folder with tokenizer.json, which the others need")
    for name in ("vllm", "sglang", "guidellm", "aiperf"):
        parser.add_argument(f"--{name}", help="its executable (for sglang: the Python that has it)")
    for internal in ("--loop", "--url", "--memory"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    parser.add_argument("--realtime", action="store_true", help="schedule clients and server before all else")
    parser.add_argument("--poisson", action="store_true", help=argparse.SUPPRESS)
    for number in ("--core", "--requests"):
        parser.add_argument(number, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=float, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    with connections_allowed():
        print(json.dumps(_child(chosen) if chosen.url else _all(chosen), indent=2))


def _child(chosen: argparse.Namespace) -> dict[str, Any]:
    os.sched_setaffinity(0, {chosen.core})
    if chosen.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    if chosen.loop:
        return run_loop(chosen.loop, chosen.url, chosen.requests, chosen.rate)
    if chosen.poisson:
        return run_poisson(chosen.url, chosen.requests, chosen.rate)
    return run_memory(chosen.url, chosen.requests, chosen.rate, keep=chosen.memory == "kept")


def _all(chosen: argparse.Namespace) -> dict[str, Any]:
    parts: dict[str, Callable[[Bench], Any]] = {
        "costs": lambda bench: costs(bench, chosen.rounds),
        "lags": lambda bench: lags(bench, chosen.rounds),
        "rates": lambda bench: rates(bench, chosen.rounds),
        "memory": memory,
    }
    with tempfile.TemporaryDirectory() as folder, CalibrationServer() as server:
        bench = Bench(server, chosen, Path(folder))
        return {name: parts[name](bench) for name in chosen.parts.split(",")}


if __name__ == "__main__":
    main()
