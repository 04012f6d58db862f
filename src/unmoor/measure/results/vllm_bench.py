"""The file of `vllm bench serve --save-result`, with `--save-detailed` or without.

Keys as of vLLM 0.32.0, read 2026-12-01. Without details `latencies` and `queue_times` stay in it. A request that failed
has a latency of 0 there. It says no version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import numpy as np

from unmoor.core.errors import UsageError
from unmoor.measure.results.open_file import Content, Document
from unmoor.measure.results.run import E2E, ITL, TPOT, TTFT, Load, Request, Run, Stated, Values

MARKS = frozenset({"tokenizer_id", "completed", "request_throughput", "num_prompts", "burstiness"})
_PER_REQUEST = ("latencies", "ttfts", "itls", "output_lens", "input_lens", "start_times", "queue_times", "errors")
_MS = 1000
_NAMES = {"ttft": TTFT, "tpot": TPOT, "itl": ITL, "e2el": E2E, "e2e_latency": E2E}

Number = float | None
Value = TypeVar("Value")


class _File(msgspec.Struct, frozen=True):
    date: str | None = None
    backend: str | None = None
    model_id: str | None = None
    num_prompts: int | None = None
    request_rate: float | str | None = None
    burstiness: Number = None
    max_concurrency: int | None = None
    duration: Number = None
    completed: int | None = None
    failed: int | None = None
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    request_throughput: Number = None
    request_goodput: Number = msgspec.field(default=None)
    output_throughput: Number = None
    ramp_up_strategy: str | None = None
    input_lens: list[int | None] | None = None
    output_lens: list[int | None] | None = None
    ttfts: list[Number] | None = None
    itls: list[msgspec.Raw] | None = None
    latencies: list[Number] | None = None
    start_times: list[Number] | None = None
    queue_times: list[Number] | None = None
    errors: list[str | None] | None = None


def read(content: Content) -> tuple[Run, ...]:
    """The runs of the file: several where they were appended. Raises UsageError, naming line and key."""
    return tuple(_run(document) for document in content.documents)


def _run(document: Document) -> Run:
    file = document.read(_File)
    rate = file.request_rate
    return Run(
        place="" if document.line is None else f"line {document.line}",
        started=file.date,
        model=file.model_id,
        endpoint=file.backend,
        load=Load(
            requests=file.num_prompts,
            requested_rps=None if file.ramp_up_strategy else finite_rate(rate),
            all_at_once=is_unlimited(rate),
            gap_cv=None if not file.burstiness or file.burstiness < 0 else file.burstiness**-0.5,
            concurrency=file.max_concurrency,
        ),
        completed=file.completed,
        failed=file.failed,
        duration_s=file.duration,
        input_tokens=file.total_input_tokens,
        output_tokens=file.total_output_tokens,
        request_tput_rps=file.request_throughput,
        output_tput_tps=file.output_throughput,
        goodput_rps=file.request_goodput,
        stated=stated_in_ms(document),
        requests=_requests(file, document),
    )


def _requests(file: _File, document: Document) -> tuple[Request, ...]:
    columns = {name: column for name in _PER_REQUEST if (column := getattr(file, name)) is not None}
    size = same_length(columns, document.where)
    if not size or file.latencies is None:
        return ()
    return tuple(_request(file, index, document.where) for index in range(size))


def _request(file: _File, index: int, where: str) -> Request:
    error = at(file.errors, index)
    e2e_s, ttft_s, sent_at_s = at(file.latencies, index), at(file.ttfts, index), at(file.start_times, index)
    queued_s = at(file.queue_times, index)
    ok = not error and bool(e2e_s or ttft_s)
    return Request(
        ok=ok,
        sent_at_s=sent_at_s,
        due_at_s=None if sent_at_s is None or queued_s is None else sent_at_s - queued_s,
        queued_s=queued_s,
        ttft_s=ttft_s,
        e2e_s=e2e_s,
        gaps_s=gaps_of(file.itls, index, where),
        input_tokens=at(file.input_lens, index),
        output_tokens=at(file.output_lens, index) if ok else None,
    )


def at(column: Sequence[Value | None] | None, index: int) -> Value | None:
    """The value of a column, None where the file lacks the column."""
    return None if column is None else column[index]


def gaps_of(column: Sequence[msgspec.Raw] | None, index: int, where: str) -> Values | None:
    """One request's gaps as an array; None without the column. Raises UsageError for what is no list of numbers."""
    if column is None:
        return None
    try:
        return np.array(msgspec.json.decode(column[index], type=list[float]), dtype=np.float64)
    except msgspec.DecodeError as error:
        raise UsageError(
            "a value is not of the kind that this format has there",
            where=where,
            seen=f"itls[{index}]: {str(error)[:100]}",
            expected="a list of numbers, in seconds",
            hint="was the file edited? take it as its tool wrote it",
        ) from error


def same_length(columns: dict[str, Sequence[object]], where: str) -> int:
    """How many requests the columns are of, 0 for none. Raises UsageError where they differ."""
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise UsageError(
            "its lists are not of one length, so that no request can be told from another",
            where=where,
            seen=", ".join(f"{name} {size}" for name, size in sizes.items()),
            expected="one value a request in each",
            hint="was the file edited, or put together of two? take it as its tool wrote it",
        )
    return next(iter(sizes.values()), 0)


def stated_in_ms(document: Document) -> dict[str, Stated]:
    """What the keys `mean_ttft_ms`, `median_ttft_ms`, `p99_ttft_ms` and their like state, in seconds."""
    found: dict[str, Stated] = {}
    whole = document.read(dict[str, msgspec.Raw])
    for short, name in _NAMES.items():
        ends = f"_{short}_ms"
        words = {key.removesuffix(ends): raw for key, raw in whole.items() if key.endswith(ends)}
        numbers = {word: number / _MS for word, raw in words.items() if (number := _number(raw)) is not None}
        quantiles = {share: value for word, value in numbers.items() if (share := _share(word)) is not None}
        if numbers and (quantiles or "mean" in numbers):
            found[name] = Stated(mean=numbers.get("mean"), quantiles=quantiles)
    return found


def _share(word: str) -> float | None:
    if word == "median":
        return 0.5
    try:
        share = float(word.removeprefix("p")) / 100 if word.startswith("p") else 0.0
    except ValueError:
        return None
    return share if 0 < share < 1 else None


def _number(raw: msgspec.Raw) -> float | None:
    try:
        return msgspec.json.decode(raw, type=float | None)
    except msgspec.DecodeError:
        return None


def finite_rate(rate: float | str | None) -> float | None:
    """The rate asked for; None where it was "inf" or is not told."""
    return rate if isinstance(rate, int | float) and rate > 0 else None


def is_unlimited(rate: float | str | None) -> bool:
    """Whether the file says that no rate was asked for."""
    return isinstance(rate, str) and rate == "inf"
