"""What a load says: the engine's figures, how sure they are, and what the client itself cost. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.core.record import Outcome, Record, meets
from unmoor.core.slo import Slo
from unmoor.core.stats import Interval, wilson
from unmoor.measure.client.load import Pacing, ReplayReport
from unmoor.measure.figures.load_doubts import Beside, hit_rate_of, load_caveats, void_by
from unmoor.measure.figures.load_metrics import Metrics, Slice, Window, metrics_of, slices_of
from unmoor.measure.server.server_report import ServerReport

NOTHING_BESIDE = Beside()


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """How late the client was, in seconds; None where it was not measured."""

    p50: float | None
    p99: float | None
    max: float | None


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """The client's own error. `clock` says whose time stamps are on what arrived: "kernel", or "user": this process.

    `headroom` is how many times the load this machine's client could have carried; None: it was not measured.
    """

    send_lag_s: Lag
    receive_lag_s: Lag
    loop_stall_s: Lag
    clock: str
    headroom: float | None = None
    headroom_stopped: bool = False


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of each answer: whether to stream, how many choices, by how many schemas, how many tools offered.

    `adapters` are the names asked, with their weights; empty where all requests ask one.
    """

    stream: bool = True
    choices: int = 1
    schemas: int = 0
    tools: int = 0
    tool_choice: str | None = None
    adapters: dict[str, float] = {}


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """A load as it went. A failed request is in no latency, and in the denominator of everything else.

    `pacing` says what requests waited for, `ended_by` what ended the sending (as in ReplayReport). `requests` are those
    of the window, `slices` it in ten parts (none where it holds too few requests), `failures` counts the failed ones by
    kind. `cancelled` were in flight when the load was stopped, and are in no figure. `void` names reasons for which no
    figure here may be used. `slo_attainment` and `goodput_rps` are None without an SLO. `token_source` says who counted
    the output tokens: "server", or None where nobody did for some request.
    `prefix_hit_rate` is the cached share of the prompt tokens of the window, as the server reports it. `valid` is the
    share of the answers checked that had the form asked for; None where none could be. `models` counts the requests of
    each name asked, where there were several.
    """

    target: str
    model: str
    endpoint: str
    asked: Asked
    pacing: Pacing
    ended_by: str | None
    planned: int
    requests: int
    failed: int
    failures: dict[str, int]
    models: dict[str, int]
    partial: bool
    cancelled: int
    void: tuple[Caveat, ...]
    window: Window
    slices: tuple[Slice, ...]
    metrics: Metrics
    offered_rps: float | None
    achieved_rps: float | None
    request_tput_rps: float | None
    output_tput_tps: float | None
    slo: str | None
    slo_attainment: Interval | None
    goodput_rps: float | None
    input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    valid: Interval | None
    token_source: str | None
    prefix_hit_rate: float | None
    shared_at_most: float | None
    server: ServerReport | None
    client: Client
    caveats: tuple[Caveat, ...]


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What was to be sent where: the target's words, the input tokens planned for each index, the SLO, the window."""

    target: str
    model: str
    endpoint: str
    input_tokens: dict[int, int]
    slo: Slo | None = None
    asked: Asked = Asked()
    pacing: Pacing = Pacing()
    warm_up_s: float = 0.0
    cool_down_s: float = 0.0


