"""Runs our prediction against the measured rows inside aiconfigurator-core's wheel, and publishes the errors only.

    python benchmarks/prediction_error.py

needs aiconfigurator-core 0.12.0 beside unmoor. The rows stay where they are; what is written is error statistics:
benchmarks/prediction_error.json and .md, and prediction/tables/prediction_error.json, which the band is read from.

The rows are closed-loop runs of random prompts at a fixed concurrency. With `max_running` at that concurrency and all
requests waiting, a request is admitted exactly when a slot falls free: a closed loop, whose arrivals are the ends.
"""

from __future__ import annotations

import csv
import datetime as dt
import importlib.metadata
import importlib.resources
import itertools
import platform
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from unmoor.choose.prediction.kernel_tables import NoTable, find_table, shipped_manifest
from unmoor.choose.prediction.published_error import (
    EngineError,
    ErrorGroup,
    ErrorStatistics,
    LayoutChoice,
    PredictionError,
)
from unmoor.choose.prediction.simulate import simulate
from unmoor.core.traffic import Request
from unmoor.engines.contract import SchedulerModel

ROOT = Path(__file__).parent.parent
ORIGIN = "aiconfigurator-core"
ORIGIN_VERSION = "0.12.0"
MODEL = "meta-llama/Llama-3.1-70B"
PER_SLOT = 10
TPOT_LIMITS_S = (0.015, 0.02, 0.03, 0.05)
METHOD = (
    "closed loop at each row's concurrency, 10 requests per slot, lengths uniform in 0.8 to 1 times nominal, seed 0; "
    "8192 tokens per batch, 16-token blocks (32 and reserved answers where the engine never evicts), chunked prefill; "
    "means against the rows' values; throughput is concurrency x answer / (TTFT + TPOT x (answer - 1)) on both sides; "
    "nothing fitted: the errors are those of the prediction before its band corrects it"
)


class Row(NamedTuple):
    """One measured run."""

    device: str
    tables_name: str
    tp: int
    input_tokens: int
    output_tokens: int
    concurrency: int
    ttft_s: float
    tpot_s: float


class Result(NamedTuple):
    """A row and what was predicted for it."""

    row: Row
    ttft_s: float
    tpot_s: float
    saturated: bool


def measured_rows() -> Iterator[Row]:
    """The FP8 rows of the model, aggregated serving, tensor parallel alone."""
    path = importlib.resources.files("aiconfigurator_core") / "systems" / "silicon_sample.csv"
    with path.open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if (line["model_path"], line["precision"], line["mode"]) != (MODEL, "fp8", "agg"):
                continue
            yield Row(
                device=line["system"],
                tables_name=line["backend"],
                tp=int(float(line["tp_size"])),
                input_tokens=int(line["isl"]),
                output_tokens=int(line["osl"]),
                concurrency=int(float(line["batch_size"])),
                ttft_s=float(line["silicon_ttft_ms"]) / 1e3,
                tpot_s=float(line["silicon_tpot_ms"]) / 1e3,
            )


def scheduler_of(row: Row) -> SchedulerModel:
    """The scheduler of the row's engine; the flags of those runs are not known, so these are its usual ones."""
    never_evicts = row.tables_name == "trtllm"
    return SchedulerModel(
        policy="mixed",
        max_running=row.concurrency,
        max_batch_tokens=8192,
        kv_block_tokens=32 if never_evicts else 16,
        prefix_caching=False,
        reserve_output=never_evicts,
    )


def predict(row: Row) -> Result | None:
    """Our prediction of a row; None where no table ships for it."""
    table = find_table(MODEL, "fp8", row.device, row.tables_name, row.tp)
    if isinstance(table, NoTable):
        return None
    rng = random.Random(0)  # noqa: S311 - lengths, not secrets
    requests = [
        Request(
            arrival_s=0.0,
            input_tokens=round(row.input_tokens * rng.uniform(0.8, 1)),
            output_tokens=round(row.output_tokens * rng.uniform(0.8, 1)),
        )
        for _ in range(PER_SLOT * row.concurrency)
    ]
    outcomes = simulate(requests, table, scheduler_of(row))
    ends = np.sort(outcomes.end_s)
    arrivals = np.concatenate([np.zeros(row.concurrency), ends[: -row.concurrency]])
    ttft = float(np.mean(np.sort(outcomes.first_token_s) - arrivals))
    return Result(row, ttft, float(np.nanmean(outcomes.tpot_s)), outcomes.saturated)


def tput(row: Row, ttft_s: float, tpot_s: float) -> float:
    """Output tokens per second that a closed loop gives with these latencies."""
    answer = 0.9 * row.output_tokens
    return row.concurrency * answer / (ttft_s + tpot_s * (answer - 1))


