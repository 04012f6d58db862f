"""Samples aiconfigurator-core's forward-pass model into the small kernel tables that ship in choose/prediction/tables.

Run it with a Python that has aiconfigurator-core 0.12.0, and no other version of it:

    python scripts/build_tables.py src/unmoor/choose/prediction/tables

It writes `llama-3.1-70b-fp8.npz` (float32, seconds) and `llama-3.1-70b-fp8.json` (the manifest), and prints how far
interpolation in the shipped arrays is from the live model on random held-out shapes. Twice gives the same arrays.

One iteration is the sum of three terms, and the live model composes it from exactly these: everything but attention,
a function of the tokens in the pass; context attention, of (prefills, new tokens each, cached tokens each); decode
attention, of (decodes, mean KV tokens).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import os
import random
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from aiconfigurator_core.sdk import RustForwardPassPerfModel, estimate_kv_cache
from aiconfigurator_core.sdk.engine import EngineHandle
from numpy.typing import NDArray

from unmoor.choose.prediction.kernel_tables import KernelTable

ORIGIN = "aiconfigurator-core"
ORIGIN_VERSION = "0.12.0"
MADE_ON = "2026-11-30"
MODEL = "nvidia/Llama-3.1-70B-Instruct-FP8"
PARAMETERS = 70_553_706_496  # from its configuration: 80 layers of 8192, 28672 in the MLP, two embeddings of 128256
ALIASES = (
    "Llama-3.1-70B",
    "Llama-3.1-70B-Instruct",
    "Llama-3.1-70B-Instruct-FP8",
    "Meta-Llama-3.1-70B",
    "Meta-Llama-3.1-70B-Instruct",
    "Meta-Llama-3.1-70B-Instruct-FP8",
    "Llama-3.3-70B-Instruct",
    "Llama-3.3-70B-Instruct-FP8",
)
DEVICES = ("h100_sxm", "h200_sxm", "b200_sxm")
SIZES = (1, 2, 4, 8)
STEM = "llama-3.1-70b-fp8"

TOKENS_MAX = 20480
DECODES_MAX = 1024
KNOT_ERROR = 0.002
PREFILLS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)
# fmt: off
NEW = (
    1, 16, 32, 64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584,
    4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480,
)
CACHED = (
    0, 64, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 65536, 131072,
)
DECODES = (
    1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256,
    320, 384, 448, 512, 768, 1024,
)
KV = (
    1, 32, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
    49152, 65536, 131072,
)
# fmt: on


class Tables(NamedTuple):
    """An engine's tables in the origin: its name and version there, and how its memory fraction is meant."""

    name: str
    version: str
    fraction: float
    kind: str


ENGINES = (
    Tables("vllm", "0.24.0", 0.9, "of_total"),
    Tables("sglang", "0.5.14", 0.9, "of_total"),
    Tables("trtllm", "1.3.0rc20", 0.9, "of_free"),
)


class Live:
    """The live model of one (device, engine, TP), in seconds."""

    def __init__(self, device: str, tables: Tables, tp: int) -> None:
        self._passes = RustForwardPassPerfModel.from_native(
            {
                "schema_version": 1,
                "model_path": MODEL,
                "model_name": MODEL,
                "system": device,
                "system_name": device,
                "backend": tables.name,
                "backend_version": tables.version,
                "tp_size": tp,
                "pp_size": 1,
                "attention_dp_size": 1,
            }
        )
        self._engine = EngineHandle.compile(MODEL, device, tables.name, backend_version=tables.version, tp_size=tp)
        shape: dict[str, int] = {"batch_size": 1, "s": 64}
        self._context = self._index(self._engine.evaluate_context_ops, "context_attention", shape)
        self._generation = self._index(self._engine.evaluate_generation_ops, "generation_attention", shape)

    @staticmethod
    def _index(evaluate: Callable[..., Any], name: str, shape: Mapping[str, int]) -> int:
        return next(i for i in range(100) if name in {op[0] for op in evaluate([i], **shape)})

    def step_s(self, prefills: int, new: int, cached: int, decodes: int, decode_kv: int) -> float:
        """One iteration; token counts are sums over the requests of their kind."""
        scheduled = {
            "num_prefill_requests": prefills,
            "sum_prefill_tokens": new,
            "sum_prefill_kv_tokens": cached,
            "num_decode_requests": decodes,
            "sum_decode_kv_tokens": decode_kv,
        }
        return float(self._passes.estimate_forward_pass_time_ms({"scheduled_requests": scheduled})) / 1e3

    def context_s(self, prefills: int, new: int, cached: int) -> float:
        """Context attention of `prefills` requests with `new` and `cached` tokens each."""
        ops = self._engine.evaluate_context_ops([self._context], batch_size=prefills, s=new, prefix=cached)
        return float(sum(op[1] for op in ops)) / 1e3

    def decode_s(self, decodes: int, kv: int) -> float:
        """Decode attention of `decodes` requests with `kv` tokens each."""
        ops = self._engine.evaluate_generation_ops([self._generation], batch_size=decodes, s=kv)
        return float(sum(op[1] for op in ops)) / 1e3

    def prefill_rest_s(self, tokens: int) -> float:
        """Everything but attention in a pass with prefill."""
        return self.step_s(1, tokens, 0, 0, 0) - self.context_s(1, tokens, 0)

    def decode_rest_s(self, decodes: int) -> float:
        """Everything but attention in a pass of decodes alone."""
        return self.step_s(0, 0, 0, decodes, decodes * 1024) - self.decode_s(decodes, 1024)