def load_report(
    sent: Sent, records: Sequence[Record], replay: ReplayReport, beside: Beside = NOTHING_BESIDE
) -> LoadReport:
    """The report of a load from its records, the replay's own, and what was found out beside it."""
    window, counted = _window(sent, [record for record in records if record.outcome is not Outcome.CANCELLED])
    ok = [record for record in counted if record.ok]
    span_s = _span_s(counted)
    met = None if sent.slo is None else sum(meets(record, sent.slo) for record in counted)
    return LoadReport(
        target=sent.target,
        model=sent.model,
        endpoint=sent.endpoint,
        asked=sent.asked,
        pacing=sent.pacing,
        ended_by=replay.ended_by,
        planned=replay.planned,
        requests=len(counted),
        failed=len(counted) - len(ok),
        failures=dict(Counter(record.outcome.value for record in counted if not record.ok)),
        models=dict(Counter(record.model for record in counted if record.model is not None)),
        partial=replay.partial,
        cancelled=sum(record.outcome is Outcome.CANCELLED for record in records),
        void=void_by(replay, counted, records, beside, sent.slo),
        window=window,
        slices=slices_of(window, counted, sent.slo),
        metrics=metrics_of(counted),
        offered_rps=replay.offered_rps,
        achieved_rps=replay.achieved_rps,
        request_tput_rps=None if span_s is None else len(ok) / span_s,
        output_tput_tps=_output_tput_tps(ok, span_s),
        slo=None if sent.slo is None else sent.slo.describe(),
        slo_attainment=None if met is None else wilson(met, len(counted)),
        goodput_rps=None if met is None or span_s is None else met / span_s,
        input_tokens=_total([record.input_tokens for record in ok]),
        output_tokens=_total([record.output_tokens for record in ok]),
        reasoning_tokens=_total([record.reasoning_tokens for record in ok]),
        valid=_valid(ok),
        token_source=_token_source(ok),
        prefix_hit_rate=hit_rate_of(counted),
        shared_at_most=beside.shared_at_most,
        server=beside.server,
        client=_client(replay, beside),
        caveats=load_caveats(
            replay, sent.pacing, sent.input_tokens, counted, records=records, beside=beside, slo=sent.slo
        ),
    )


def _window(sent: Sent, records: Sequence[Record]) -> tuple[Window, list[Record]]:
    due_ns = [record.scheduled_at_ns for record in records]
    if not due_ns:
        return Window(from_s=0.0, to_s=0.0, requests=0, warm_up=0, cool_down=0), []
    start_ns, end_ns = min(due_ns), max(due_ns)
    from_ns, to_ns = start_ns + round(sent.warm_up_s * 1e9), end_ns - round(sent.cool_down_s * 1e9)
    counted = [record for record in records if from_ns <= record.scheduled_at_ns <= to_ns]
    window = Window(
        from_s=(from_ns - start_ns) / 1e9,
        to_s=max(to_ns - start_ns, from_ns - start_ns) / 1e9,
        requests=len(counted),
        warm_up=sum(at < from_ns for at in due_ns),
        cool_down=sum(at > to_ns and at >= from_ns for at in due_ns),
    )
    return window, counted


def _span_s(counted: Sequence[Record]) -> float | None:
    """How long the window's requests took: from when the first was due to the last one's end; None where none ended.

    The last answers are in it: between arrivals alone a few requests would make any throughput.
    """
    ends_ns = [end for record in counted if (end := _end_ns(record)) is not None]
    if not ends_ns:
        return None
    start_ns = min(record.scheduled_at_ns for record in counted)
    return max(max(ends_ns) - start_ns, 1) / 1e9


def _end_ns(record: Record) -> int | None:
    """A whole answer ends with its last token, one that failed when it was given up or lost."""
    return record.last_token_at_ns or record.closed_at_ns if record.ok else record.closed_at_ns


def _output_tput_tps(ok: Sequence[Record], span_s: float | None) -> float | None:
    total = _total([record.output_tokens for record in ok])
    return None if total is None or span_s is None else total / span_s


def _total(counts: Sequence[int | None]) -> int | None:
    """The sum; None where one of them is not known, or there is none."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _valid(ok: Sequence[Record]) -> Interval | None:
    checked = [record.valid for record in ok if record.valid is not None]
    return wilson(sum(checked), len(checked)) if checked else None


def _token_source(ok: Sequence[Record]) -> str | None:
    sources = {record.tokens_from if record.output_tokens is not None else None for record in ok}
    return sources.pop() if len(sources) == 1 else None


def _client(replay: ReplayReport, beside: Beside) -> Client:
    return Client(
        send_lag_s=Lag(p50=replay.send_lag_p50_s, p99=replay.send_lag_p99_s, max=replay.send_lag_max_s),
        receive_lag_s=Lag(p50=replay.receive_lag_p50_s, p99=replay.receive_lag_p99_s, max=replay.receive_lag_max_s),
        loop_stall_s=Lag(p50=None, p99=replay.loop_stall_p99_s, max=replay.loop_stall_max_s),
        clock=replay.clock,
        headroom=beside.headroom.factor if beside.headroom is not None else None,
        headroom_stopped=beside.headroom is not None and beside.headroom.limited_by == "stopped",
    )