def statistics(errors: Iterable[float]) -> ErrorStatistics:
    """The statistics of relative errors, to a tenth of a per cent."""
    seen = np.array(list(errors))
    size = np.abs(seen)
    return ErrorStatistics(
        n=len(seen),
        mape=round(float(size.mean()), 3),
        bias=round(float(seen.mean()), 3),
        p90=round(float(np.quantile(size, 0.9)), 3),
        p5=round(float(np.quantile(seen, 0.05)), 3),
        median=round(float(np.median(seen)), 3),
        p95=round(float(np.quantile(seen, 0.95)), 3),
    )


def tpot_error(results: Iterable[Result]) -> ErrorStatistics:
    """Errors of mean time per output token."""
    return statistics(r.tpot_s / r.row.tpot_s - 1 for r in results)


def ttft_error(results: Iterable[Result]) -> ErrorStatistics:
    """Errors of mean time to first token."""
    return statistics(r.ttft_s / r.row.ttft_s - 1 for r in results)


def tput_error(results: Iterable[Result]) -> ErrorStatistics:
    """Errors of output throughput."""
    return statistics(tput(r.row, r.ttft_s, r.tpot_s) / tput(r.row, r.row.ttft_s, r.row.tpot_s) - 1 for r in results)


def group(results: Sequence[Result]) -> ErrorGroup:
    """The errors of rows of one device, engine and shape."""
    row = results[0].row
    return ErrorGroup(
        device=row.device,
        tables_name=row.tables_name,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        tpot=tpot_error(results),
        ttft=ttft_error(results),
        output_tput=tput_error(results),
    )


def by_engine(results: Iterable[Result]) -> list[EngineError]:
    """The errors of all rows of one device and engine, one after another."""

    def key(result: Result) -> tuple[str, str]:
        return result.row.device, result.row.tables_name

    return [
        EngineError(
            device=device,
            tables_name=tables_name,
            tpot=tpot_error(rows),
            ttft=ttft_error(rows),
            output_tput=tput_error(rows),
        )
        for (device, tables_name), members in itertools.groupby(sorted(results, key=key), key=key)
        for rows in [list(members)]
    ]


def per_gpu(row: Row, ttft_s: float, tpot_s: float) -> float:
    """Output tokens per second and GPU."""
    return tput(row, ttft_s, tpot_s) / row.tp


def layout_choice(results: Iterable[Result]) -> LayoutChoice:
    """How good the pick by prediction is among all sizes and concurrencies measured, under limits of TPOT."""
    groups: dict[Row, list[Result]] = defaultdict(list)
    for result in results:
        groups[result.row._replace(tp=0, concurrency=0, ttft_s=0, tpot_s=0)].append(result)
    regrets: list[float] = []
    right = broken = 0
    for members, limit in itertools.product(groups.values(), TPOT_LIMITS_S):
        allowed = [r for r in members if r.row.tpot_s <= limit]
        hoped = [r for r in members if r.tpot_s <= limit]
        if len({r.row.tp for r in allowed}) > 1 and hoped:
            best = max(allowed, key=lambda r: per_gpu(r.row, r.row.ttft_s, r.row.tpot_s)).row
            pick = max(hoped, key=lambda r: per_gpu(r.row, r.ttft_s, r.tpot_s)).row
            right += pick.tp == best.tp
            broken += pick.tpot_s > limit
            lost = 1 - per_gpu(pick, pick.ttft_s, pick.tpot_s) / per_gpu(best, best.ttft_s, best.tpot_s)
            regrets += [lost] if pick.tpot_s <= limit else []
    return LayoutChoice(
        tpot_limits_s=TPOT_LIMITS_S,
        choices=len(regrets) + broken,
        right=right,
        limit_broken=broken,
        regret_mean=round(float(np.mean(regrets)), 4),
        regret_worst=round(max(regrets), 4),
    )


def record(results: Sequence[Result], without_table: int) -> PredictionError:
    """The whole record of this run."""
    below = [r for r in results if not r.saturated]
    past = [r for r in results if r.saturated]

    def key(result: Result) -> tuple[str, str, int, int]:
        return result.row.device, result.row.tables_name, result.row.input_tokens, result.row.output_tokens

    groups = itertools.groupby(sorted(below, key=key), key=key)
    return PredictionError(
        made_on=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        machine=f"{platform.system()} {platform.machine()}, no GPU",
        versions={ORIGIN: ORIGIN_VERSION, "python": platform.python_version(), "numpy": np.__version__},
        model=shipped_manifest().model,
        weights="fp8",
        source=f"{ORIGIN} {ORIGIN_VERSION}, silicon_sample.csv, {MODEL} fp8 rows",
        method=METHOD,
        rows=len(results) + without_table,
        rows_without_table=without_table,
        rows_saturated=len(past),
        tpot=tpot_error(below),
        ttft=ttft_error(below),
        output_tput=tput_error(below),
        saturated_ttft=ttft_error(past),
        layout_choice=layout_choice(below),
        engines=tuple(by_engine(below)),
        groups=tuple(group(list(members)) for _, members in groups),
    )


