"""Iteration times of any other model, straight from aiconfigurator-core: the only file that imports it, and lazily.

The library looks models up on a hub unless its environment says otherwise. This room touches no environment, so the
command line, at the edge, sets HF_HUB_OFFLINE=1 before it passes `live_tables` on; a name the library does not bundle
is then an error of ours, never a download.
"""

from __future__ import annotations

import functools
import importlib.metadata

from unmoor.choose.prediction.kernel_tables import StepTable, TableOrigin, find_table
from unmoor.core.errors import UsageError, WorldError

ORIGIN = "aiconfigurator-core"
VERSION = "0.12.0"
INSTALL = "pip install 'unmoor[predict]'"
# What the library holds of each engine, and how that engine's default share of memory is meant.
_VERSIONS = {"vllm": ("0.24.0", "of_total"), "sglang": ("0.5.14", "of_total"), "trtllm": ("1.3.0rc20", "of_free")}
_FRACTION = 0.9
_LOOKED_AT = "2026-11-30"  # its tables carry no one date of their own


class LiveTable:
    """One (model, device, engine, TP) answered by the library itself; about 60 microseconds an iteration."""

    def __init__(self, model: str, device: str, tables_name: str, tp: int) -> None:
        from aiconfigurator_core.sdk import RustForwardPassPerfModel, estimate_kv_cache  # noqa: PLC0415 - an extra

        version, kind = _VERSIONS[tables_name]
        pool = estimate_kv_cache(
            model,
            device,
            tables_name,
            version,
            max_num_tokens=8192,
            max_batch_size=256,
            memory_fraction_kind=kind,
            memory_fraction_value=_FRACTION,
            tp_size=tp,
        )
        self.kv_tokens = int(pool["total_kv_size_tokens"])
        self.origin = TableOrigin(
            source=f"{ORIGIN} {VERSION}, live, tables of {tables_name} {version}, weights as the model has them",
            model=model,
            tables_name=tables_name,
            tables_version=version,
            as_of=_LOOKED_AT,
        )
        self._passes = RustForwardPassPerfModel.from_native(
            {
                "schema_version": 1,
                "model_path": model,
                "model_name": model,
                "system": device,
                "system_name": device,
                "backend": tables_name,
                "backend_version": version,
                "tp_size": tp,
                "pp_size": 1,
                "attention_dp_size": 1,
            }
        )

    def step_s(
        self, prefills: int, new_tokens: int, cached_tokens: int, decodes: int, decode_kv_tokens: float
    ) -> float:
        """Seconds of one iteration (see `StepTable`). Raises WorldError for a shape outside the library's tables."""
        scheduled = {
            "num_prefill_requests": prefills,
            "sum_prefill_tokens": new_tokens,
            "sum_prefill_kv_tokens": cached_tokens,
            "num_decode_requests": decodes,
            "sum_decode_kv_tokens": round(decode_kv_tokens),
        }
        try:
            return float(self._passes.estimate_forward_pass_time_ms({"scheduled_requests": scheduled})) / 1e3
        except ValueError as error:
            raise WorldError(
                f"{ORIGIN} has no time for an iteration of {self.origin.model}",
                seen=f"{scheduled}: {error}",
                expected="a shape within its tables",
                hint="lower max_batch_tokens or max_running in the candidate's settings",
            ) from None


def check_installed() -> None:
    """Raises UsageError, with the command that installs it, unless the pinned version is here."""
    try:
        found = importlib.metadata.version(ORIGIN)
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found != VERSION:
        raise UsageError(
            f"{ORIGIN} {VERSION} is needed to predict this model",
            seen="not installed" if found is None else f"version {found}",
            expected=VERSION,
            hint=INSTALL,
        )


@functools.cache
def live_tables(model: str, weights: str, device: str, tables_name: str, tp: int) -> StepTable | None:
    """A `TableFinder`: the shipped table where there is one, and the library's own answer for any other model.

    None where the library has no such model, device or engine, or no room for a KV pool at this size. The weights'
    format is the one in the model's own configuration: name a model whose weights are as served.
    Raises UsageError where the library is not installed.
    """
    shipped = find_table(model, weights, device, tables_name, tp)
    if shipped is not None or tables_name not in _VERSIONS:
        return shipped
    check_installed()
    try:
        return LiveTable(model, device, tables_name, tp)
    except ValueError:  # what the library raises for an unknown model or device, and for no KV budget
        return None
