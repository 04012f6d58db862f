"""What a result file of a benchmark client says of one run, in one form whoever wrote it. Missing is None, never 0."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.core.record import Outcome, Record
from unmoor.measure.results.finding import Finding

TTFT, TPOT, ITL, E2E = "ttft_s", "tpot_s", "itl_s", "e2e_s"
LATENCIES = (TTFT, TPOT, ITL, E2E)
Values = NDArray[np.float64]


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """What a file states of one latency, in seconds. `quantiles` are by their share: 0.99 is the p99."""

    mean: float | None = None
    quantiles: dict[float, float] = {}

    def said(self) -> bool:
        """Whether the file states anything of it."""
        return self.mean is not None or bool(self.quantiles)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a file, in seconds. `due_at_s` and `sent_at_s` are of one clock of the file's; None: not told.

    `queued_s` is what it waited in the client before it was sent. `gaps_s` are the waits between chunks, None where the
    file has none. `output_tokens` of a request that failed is None, whatever the file puts in its place;
    `ttft_s` is as the file has it. `last_token_s` is from its sending to its last token, where that is not its end.
    """

    ok: bool
    due_at_s: float | None = None
    sent_at_s: float | None = None
    queued_s: float | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None
    last_token_s: float | None = None
    gaps_s: Values | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    outcome: Outcome | None = None


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The load that the file says it was. `all_at_once`: no rate was asked for, every request was to be sent at once.

    `requested_rps` is None where none was asked for or the file does not say; `concurrency` is the cap on requests in
    flight. `gap_cv` is the coefficient of variation of the planned gaps: 1 Poisson, 0 constant.
    """

    requests: int | None = None
    requested_rps: float | None = None
    all_at_once: bool = False
    gap_cv: float | None = None
    concurrency: int | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a file. `place` says where in the file it is; empty where it is the whole.

    `failed` is None where the file does not tell failures. `requests` are all of them, failed ones too; empty where the
    file has none. `retokenized` is the client's own count of the output tokens beside `output_tokens`. `slo` is the one
    that `goodput_rps` is of, where told. `from_due`: the latencies it states run from when a request was due.
    `interpolated`: its quantiles are those of core's `quantile`; else they are values of the sample, or of a histogram.
    `own` are doubts of its format alone, or that the file itself states.
    """

    place: str = ""
    started: str | None = None
    model: str | None = None
    endpoint: str | None = None
    load: Load = Load()
    completed: int | None = None
    failed: int | None = None
    partial: bool = False
    duration_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    retokenized: int | None = None
    request_tput_rps: float | None = None
    output_tput_tps: float | None = None
    goodput_rps: float | None = None
    slo: str | None = None
    hit_rate: float | None = None
    stated: dict[str, Stated] = {}
    interpolated: bool = True
    from_due: bool = False
    requests: tuple[Request, ...] = ()
    own: tuple[Finding, ...] = ()


class ResultFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was read: its format, the tool, its version where the file says, and its runs.

    `not_numbers` counts values that are NaN, which are taken as missing.
    """

    format: str
    tool: str
    version: str | None
    runs: tuple[Run, ...]
    not_numbers: int = 0


def records(run: Run, *, chunks: bool = True) -> Iterator[Record]:
    """The requests of a run as records, in the order of the file; without `chunks` their `chunk_at_ns` is empty.

    Times are of the file's own clock. A request whose file tells no time of sending has a clock that begins with it,
    and one whose file does not tell when it was due was due when it was sent: what they waited in the client is then
    not in any of their latencies. How a request failed is not in most files: it is a `stream_error` then.
    """
    told = [at for request in run.requests for at in (request.due_at_s, request.sent_at_s) if at is not None]
    origin_s = min(told, default=0.0)
    for index, request in enumerate(run.requests):
        yield _record(index, request, origin_s, chunks=chunks)


def _record(index: int, request: Request, origin_s: float, *, chunks: bool) -> Record:
    sent_ns = 0 if request.sent_at_s is None else _ns(request.sent_at_s - origin_s)
    due_ns = sent_ns if request.due_at_s is None else _ns(request.due_at_s - origin_s)
    outcome = request.outcome or (Outcome.OK if request.ok else Outcome.STREAM_ERROR)
    if not request.ok:
        return Record(index=index, outcome=outcome, scheduled_at_ns=due_ns, sent_at_ns=sent_ns)
    end_s = last_token_s(request)
    first_ns = None if not request.ttft_s else sent_ns + _ns(request.ttft_s)
    return Record(
        index=index,
        outcome=outcome,
        scheduled_at_ns=due_ns,
        sent_at_ns=sent_ns,
        first_token_at_ns=first_ns,
        last_token_at_ns=None if end_s is None else sent_ns + _ns(end_s),
        closed_at_ns=None if request.e2e_s is None else sent_ns + _ns(request.e2e_s),
        chunk_at_ns=_chunks(first_ns, request.gaps_s) if chunks and first_ns is not None else (),
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens,
        cached_tokens=request.cached_tokens,
    )


def _chunks(first_ns: int, gaps_s: Values | None) -> tuple[int, ...]:
    later = [] if gaps_s is None else (first_ns + np.rint(np.cumsum(gaps_s) * 1e9).astype(np.int64)).tolist()
    return (first_ns, *later)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def values_of(run: Run, latency: str) -> Values:
    """The values of one latency over the requests that the file counts as whole, in seconds, in ascending order.

    A TTFT of 0 is left out: nothing was measured. TPOT is `tpot_of`; ITL every gap.
    """
    whole = [request for request in run.requests if request.ok]
    if latency == ITL:
        gaps = [request.gaps_s for request in whole if request.gaps_s is not None]
        found = np.concatenate(gaps) if gaps else np.empty(0)
    elif latency == TPOT:
        found = np.array([tpot for request in whole if (tpot := tpot_of(request)) is not None], dtype=np.float64)
    else:
        column = [request.ttft_s or None if latency == TTFT else request.e2e_s for request in whole]
        found = np.array([value for value in column if value is not None], dtype=np.float64)
    found.sort()
    return found


def tpot_of(request: Request) -> float | None:
    """(last token - first) / (tokens - 1) of one request, in seconds; None under two tokens or where one is missing."""
    end_s = last_token_s(request)
    if end_s is None or request.ttft_s is None or (request.output_tokens or 0) <= 1:
        return None
    return (end_s - request.ttft_s) / ((request.output_tokens or 0) - 1)


def last_token_s(request: Request) -> float | None:
    """From the sending to the last token, in seconds: to the end, where the file does not tell them apart."""
    return request.e2e_s if request.last_token_s is None else request.last_token_s