def percent(statistics: ErrorStatistics) -> str:
    """Mean size (bias), p90."""
    return f"{statistics.mape:.1%} ({statistics.bias:+.1%}), {statistics.p90:.1%}"


def factors(found: PredictionError) -> list[str]:
    """The bands that ranges are made of, as a table."""
    bands = [(engine, found.band(engine.device, engine.tables_name)) for engine in found.engines]
    return [
        "## The bands in use",
        "",
        "Iteration times are multiplied by these: measured / predicted TPOT at its 5th percentile, median and 95th",
        "percentile. A band that lies above 1 corrects a prediction that is too fast.",
        "",
        "| device | tables | n | fast end | middle | slow end |",
        "| --- | --- | --- | --- | --- | --- |",
        *(
            f"| {e.device} | {e.tables_name} | {e.tpot.n} | {b.fast:.2f} | {b.mid:.2f} | {b.slow:.2f} |"
            for e, b in bands
        ),
        "",
    ]


def page(found: PredictionError) -> str:
    """The record as a page."""
    choice = found.layout_choice
    lines = [
        "# How wrong the prediction is",
        "",
        f"Made {found.made_on} on {found.machine}, by `benchmarks/prediction_error.py`; "
        + ", ".join(f"{name} {version}" for name, version in found.versions.items())
        + ".",
        "",
        f"Measured rows: {found.source}: {found.rows}, of which {found.rows_without_table} have no table of ours and",
        f"{found.rows_saturated} run out of KV memory in simulation and are counted apart.",
        "The rows are others' and are not copied here; the versions of the engines they ran are not recorded in them.",
        "",
        f"Method: {found.method}.",
        "",
        "Each cell: mean absolute error (bias), 90th percentile.",
        "",
        "| device | tables | input/output tokens | n | TPOT | TTFT | output throughput |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {g.device} | {g.tables_name} | {g.input_tokens}/{g.output_tokens} | {g.tpot.n} | {percent(g.tpot)} "
        f"| {percent(g.ttft)} | {percent(g.output_tput)} |"
        for g in found.groups
    ]
    lines += [
        f"| **{e.device}** | **{e.tables_name}** | all | {e.tpot.n} | {percent(e.tpot)} | {percent(e.ttft)} "
        f"| {percent(e.output_tput)} |"
        for e in found.engines
    ]
    everything = f"{percent(found.tpot)} | {percent(found.ttft)} | {percent(found.output_tput)}"
    lines += [f"| **all** | **all** | all | {found.tpot.n} | {everything} |", ""]
    limits = ", ".join(f"{limit * 1e3:g}" for limit in choice.tpot_limits_s)
    past = found.saturated_ttft
    worst = max(found.engines, key=lambda e: abs(e.tpot.bias))
    lines += [
        f"Choice of layout and concurrency with the most throughput per GPU under a mean TPOT of {limits} ms: the",
        f"predicted best has the measured best's tensor-parallel size in {choice.right} of {choice.choices} choices;",
        f"in {choice.limit_broken} the pick breaks the limit when measured (by what the band covers); in the others",
        f"{choice.regret_mean:.1%} of throughput is lost on average, {choice.regret_worst:.0%} at worst.",
        "",
        *factors(found),
        "## What is bad",
        "",
        "- TTFT of short prompts is far too low: host work (tokenizing, HTTP, scheduling) is in no kernel table.",
        f"- Past KV saturation ({past.n} rows) mean TTFT is off by {past.mape:.0%} (p90 {past.p90:.0%}).",
        f"- TPOT leans one way with {worst.tables_name} on {worst.device}: {worst.tpot.bias:+.0%} on average.",
        "- These are means of closed loops on random prompts of one dense model. No p95, no open loop, no shared",
        "  prefix and no SGLang row of this model was found, so nothing is known of the error there.",
        "- The tables lag the engines' releases, and the rows are older still.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Predicts every row and writes the three files."""
    found = importlib.metadata.version(ORIGIN)
    if found != ORIGIN_VERSION:
        raise SystemExit(f"{ORIGIN} {found} is installed; the record is made against {ORIGIN_VERSION} only")
    predictions = [predict(row) for row in measured_rows()]
    results = [result for result in predictions if result is not None]
    error = record(results, without_table=len(predictions) - len(results))
    text = msgspec.json.format(msgspec.json.encode(error), indent=1).decode() + "\n"
    for path in ("benchmarks/prediction_error.json", "src/unmoor/choose/prediction/tables/prediction_error.json"):
        (ROOT / path).write_text(text)
    (ROOT / "benchmarks/prediction_error.md").write_text(page(error))
    print(page(error))


if __name__ == "__main__":
    main()
