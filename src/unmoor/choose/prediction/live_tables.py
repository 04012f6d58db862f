"""Iteration times of any other model, straight from aiconfigurator-core: the only file that imports it, and lazily.

The library downloads the configuration of a model that it does not bundle, whatever HF_HUB_OFFLINE says. So it is asked
only about models it bundles: any other name has no table here, and is never looked up.
"""

from __future__ import annotations

import functools
import importlib.metadata

from unmoor.choose.prediction.kernel_tables import NoTable, StepTable, TableOrigin, find_table, no_room
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
def live_tables(model: str, weights: str, device: str, tables_name: str, tp: int) -> StepTable | NoTable:
    """A `TableFinder`: the shipped table where there is one, and the library's own answer for any other model.

    The library takes the weights' format from the model's own configuration: where that is not the format asked for, or
    cannot be told, there is no table ("weights_differ"). Raises UsageError where the library is not installed.
    """
    shipped = find_table(model, weights, device, tables_name, tp)
    if not isinstance(shipped, NoTable) or shipped.code == "does_not_fit" or tables_name not in _VERSIONS:
        return shipped
    check_installed()
    bundled = _bundled_name(model)
    if bundled is None:
        return _none(f"{ORIGIN} {VERSION} bundles no model of the name {model}")
    own = _own_weights(bundled)
    if own != weights.lower():
        seen = "a format that cannot be told" if own is None else own
        text = f"{ORIGIN} {VERSION} has {bundled} at {seen}, and the plan says {weights}: name a model of these weights"
        return NoTable(code="weights_differ", text=text, extra_asked=True)
    try:
        return LiveTable(bundled, device, tables_name, tp)
    except ValueError as error:  # what the library raises for an unknown device, and for no KV budget
        full = "budget" in str(error)
        return (
            no_room(device, tp, _FRACTION) if full else _none(f"{ORIGIN} {VERSION} has no table of {model} on {device}")
        )


def _none(text: str) -> NoTable:
    return NoTable(code="no_kernel_table", text=text, extra_asked=True)


def _bundled_name(model: str) -> str | None:
    """The name under which the library bundles a model, whatever its case; None where it does not."""
    from aiconfigurator_core.sdk.common import DefaultHFModels  # noqa: PLC0415 - an extra

    return next((name for name in sorted(DefaultHFModels) if name.lower() == model.lower()), None)


# The library's names of formats, and the plan's; a mixture of several, or one packed in tensors, is none of them.
_FORMATS = {"fp8": "fp8", "fp8_block": "fp8", "nvfp4": "nvfp4", "mxfp4": "mxfp4"}
_UNQUANTISED = {"bfloat16": "bf16", "float16": "fp16"}


def _own_weights(model: str) -> str | None:
    """The format of the weights that the library computes with, as a plan writes it; None where it cannot be told."""
    from aiconfigurator_core.sdk.utils import get_model_config_from_model_path  # noqa: PLC0415 - an extra

    config = get_model_config_from_model_path(model)["raw_config"]
    algorithm = config.get("quant_algo")
    if algorithm is not None:
        return _FORMATS.get(algorithm)
    text = config.get("text_config") or {}
    kinds = (found.get(key) for found in (config, text) for key in ("torch_dtype", "dtype"))
    return _UNQUANTISED.get(next((kind for kind in kinds if kind), ""))
