"""How long one iteration takes on a GPU: the tables that ship, and interpolation in them."""

from __future__ import annotations

import functools
import importlib.resources
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

_TABLES = importlib.resources.files("unmoor.choose.prediction") / "tables"
_MANIFEST = "llama-3.1-70b-fp8.json"


class TableOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a table comes from: who measured, which model and engine's version, when it was sampled (ISO date)."""

    source: str
    model: str
    tables_name: str
    tables_version: str
    as_of: str


class StepTable(Protocol):
    """What the simulation needs to know of one replica's hardware."""

    @property
    def kv_tokens(self) -> int:
        """Tokens that fit the KV pool."""

    @property
    def origin(self) -> TableOrigin:
        """Where the times come from."""

    def step_s(
        self, prefills: int, new_tokens: int, cached_tokens: int, decodes: int, decode_kv_tokens: float
    ) -> float:
        """Seconds of one iteration; token counts are sums over the requests of their kind.

        `cached_tokens` are those of the prefills that are in the KV pool already: a cached prefix, earlier chunks.
        """


class NoTable(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no table: the code of the caveat it becomes, and one sentence.

    "does_not_fit": the model is known to leave no room for a KV pool at this size. "weights_differ": the times would be
    those of other weights. "no_kernel_table": nobody's times are at hand. `extra_asked` is whether the `predict` extra
    was asked too.
    """

    code: Literal["no_kernel_table", "does_not_fit", "weights_differ"]
    text: str
    extra_asked: bool = False


TableFinder = Callable[[str, str, str, str, int], StepTable | NoTable]
"""(model, weights, device, tables_name, tp) to its table, or to the reason why there is none."""


def no_room(device: str, tp: int, fraction: float) -> NoTable:
    """That a KV pool has no room beside the weights in `fraction` of the memory of `tp` devices."""
    text = f"within {fraction:.0%} of the memory of {tp} × {device} the weights leave no room for a KV pool"
    return NoTable(code="does_not_fit", text=text)


class TableRow(msgspec.Struct, frozen=True, kw_only=True):
    """One table of the manifest."""

    device: str
    tables_name: str
    tables_version: str
    tp: int
    kv_tokens: int
    memory_fraction: float
    memory_fraction_kind: str
    error_median: float
    error_p95: float


class NoRoom(msgspec.Struct, frozen=True, kw_only=True):
    """A size at which the origin finds no room for a KV pool, in `memory_fraction` of the devices' memory."""

    device: str
    tables_name: str
    tp: int
    memory_fraction: float


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What ships, where it comes from and how it was changed; `error_*` is interpolation against the live model.

    `device_bytes` is the memory of one device, and `no_room` names the sizes that were left out for want of it.
    """

    model: str
    parameters: int
    weights: str
    aliases: tuple[str, ...]
    unit: str
    origin: str
    origin_version: str
    origin_sha256: str
    copyright: str
    licence: str
    modified: str
    made_on: str
    file: str
    file_sha256: str
    held_out_shapes: int
    error_median: float
    error_p95: float
    device_bytes: dict[str, int]
    no_room: tuple[NoRoom, ...]
    tables: tuple[TableRow, ...]


class _Curve:
    """A function of one number, linear between knots and beyond the last two."""

    __slots__ = ("_at", "_value")

    def __init__(self, at: NDArray[np.float32], value: NDArray[np.float32]) -> None:
        self._at: list[float] = at.tolist()
        self._value: list[float] = value.tolist()

    def __call__(self, x: float) -> float:
        at, value = self._at, self._value
        i = bisect_right(at, x, 1, len(at) - 1) - 1  # the cell, the first and last also for what is beyond
        return value[i] + (value[i + 1] - value[i]) * (x - at[i]) / (at[i + 1] - at[i])


class _Surface:
    """A function of two numbers, bilinear in its cells and beyond the outer ones."""

    __slots__ = ("_columns", "_rows", "_value")

    def __init__(self, rows: NDArray[np.float32], columns: NDArray[np.float32], value: NDArray[np.float32]) -> None:
        self._rows: list[float] = rows.tolist()
        self._columns: list[float] = columns.tolist()
        self._value: list[list[float]] = value.tolist()

    def __call__(self, x: float, y: float) -> float:
        rows, columns = self._rows, self._columns
        i = bisect_right(rows, x, 1, len(rows) - 1) - 1
        j = bisect_right(columns, y, 1, len(columns) - 1) - 1
        u = (x - rows[i]) / (rows[i + 1] - rows[i])
        v = (y - columns[j]) / (columns[j + 1] - columns[j])
        here, below = self._value[i], self._value[i + 1]
        left = here[j] + u * (below[j] - here[j])
        right = here[j + 1] + u * (below[j + 1] - here[j + 1])
        return left + v * (right - left)


_NO_ORIGIN = TableOrigin(source="", model="", tables_name="", tables_version="", as_of="")


class KernelTable:
    """One (device, engine, TP) of the shipped tables."""

    def __init__(
        self, parts: Mapping[str, NDArray[np.float32]], *, kv_tokens: int, origin: TableOrigin = _NO_ORIGIN
    ) -> None:
        self.kv_tokens = kv_tokens
        self.origin = origin
        self._prefill_rest = _Curve(parts["tokens"], parts["tokens_s"])
        self._decode_rest = _Curve(parts["decodes"], parts["decodes_s"])
        self._prefills: list[float] = parts["axis/prefills"].tolist()
        self._context = [_Surface(parts["axis/new"], parts["axis/cached"], layer) for layer in parts["context_s"]]
        self._attention = _Surface(parts["axis/decode_counts"], parts["axis/kv"], parts["attention_s"])

    @classmethod
    def of_arrays(
        cls, arrays: Mapping[str, Any], key: str, *, kv_tokens: int, origin: TableOrigin = _NO_ORIGIN
    ) -> KernelTable:
        """The table under `key` ("device/engine/tp") in arrays as the file holds them."""
        axes = ("axis/prefills", "axis/new", "axis/cached", "axis/decode_counts", "axis/kv")
        names = ("tokens", "tokens_s", "decodes", "decodes_s", "context_s", "attention_s")
        parts = {name: arrays[name] for name in axes} | {name: arrays[f"{key}/{name}"] for name in names}
        return cls(parts, kv_tokens=kv_tokens, origin=origin)

    def step_s(
        self, prefills: int, new_tokens: int, cached_tokens: int, decodes: int, decode_kv_tokens: float
    ) -> float:
        """Seconds of one iteration (see `StepTable`); 0.0 for an empty one.

        The live model takes the mean shape of the prefills and the mean KV of the decodes, and so does this.
        """
        attention = self._attention(decodes, decode_kv_tokens / decodes) if decodes else 0.0
        if not prefills:
            return self._decode_rest(decodes) + attention if decodes else 0.0
        return (
            self._prefill_rest(new_tokens + decodes)
            + self._context_s(prefills, new_tokens / prefills, cached_tokens / prefills)
            + attention
        )

    def _context_s(self, prefills: int, new: float, cached: float) -> float:
        at = self._prefills
        i = bisect_right(at, prefills, 1, len(at) - 1) - 1
        here = self._context[i](new, cached)
        if at[i] == prefills:
            return here
        return here + (self._context[i + 1](new, cached) - here) * (prefills - at[i]) / (at[i + 1] - at[i])


@functools.cache
def shipped_manifest() -> Manifest:
    """The manifest of the tables that ship."""
    return msgspec.json.decode((_TABLES / _MANIFEST).read_bytes(), type=Manifest)


_BYTES_PER_WEIGHT = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1, "int8": 1}


@functools.cache
def find_table(model: str, weights: str, device: str, tables_name: str, tp: int) -> KernelTable | NoTable:
    """The shipped table for a model (any alias, with or without its publisher), or the reason why none ships."""
    manifest = shipped_manifest()
    known = {name.lower() for name in (manifest.model, manifest.model.rpartition("/")[2], *manifest.aliases)}
    if model.rpartition("/")[2].lower() not in known:
        return NoTable(code="no_kernel_table", text=f"no kernel table of {model} ships")
    if weights.lower() != manifest.weights:
        return _other_weights(manifest, weights, device, tp)
    row = next((r for r in manifest.tables if (r.device, r.tables_name, r.tp) == (device, tables_name, tp)), None)
    if row is None:
        full = next((r for r in manifest.no_room if (r.device, r.tables_name, r.tp) == (device, tables_name, tp)), None)
        return no_room(device, tp, full.memory_fraction) if full else _not_on(device)
    origin = TableOrigin(
        source=f"{manifest.origin} {manifest.origin_version}, tables of {row.tables_name} {row.tables_version}",
        model=manifest.model,
        tables_name=row.tables_name,
        tables_version=row.tables_version,
        as_of=manifest.made_on,
    )
    with (_TABLES / manifest.file).open("rb") as file, np.load(file) as arrays:
        return KernelTable.of_arrays(arrays, f"{device}/{tables_name}/{tp}", kv_tokens=row.kv_tokens, origin=origin)


def _not_on(device: str) -> NoTable:
    return NoTable(code="no_kernel_table", text=f"no kernel table of this engine and model on {device} ships")


def _other_weights(manifest: Manifest, weights: str, device: str, tp: int) -> NoTable:
    """What is known of the shipped model at other weights: whether they alone are more than the memory."""
    need = manifest.parameters * _BYTES_PER_WEIGHT.get(weights.lower(), 0)
    have = manifest.device_bytes.get(device, 0) * tp
    if have and need > have:
        text = f"the weights alone are {need / 1e9:.0f} GB at {weights}, more than the {have / 1e9:.0f} GB of "
        return NoTable(code="does_not_fit", text=f"{text}{tp} × {device}")
    return NoTable(code="no_kernel_table", text=f"the tables that ship are of {manifest.weights} weights")
