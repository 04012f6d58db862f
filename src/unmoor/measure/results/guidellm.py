"""The JSON file of GuideLLM. Keys as of 0.8.1 (`metadata.version` 2), read 2026-12-01.

Its `inter_token_latency_ms` is what the house calls TPOT; its `time_per_output_token_ms` has the first token in it and
is left out. Requests that failed are in lists of their own. It has no gap between two chunks.
"""

from __future__ import annotations

import msgspec

from unmoor.core.record import Outcome
from unmoor.measure.results.open_file import Content
from unmoor.measure.results.run import E2E, TPOT, TTFT, Load, Request, Run, Stated

MARKS = frozenset({"benchmarks", "metadata"})
_MS = 1000
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}

Number = float | None


class _Metadata(msgspec.Struct, frozen=True):
    guidellm_version: str | None = None


class _Summary(msgspec.Struct, frozen=True):
    mean: Number = None
    count: int | None = None
    percentiles: dict[str, Number] | None = None


class _Parted(msgspec.Struct, frozen=True):
    successful: _Summary | None = None


class _Totals(msgspec.Struct, frozen=True):
    successful: int = 0
    errored: int = 0
    incomplete: int = 0


class _Metrics(msgspec.Struct, frozen=True):
    request_totals: _Totals
    requests_per_second: _Parted | None = None
    request_latency: _Parted | None = None
    time_to_first_token_ms: _Parted | None = None
    inter_token_latency_ms: _Parted | None = None
    request_goodput: Number = None


class _Strategy(msgspec.Struct, frozen=True):
    type_: str | None = None
    rate: Number = None
    max_concurrency: int | None = None
    streams: int | None = None


class _Backend(msgspec.Struct, frozen=True):
    model: str | None = None
    request_format: str | None = None


class _Config(msgspec.Struct, frozen=True):
    strategy: _Strategy = _Strategy()
    backend: _Backend = _Backend()


class _Timings(msgspec.Struct, frozen=True):
    targeted_start: Number = None
    request_start: Number = None
    last_token_iteration: Number = None
    resolve_start: Number = None


class _Info(msgspec.Struct, frozen=True):
    timings: _Timings = _Timings()


class _Row(msgspec.Struct, frozen=True):
    info: _Info = _Info()
    request_latency: Number = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    time_to_first_token_ms: Number = None


class _Rows(msgspec.Struct, frozen=True):
    successful: list[_Row] | None = None
    errored: list[_Row] | None = None
    incomplete: list[_Row] | None = None


class _Benchmark(msgspec.Struct, frozen=True):
    metrics: _Metrics
    config: _Config = _Config()
    requests: _Rows = _Rows()
    duration: Number = None


class _File(msgspec.Struct, frozen=True):
    benchmarks: list[_Benchmark]
    metadata: _Metadata = _Metadata()


def read(content: Content) -> tuple[Run, ...]:
    """The runs of the file, one a benchmark. Raises UsageError, naming the key."""
    file = content.documents[0].read(_File)
    several = len(file.benchmarks) > 1
    return tuple(_run(one, f"benchmarks[{place}]" if several else "") for place, one in enumerate(file.benchmarks))


def version(content: Content) -> str | None:
    """The version of GuideLLM that wrote it; None where it does not say."""
    return content.documents[0].read(_File).metadata.guidellm_version


def _run(benchmark: _Benchmark, place: str) -> Run:
    totals, strategy, metrics = benchmark.metrics.request_totals, benchmark.config.strategy, benchmark.metrics
    requests = _requests(benchmark.requests)
    tokens = [request.output_tokens for request in requests if request.ok]
    throughput = metrics.requests_per_second
    return Run(
        place=place,
        model=benchmark.config.backend.model,
        endpoint=benchmark.config.backend.request_format,
        load=Load(
            requests=totals.successful + totals.errored + totals.incomplete,
            requested_rps=strategy.rate,
            all_at_once=strategy.type_ == "throughput",
            gap_cv=0.0 if strategy.type_ == "constant" else None,
            concurrency=_cap(strategy),
        ),
        completed=totals.successful,
        failed=totals.errored + totals.incomplete,
        duration_s=benchmark.duration,
        output_tokens=sum(known) if len(known := [one for one in tokens if one is not None]) == len(tokens) else None,
        request_tput_rps=throughput.successful.mean if throughput and throughput.successful else None,
        goodput_rps=metrics.request_goodput,
        stated=_stated(metrics),
        interpolated=False,
        requests=requests,
    )


def _cap(strategy: _Strategy) -> int | None:
    """The cap on requests in flight of a strategy that waits for answers; a rate's own limit of workers is none."""
    if strategy.type_ == "synchronous":
        return 1
    return strategy.max_concurrency or strategy.streams if strategy.type_ in {"concurrent", "throughput"} else None


def _stated(metrics: _Metrics) -> dict[str, Stated]:
    parts = (
        (TTFT, metrics.time_to_first_token_ms, _MS),
        (TPOT, metrics.inter_token_latency_ms, _MS),
        (E2E, metrics.request_latency, 1),
    )
    found = {}
    for name, part, scale in parts:
        if part is not None and (summary := part.successful) is not None and summary.count:
            shares = {_QUANTILES[key]: value for key, value in (summary.percentiles or {}).items() if key in _QUANTILES}
            known = {share: value / scale for share, value in shares.items() if value is not None}
            found[name] = Stated(mean=None if summary.mean is None else summary.mean / scale, quantiles=known)
    return found


def _requests(rows: _Rows) -> tuple[Request, ...]:
    return (
        *(_request(row, Outcome.OK) for row in rows.successful or ()),
        *(_request(row, Outcome.STREAM_ERROR) for row in rows.errored or ()),
        *(_request(row, Outcome.CANCELLED) for row in rows.incomplete or ()),
    )


def _request(row: _Row, outcome: Outcome) -> Request:
    ok, timings = outcome is Outcome.OK, row.info.timings
    last, sent = timings.last_token_iteration, timings.request_start
    return Request(
        ok=ok,
        outcome=outcome,
        due_at_s=timings.targeted_start,
        sent_at_s=sent if sent is not None else timings.resolve_start,
        ttft_s=row.time_to_first_token_ms / _MS if ok and row.time_to_first_token_ms is not None else None,
        e2e_s=row.request_latency if ok else None,
        last_token_s=last - sent if ok and last is not None and sent is not None else None,
        input_tokens=row.prompt_tokens,
        output_tokens=row.output_tokens if ok else None,
        cached_tokens=row.cached_tokens,
    )
