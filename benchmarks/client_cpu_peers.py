"""The command lines of other load generators, each asked for the same load, and where they say their ITL p99."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from unmoor.measure.headroom.calibration_server import MODEL

TOKENS = 20
"""Of each prompt: the calibration server does not look at it, and making long ones is no cost of a client's."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """So many requests, at a constant rate, whose answers have so many chunks."""

    requests: int
    rate_rps: float
    chunks: int


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """A load generator: its command line, and its own ITL p99 as it stands in its output folder."""

    name: str
    argv: Callable[[str, str, str, Load], Sequence[str]]
    itl_p99_s: Callable[[Path], float | None]
    offline: bool = True


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of a peer took: CPU seconds of its whole process tree, and the ITL p99 that it reports."""

    cpu_s: float
    peak_bytes: int
    itl_p99_s: float | None


def _vllm(run: str, url: str, tokenizer: str, load: Load) -> Sequence[str]:
    return [
        run, "--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--base-url", url, "--model", MODEL,
        "--tokenizer", tokenizer, "--dataset-name", "random", "--random-input-len", str(TOKENS),
        "--random-output-len", str(load.chunks), "--num-prompts", str(load.requests),
        "--request-rate", f"{load.rate_rps:g}", "--burstiness", "1000", "--save-result", "--result-filename", "r.json",
    ]  # fmt: skip


def _sglang(run: str, url: str, tokenizer: str, load: Load) -> Sequence[str]:
    return [
        run, "-m", "sglang.bench_serving", "--backend", "sglang-oai-chat", "--base-url", url, "--model", MODEL,
        "--tokenizer", tokenizer, "--dataset-name", "random-ids", "--random-input-len", str(TOKENS),
        "--random-output-len", str(load.chunks), "--random-range-ratio", "1", "--num-prompts", str(load.requests),
        "--request-rate", f"{load.rate_rps:g}", "--warmup-requests", "0", "--output-file", "r.jsonl",
    ]  # fmt: skip


def _guidellm(run: str, url: str, tokenizer: str, load: Load) -> Sequence[str]:
    return [
        run, "run", "--backend", f"kind=openai_http,target={url},model={MODEL}",
        "--profile", f"kind=constant,rate={load.rate_rps:g}",
        "--constraint", f"kind=max_requests,count={load.requests}", "--tokenizer", f"kind=hf_auto,model={tokenizer}",
        "--data", f"kind=synthetic_text,prompt_tokens={TOKENS},output_tokens={load.chunks}",
        "--output", "kind=json,path=r.json", "--disable-console",
    ]  # fmt: skip


def _aiperf(run: str, url: str, tokenizer: str, load: Load) -> Sequence[str]:
    return [
        run, "profile", "-m", MODEL, "--url", url, "--endpoint-type", "chat", "--streaming", "--tokenizer", tokenizer,
        "--request-rate", f"{load.rate_rps:g}", "--arrival-pattern", "constant", "--request-count", str(load.requests),
        "--prompt-input-tokens-mean", str(TOKENS), "--prompt-output-tokens-mean", str(load.chunks),
        "--use-server-token-count", "--output-artifact-dir", "out", "--ui", "none",
    ]  # fmt: skip


def _found(document: Any, name: str) -> Any:  # noqa: ANN401 - another tool's JSON
    """The first value of that name, at any depth."""
    if isinstance(document, dict):
        if name in document:
            return document[name]
        document = list(document.values())
    if isinstance(document, list):
        return next((value for part in document if (value := _found(part, name)) is not None), None)
    return None


def _of_vllm(folder: Path) -> float | None:
    return float(json.loads((folder / "r.json").read_text())["p99_itl_ms"]) / 1000


def _of_sglang(folder: Path) -> float | None:
    return float(json.loads((folder / "r.jsonl").read_text().splitlines()[-1])["p99_itl_ms"]) / 1000


def _of_guidellm(folder: Path) -> float | None:
    metric = _found(json.loads((folder / "r.json").read_text()), "inter_token_latency_ms")
    return float(metric["successful"]["percentiles"]["p99"]) / 1000


def _of_aiperf(folder: Path) -> float | None:
    metric = _found(json.loads(next(folder.rglob("profile_export_aiperf.json")).read_text()), "inter_chunk_latency")
    return None if metric is None else float(metric["p99"]) / 1000


PEERS = (
    Peer(name="vllm bench serve", argv=_vllm, itl_p99_s=_of_vllm),
    Peer(name="SGLang bench_serving", argv=_sglang, itl_p99_s=_of_sglang),
    Peer(name="GuideLLM", argv=_guidellm, itl_p99_s=_of_guidellm),
    Peer(name="AIPerf", argv=_aiperf, itl_p99_s=_of_aiperf, offline=False),
)

_SUPERVISOR = """
import ctypes, os, resource, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: whom a peer leaves behind is waited for, and counted, here
os.sched_setaffinity(0, {int(sys.argv[1])})
if sys.argv[2] == "realtime":
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
code = subprocess.call(sys.argv[3:], stdin=subprocess.DEVNULL, stdout=sys.stderr)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
"""


def run_peer(peer: Peer, argv: Sequence[str], folder: Path, *, core: int, realtime: bool) -> Spent:
    """Runs a peer in a new folder, with all its processes on one core. Raises RuntimeError where it fails."""
    folder.mkdir(parents=True)
    offline = {"HF_HUB_OFFLINE": "1"} if peer.offline else {}
    done = subprocess.run(  # noqa: S603 - the command line that whoever runs this named
        [sys.executable, "-c", _SUPERVISOR, str(core), "realtime" if realtime else "usual", *argv],
        capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, **offline},
    )  # fmt: skip
    code, cpu_s, peak_bytes = done.stdout.split()[-3:]
    if code != "0":
        raise RuntimeError(f"{peer.name} ended with {code}: {done.stderr[-800:]}")
    try:
        itl_p99_s = peer.itl_p99_s(folder)
    except (KeyError, TypeError, ValueError, OSError, StopIteration):
        itl_p99_s = None
    return Spent(cpu_s=float(cpu_s), peak_bytes=int(float(peak_bytes)), itl_p99_s=itl_p99_s)
