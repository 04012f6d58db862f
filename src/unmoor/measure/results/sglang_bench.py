"""The file of SGLang's `bench_serving`: a line a run, with `--output-details` or without.

Keys as of 0.5.23, read 2026-12-01. It tells neither how many requests failed, nor, without details, how many were sent;
when each was sent never. It says no version of the client.
"""

from __future__ import annotations

import msgspec

from unmoor.measure.results.open_file import Content, Document
from unmoor.measure.results.run import Load, Request, Run
from unmoor.measure.results.vllm_bench import at, finite_rate, gaps_of, is_unlimited, same_length, stated_in_ms

MARKS = frozenset({"total_output_tokens_retokenized", "completed", "request_throughput"})
_PER_REQUEST = ("ttfts", "itls", "output_lens", "input_lens", "errors", "cached_tokens")
_RANDOM = "random"

Number = float | None


class _CacheReport(msgspec.Struct, frozen=True):
    total_prompt_tokens: int | None = None
    total_cached_tokens: int | None = None


class _File(msgspec.Struct, frozen=True):
    backend: str | None = None
    dataset_name: str | None = None
    request_rate: float | str | None = None
    max_concurrency: int | None = None
    random_input_len: int | None = None
    random_output_len: int | None = None
    random_range_ratio: Number = None
    duration: Number = None
    completed: int | None = None
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    total_output_tokens_retokenized: int | None = None
    request_throughput: Number = None
    output_throughput: Number = None
    cache_report: _CacheReport | None = None
    input_lens: list[int | None] | None = None
    output_lens: list[int | None] | None = None
    ttfts: list[Number] | None = None
    itls: list[msgspec.Raw] | None = None
    errors: list[str | None] | None = None
    cached_tokens: list[int | None] | None = None


def read(content: Content) -> tuple[Run, ...]:
    """The runs of the file, one a line. Raises UsageError, naming line and key."""
    return tuple(_run(document) for document in content.documents)


def _run(document: Document) -> Run:
    file = document.read(_File)
    requests = _requests(file, document)
    lengths_told = (file.dataset_name or "").startswith(_RANDOM) and file.random_range_ratio == 1
    return Run(
        place="" if document.line is None else f"line {document.line}",
        endpoint=file.backend,
        load=Load(
            requests=len(requests) or None,
            requested_rps=finite_rate(file.request_rate),
            all_at_once=is_unlimited(file.request_rate),
            gap_cv=1.0,
            concurrency=file.max_concurrency,
            input_tokens=file.random_input_len if lengths_told else None,
            output_tokens=file.random_output_len if lengths_told else None,
        ),
        completed=file.completed,
        failed=sum(not request.ok for request in requests) if requests else None,
        duration_s=file.duration,
        input_tokens=file.total_input_tokens,
        output_tokens=file.total_output_tokens,
        retokenized=file.total_output_tokens_retokenized,
        request_tput_rps=file.request_throughput,
        output_tput_tps=file.output_throughput,
        hit_rate=_hit_rate(file.cache_report),
        stated=stated_in_ms(document),
        requests=requests,
    )


def _requests(file: _File, document: Document) -> tuple[Request, ...]:
    columns = {name: column for name in _PER_REQUEST if (column := getattr(file, name)) is not None}
    size = same_length(columns, document.where)
    if not size or file.errors is None or file.ttfts is None:
        return ()
    return tuple(_request(file, index, document.where) for index in range(size))


def _request(file: _File, index: int, where: str) -> Request:
    """What it is of one request: no end to end, since the file has none; one with an error, or no tokens, failed."""
    tokens = at(file.output_lens, index)
    ok = not at(file.errors, index) and bool(tokens or at(file.ttfts, index))
    return Request(
        ok=ok,
        ttft_s=at(file.ttfts, index),
        gaps_s=gaps_of(file.itls, index, where),
        input_tokens=at(file.input_lens, index),
        output_tokens=tokens if ok else None,
        cached_tokens=at(file.cached_tokens, index),
    )


def _hit_rate(report: _CacheReport | None) -> float | None:
    if report is None or report.total_cached_tokens is None or not report.total_prompt_tokens:
        return None
    return report.total_cached_tokens / report.total_prompt_tokens
