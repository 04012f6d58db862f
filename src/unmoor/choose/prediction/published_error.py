"""How wrong the prediction was where somebody measured: statistics only, written by benchmarks/prediction_error.py."""

from __future__ import annotations

import functools
import importlib.resources

import msgspec

_FILE = importlib.resources.files("unmoor.choose.prediction") / "tables" / "prediction_error.json"


class ErrorStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Relative errors, predicted / measured - 1, over `n` rows.

    `mape` is their mean size, `bias` their mean, `p90` the size that 90 % of rows stay within; `p5`, `median` and `p95`
    are quantiles of the errors with their signs.
    """

    n: int
    mape: float
    bias: float
    p90: float
    p5: float
    median: float
    p95: float


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """What measured iteration times were, as multiples of predicted ones: 90 % of rows lie from `fast` to `slow`.

    `mid` is the median. None of them need hold 1: where every row was slower than predicted the whole band is.
    """

    fast: float
    mid: float
    slow: float


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The errors on one device, with one engine's tables, at one shape of requests."""

    device: str
    tables_name: str
    input_tokens: int
    output_tokens: int
    tpot: ErrorStatistics
    ttft: ErrorStatistics
    output_tput: ErrorStatistics


class EngineError(msgspec.Struct, frozen=True, kw_only=True):
    """The errors on one device, with one engine's tables, over all shapes."""

    device: str
    tables_name: str
    tpot: ErrorStatistics
    ttft: ErrorStatistics
    output_tput: ErrorStatistics


class LayoutChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Picking, by prediction, the layout and concurrency with the most throughput per GPU under a TPOT limit.

    Of `choices`, `right` have the tensor-parallel size of the measured best; in `limit_broken` the pick breaks the
    limit when measured; the others lose a share (0-1) of the measured best's throughput.
    """

    tpot_limits_s: tuple[float, ...]
    choices: int
    right: int
    limit_broken: int
    regret_mean: float
    regret_worst: float


class PredictionError(msgspec.Struct, frozen=True, kw_only=True):
    """The whole record. `rows_saturated` ran out of KV memory in simulation and are counted apart."""

    made_on: str
    machine: str
    versions: dict[str, str]
    model: str
    weights: str
    source: str
    method: str
    rows: int
    rows_without_table: int
    rows_saturated: int
    tpot: ErrorStatistics
    ttft: ErrorStatistics
    output_tput: ErrorStatistics
    saturated_ttft: ErrorStatistics
    layout_choice: LayoutChoice
    engines: tuple[EngineError, ...]
    groups: tuple[ErrorGroup, ...]

    def engine(self, device: str, tables_name: str) -> EngineError | None:
        """The errors of one engine's tables on one device; None where nobody measured."""
        return next((e for e in self.engines if (e.device, e.tables_name) == (device, tables_name)), None)

    def rows_for(self, device: str, tables_name: str) -> int:
        """Measured rows below KV saturation for one engine's tables on one device."""
        found = self.engine(device, tables_name)
        return found.tpot.n if found else 0

    def bias(self, device: str, tables_name: str) -> float:
        """The mean error of TPOT there; the mean of all rows where none is known."""
        found = self.engine(device, tables_name)
        return (found.tpot if found else self.tpot).bias

    def band(self, device: str, tables_name: str) -> Band:
        """The band of iteration times: the errors of TPOT there, and the widest of all engines' where none is known."""
        found = self.engine(device, tables_name)
        if found:
            return _band(found.tpot)
        bands = [_band(engine.tpot) for engine in self.engines]
        return Band(
            fast=min(band.fast for band in bands), mid=_band(self.tpot).mid, slow=max(band.slow for band in bands)
        )


def _band(errors: ErrorStatistics) -> Band:
    """Errors are predicted / measured - 1, and a band is measured / predicted."""
    return Band(fast=1 / (1 + errors.p95), mid=1 / (1 + errors.median), slow=1 / (1 + errors.p5))


@functools.cache
def shipped_error() -> PredictionError:
    """The record that ships with the tables."""
    return msgspec.json.decode(_FILE.read_bytes(), type=PredictionError)