def knots(values: NDArray[np.float64], error: float) -> NDArray[np.int64]:
    """Fewest-first positions whose linear interpolation stays within the relative `error` (Douglas and Peucker)."""
    kept = {0, len(values) - 1}
    spans = [(0, len(values) - 1)]
    while spans:
        a, b = spans.pop()
        if b - a < 2:  # noqa: PLR2004 - neighbours have nothing between them
            continue
        inside = np.arange(a + 1, b)
        line = values[a] + (values[b] - values[a]) * (inside - a) / (b - a)
        off = np.abs(line - values[inside]) / values[inside]
        worst = int(np.argmax(off))
        if off[worst] > error:
            kept.add(a + 1 + worst)
            spans += [(a, a + 1 + worst), (a + 1 + worst, b)]
    return np.array(sorted(kept))


def curve(of: Callable[[int], float], most: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A function of a whole number, sampled at every one up to `most` and thinned to knots."""
    values = np.array([of(n) for n in range(1, most + 1)])
    at = knots(values, KNOT_ERROR)
    return (at + 1).astype(np.float32), values[at].astype(np.float32)


def sample(live: Live) -> dict[str, NDArray[np.float32]]:
    """The arrays of one table."""
    tokens, tokens_s = curve(live.prefill_rest_s, TOKENS_MAX)
    decodes, decodes_s = curve(live.decode_rest_s, DECODES_MAX)
    context = [[[live.context_s(p, n, c) for c in CACHED] for n in NEW] for p in PREFILLS]
    attention = [[live.decode_s(d, kv) for kv in KV] for d in DECODES]
    return {
        "tokens": tokens,
        "tokens_s": tokens_s,
        "decodes": decodes,
        "decodes_s": decodes_s,
        "context_s": np.array(context, dtype=np.float32),
        "attention_s": np.array(attention, dtype=np.float32),
    }


def held_out(rng: random.Random) -> tuple[int, int, int, int, int]:
    """A random iteration: mixed, prefill alone or decode alone, as schedulers make them."""
    kind = rng.choice(("mixed", "prefill", "decode"))
    prefills = 0 if kind == "decode" else rng.choice((1, 1, 1, 2, 3, 4, 5, 8))
    new = prefills * round(2 ** rng.uniform(5, 13) / max(prefills, 1))
    cached = prefills * round(rng.choice((0.0, 1.0)) * 2 ** rng.uniform(6, 15))
    decodes = 0 if kind == "prefill" else round(2 ** rng.uniform(0, 8.5))
    return prefills, new, cached, decodes, decodes * round(2 ** rng.uniform(6, 15))


def interpolation_error(live: Live, table: KernelTable, seed: int, n: int = 400) -> list[float]:
    """The relative error of the shipped table against the live model on `n` held-out shapes."""
    rng = random.Random(seed)  # noqa: S311 - a sample, not a secret
    shapes = [held_out(rng) for _ in range(n)]
    return [abs(table.step_s(*shape) / live.step_s(*shape) - 1) for shape in shapes]


def kv_pool(device: str, tables: Tables, tp: int) -> dict[str, Any]:
    """What the origin says of the KV pool. Raises ValueError where the model leaves no room for one."""
    found: dict[str, Any] = estimate_kv_cache(
        MODEL,
        device,
        tables.name,
        tables.version,
        max_num_tokens=8192,
        max_batch_size=256,
        memory_fraction_kind=tables.kind,
        memory_fraction_value=tables.fraction,
        tp_size=tp,
    )
    return found


def kv_tokens(device: str, tables: Tables, tp: int) -> int | None:
    """The tokens that fit the KV pool; None where the model leaves no room for one."""
    try:
        return int(kv_pool(device, tables, tp)["total_kv_size_tokens"])
    except ValueError as error:
        if "budget" not in str(error):
            raise
        return None


def no_room() -> list[dict[str, Any]]:
    """The sizes at which the model leaves no room for a KV pool."""
    return [
        {"device": device, "tables_name": tables.name, "tp": tp, "memory_fraction": tables.fraction}
        for device in DEVICES
        for tables in ENGINES
        for tp in SIZES
        if kv_tokens(device, tables, tp) is None
    ]


def device_bytes() -> dict[str, int]:
    """The memory of one device, as the origin has it."""
    return {device: int(kv_pool(device, ENGINES[0], max(SIZES))["total_gpu_capacity_bytes"]) for device in DEVICES}


def origin_hash() -> str:
    """The SHA-256 of the origin's RECORD, which lists the hash of every file in its wheel."""
    files = importlib.metadata.files(ORIGIN) or []
    record = next(file for file in files if file.name == "RECORD")
    # Compiled caches are written at install time and differ between machines.
    lines = [line for line in record.read_text().splitlines() if "aiconfigurator_core/" in line and ".pyc," not in line]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def write_npz(arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    """A compressed .npz whose bytes depend on the arrays alone (numpy's own carries the time of day)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(arrays):
            buffer = io.BytesIO()
            np.save(buffer, arrays[name])
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0)), buffer.getvalue())


def axes() -> dict[str, NDArray[np.float32]]:
    """The grid that all tables share."""
    named = {"prefills": PREFILLS, "new": NEW, "cached": CACHED, "decode_counts": DECODES, "kv": KV}
    return {f"axis/{name}": np.array(points, dtype=np.float32) for name, points in named.items()}


def build(out: Path) -> None:
    """Samples every table, measures its error, and writes both files."""
    arrays: dict[str, NDArray[Any]] = axes()
    rows: list[dict[str, Any]] = []
    every: list[float] = []
    for device in DEVICES:
        for tables in ENGINES:
            for tp in SIZES:
                tokens = kv_tokens(device, tables, tp)
                if tokens is None:
                    print(f"{device} {tables.name} TP{tp}: no room for a KV pool", flush=True)
                    continue
                live = Live(device, tables, tp)
                key = f"{device}/{tables.name}/{tp}"
                mine = sample(live)
                arrays |= {f"{key}/{name}": array for name, array in mine.items()}
                table = KernelTable.of_arrays({**axes(), **arrays}, key, kv_tokens=tokens)
                errors = interpolation_error(live, table, seed=len(rows))
                every += errors
                rows.append(describe(device, tables, tp, tokens, errors))
                print(key, tokens, rows[-1]["error_median"], rows[-1]["error_p95"], len(mine["tokens"]), flush=True)
    npz = out / f"{STEM}.npz"
    write_npz(arrays, npz)
    (out / f"{STEM}.json").write_text(json.dumps(manifest(npz, rows, every), indent=1) + "\n")
    print("all", len(every), *quantiles(every), npz.stat().st_size, "bytes")


def quantiles(errors: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile, to a hundredth of a per cent."""
    return round(float(np.median(errors)), 4), round(float(np.quantile(errors, 0.95)), 4)


def describe(device: str, tables: Tables, tp: int, tokens: int, errors: Sequence[float]) -> dict[str, Any]:
    """One table's row in the manifest."""
    median, p95 = quantiles(errors)
    return {
        "device": device,
        "tables_name": tables.name,
        "tables_version": tables.version,
        "tp": tp,
        "kv_tokens": tokens,
        "memory_fraction": tables.fraction,
        "memory_fraction_kind": tables.kind,
        "error_median": median,
        "error_p95": p95,
    }


def manifest(npz: Path, rows: list[dict[str, Any]], every: Sequence[float]) -> dict[str, Any]:
    """What the arrays are, where they come from, under which licence, and how they were changed."""
    median, p95 = quantiles(every)
    return {
        "model": MODEL,
        "parameters": PARAMETERS,
        "weights": "fp8",
        "aliases": list(ALIASES),
        "unit": "seconds per iteration, GPU operations only",
        "origin": ORIGIN,
        "origin_version": ORIGIN_VERSION,
        "origin_sha256": origin_hash(),
        "copyright": "NVIDIA CORPORATION & AFFILIATES",
        "licence": "Apache-2.0",
        "modified": "modified: sampled through its forward-pass model and re-gridded by scripts/build_tables.py",
        "made_on": MADE_ON,
        "file": npz.name,
        "file_sha256": hashlib.sha256(npz.read_bytes()).hexdigest(),
        "held_out_shapes": len(every),
        "error_median": median,
        "error_p95": p95,
        "device_bytes": device_bytes(),
        "no_room": no_room(),
        "tables": rows,
    }


def main() -> None:
    """Refuses any other version of the origin, then builds into the folder given."""
    found = importlib.metadata.version(ORIGIN)
    if found != ORIGIN_VERSION:
        raise SystemExit(f"{ORIGIN} {found} is installed; these tables are made from {ORIGIN_VERSION} only")
    if len(sys.argv) != 2:  # noqa: PLR2004 - the script and its one argument
        raise SystemExit("usage: build_tables.py FOLDER")
    # The model's configuration is in the wheel: nothing is to be fetched. It is read when a model is built.
    os.environ["HF_HUB_OFFLINE"] = "1"
    build(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
