"""AIPerf's two files: `profile_export_aiperf.json`, a summary, and `profile_export.jsonl`, a line a request.

Keys as of 0.13.0 (`schema_version` 1.4), read 2026-12-01. Its `inter_token_latency` is what the house calls TPOT, its
`inter_chunk_latency` the gaps between chunks.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
import numpy as np

from unmoor.core.record import Outcome
from unmoor.measure.results.finding import Finding, Severity
from unmoor.measure.results.open_file import Content
from unmoor.measure.results.run import E2E, ITL, TPOT, TTFT, Load, Request, Run, Stated

MARKS = frozenset({"aiperf_version", "input_config"})
LINE_MARKS = frozenset({"metadata", "metrics"})
_MS, _NS = 1000, 1e9
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}

Number = float | None


class _Metric(msgspec.Struct, frozen=True):
    unit: str | None = None
    avg: Number = None
    p50: Number = None
    p90: Number = None
    p95: Number = None
    p99: Number = None


class _Phase(msgspec.Struct, frozen=True):
    name: str | None = None
    type: str | None = None
    rate: Number = None
    requests: int | None = None
    concurrency: int | None = None


class _Model(msgspec.Struct, frozen=True):
    name: str | None = None


class _Models(msgspec.Struct, frozen=True):
    items: list[_Model] = []


class _Endpoint(msgspec.Struct, frozen=True):
    type: str | None = None
    use_server_token_count: bool = False


class _Input(msgspec.Struct, frozen=True):
    models: _Models = _Models()
    endpoint: _Endpoint = _Endpoint()
    phases: list[_Phase] = []


class _Summary(msgspec.Struct, frozen=True):
    aiperf_version: str | None = None
    start_time: str | None = None
    end_time: str | None = None
    was_cancelled: bool | None = None
    input_config: _Input | None = None
    request_count: _Metric = _Metric()
    error_request_count: _Metric = _Metric()
    request_throughput: _Metric = _Metric()
    output_token_throughput: _Metric = _Metric()
    benchmark_duration: _Metric = _Metric()
    total_output_tokens: _Metric = _Metric()
    goodput: _Metric = _Metric()
    time_to_first_token: _Metric | None = None
    inter_token_latency: _Metric | None = None
    inter_chunk_latency: _Metric | None = None
    request_latency: _Metric | None = None


def read(content: Content) -> tuple[Run, ...]:
    """The one run of the summary. Raises UsageError, naming the key."""
    file = content.documents[0].read(_Summary)
    asked = file.input_config or _Input()
    phase = next((one for one in asked.phases if one.name == "profiling"), _Phase())
    completed, errors = _count(file.request_count), _count(file.error_request_count)
    return (
        Run(
            started=file.start_time,
            model=asked.models.items[0].name if asked.models.items else None,
            endpoint=asked.endpoint.type,
            load=Load(
                requests=phase.requests,
                requested_rps=phase.rate,
                gap_cv={"constant": 0.0, "poisson": 1.0}.get(phase.type or ""),
                concurrency=phase.concurrency,
            ),
            completed=completed,
            failed=errors or 0 if completed is not None else errors,
            partial=bool(file.was_cancelled),
            duration_s=_duration_s(file),
            output_tokens=_count(file.total_output_tokens),
            request_tput_rps=file.request_throughput.avg,
            output_tput_tps=file.output_token_throughput.avg,
            goodput_rps=file.goodput.avg,
            stated=_stated(file),
            own=() if asked.endpoint.use_server_token_count else (_OWN_COUNT,),
        ),
    )


def _duration_s(file: _Summary) -> float | None:
    """From start to end, over which its throughputs are; `benchmark_duration` is shorter, of the requests alone."""
    try:
        start, end = (datetime.fromisoformat(at) for at in (file.start_time or "", file.end_time or ""))
        return (end - start).total_seconds()
    except (ValueError, TypeError):
        return file.benchmark_duration.avg


_OWN_COUNT = Finding(
    code="tokens_counted_by_client",
    severity=Severity.OTHERWISE,
    figures=("output_tput_tps", TPOT),
    text="Tokens are counted by the client's own tokenizer, not by the server's usage.",
    evidence="use_server_token_count is not set in input_config",
)


def version(content: Content) -> str | None:
    """The version of AIPerf that wrote the summary."""
    return content.documents[0].read(_Summary).aiperf_version


def _count(metric: _Metric) -> int | None:
    return None if metric.avg is None else round(metric.avg)


def _stated(file: _Summary) -> dict[str, Stated]:
    parts = (
        (TTFT, file.time_to_first_token),
        (TPOT, file.inter_token_latency),
        (ITL, file.inter_chunk_latency),
        (E2E, file.request_latency),
    )
    found = {}
    for name, metric in parts:
        if metric is not None and metric.unit in {None, "ms"}:
            values = {share: getattr(metric, key) for key, share in _QUANTILES.items()}
            quantiles = {share: value / _MS for share, value in values.items() if value is not None}
            found[name] = Stated(mean=None if metric.avg is None else metric.avg / _MS, quantiles=quantiles)
    return found


class _Times(msgspec.Struct, frozen=True):
    credit_issued_ns: int | None = None
    request_start_ns: int | None = None
    benchmark_phase: str | None = None
    was_cancelled: bool = False


class _One(msgspec.Struct, frozen=True):
    value: Number = None


class _Several(msgspec.Struct, frozen=True):
    value: list[float] = []


class _Values(msgspec.Struct, frozen=True):
    time_to_first_token: _One = _One()
    request_latency: _One = _One()
    inter_chunk_latency: _Several | None = None
    input_sequence_length: _One = _One()
    output_sequence_length: _One = _One()


class _Error(msgspec.Struct, frozen=True):
    code: int | None = None


class _Line(msgspec.Struct, frozen=True):
    metadata: _Times
    metrics: _Values = _Values()
    error: _Error | None = None


def read_lines(content: Content) -> tuple[Run, ...]:
    """The one run of a file with a line a request; warm-up left out. Raises UsageError, naming line and key."""
    lines = [document.read(_Line) for document in content.documents]
    requests = tuple(_request(line) for line in lines if line.metadata.benchmark_phase in {None, "profiling"})
    completed = sum(request.ok for request in requests)
    return (
        Run(
            load=Load(requests=len(requests)),
            completed=completed,
            failed=len(requests) - completed,
            requests=requests,
        ),
    )


def _request(line: _Line) -> Request:
    times, metrics = line.metadata, line.metrics
    ok = line.error is None and not times.was_cancelled and metrics.request_latency.value is not None
    gaps = metrics.inter_chunk_latency
    code = None if line.error is None else line.error.code
    failure = Outcome.CANCELLED if times.was_cancelled else Outcome.STREAM_ERROR if code is None else Outcome.HTTP_ERROR
    return Request(
        ok=ok,
        outcome=Outcome.OK if ok else failure,
        due_at_s=None if times.credit_issued_ns is None else times.credit_issued_ns / _NS,
        sent_at_s=None if times.request_start_ns is None else times.request_start_ns / _NS,
        ttft_s=_seconds(metrics.time_to_first_token) if ok else None,
        e2e_s=_seconds(metrics.request_latency) if ok else None,
        gaps_s=np.array(gaps.value, dtype=np.float64) / _MS if ok and gaps is not None else None,
        input_tokens=_whole(metrics.input_sequence_length),
        output_tokens=_whole(metrics.output_sequence_length) if ok else None,
    )


def _seconds(one: _One) -> float | None:
    return None if one.value is None else one.value / _MS


def _whole(one: _One) -> int | None:
    return None if one.value is None else round(one.value)
