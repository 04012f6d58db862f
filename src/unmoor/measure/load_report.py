"""What a load says: the engine's figures, how sure they are, and what the client itself cost. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np

from unmoor.core.evidence import Caveat
from unmoor.core.plural import plural
from unmoor.core.quantile_interval import QuantileInterval, fewest_for, quantile_interval
from unmoor.core.record import Record, e2e_s, meets, scheduled_e2e_s, scheduled_ttft_s, tpot_s, ttft_s
from unmoor.core.slo import Slo
from unmoor.core.stats import Interval, wilson
from unmoor.measure.load import ReplayReport

CLIENT_SHARE = 0.05
"""The client's own error, p99, that a run may carry: so much of the SLO's time to first token. Beyond it is void."""
RATE_SHARE = 0.01
"""So far may the rate of sending be from the schedule's; a run beyond it is void."""
_FEWEST_FOR_A_RATE = 20


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """The mean and quantiles of one latency, in seconds, over `n` values; each None where there is no value."""

    n: int
    mean: float | None
    p50: QuantileInterval | None
    p90: QuantileInterval | None
    p95: QuantileInterval | None
    p99: QuantileInterval | None


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """The latencies. `ttft_s` and `e2e_s` run from when a request was due, the `service` ones from when it was sent.

    `itl_s` is over every gap between two chunks; its quantiles have no bounds, since gaps of one answer are alike.
    """

    ttft_s: Quantiles
    ttft_service_s: Quantiles
    tpot_s: Quantiles
    itl_s: Quantiles
    e2e_s: Quantiles
    e2e_service_s: Quantiles


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


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The steady part that figures are of: from and to, in seconds after the first request was due.

    A request is in it when it was due in it. `warm_up` and `cool_down` were sent as well, and are in no figure.
    """

    from_s: float
    to_s: float
    requests: int
    warm_up: int
    cool_down: int


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """A load as it went. A failed request is in no latency, and in the denominator of everything else.

    `requests` are those of the window, `failures` counts the failed ones by kind. `void` names reasons for which no
    figure here may be used. `slo_attainment` and `goodput_rps` are None without an SLO. `token_source` says who counted
    the output tokens: "server", or None where nobody did for some request. `prefix_hit_rate` is the cached share of the
    prompt tokens of the window, as the server reports it.
    """

    target: str
    model: str
    endpoint: str
    planned: int
    requests: int
    failed: int
    failures: dict[str, int]
    partial: bool
    void: tuple[Caveat, ...]
    window: Window
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
    token_source: str | None
    prefix_hit_rate: float | None
    client: Client
    caveats: tuple[Caveat, ...]


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What was to be sent where: the target's words, the input tokens planned for each index, the SLO, the window."""

    target: str
    model: str
    endpoint: str
    input_tokens: dict[int, int]
    slo: Slo | None = None
    warm_up_s: float = 0.0
    cool_down_s: float = 0.0


def load_report(sent: Sent, records: Sequence[Record], replay: ReplayReport) -> LoadReport:
    """The report of a load from its records and the replay's own."""
    window, counted = _window(sent, records)
    ok = [record for record in counted if record.ok]
    span_s = _span_s(counted)
    met = None if sent.slo is None else sum(meets(record, sent.slo) for record in counted)
    void = _void(sent, replay, counted)
    return LoadReport(
        target=sent.target,
        model=sent.model,
        endpoint=sent.endpoint,
        planned=replay.planned,
        requests=len(counted),
        failed=len(counted) - len(ok),
        failures=dict(Counter(record.outcome.value for record in counted if not record.ok)),
        partial=replay.partial,
        void=void,
        window=window,
        metrics=_metrics(counted),
        offered_rps=replay.offered_rps,
        achieved_rps=replay.achieved_rps,
        request_tput_rps=None if span_s is None else len(ok) / span_s,
        output_tput_tps=_output_tput_tps(ok, span_s),
        slo=None if sent.slo is None else sent.slo.describe(),
        slo_attainment=None if met is None else wilson(met, len(counted)),
        goodput_rps=None if met is None or span_s is None else met / span_s,
        input_tokens=_total([record.input_tokens for record in ok]),
        output_tokens=_total([record.output_tokens for record in ok]),
        token_source=_token_source(ok),
        prefix_hit_rate=_hit_rate(ok),
        client=_client(replay),
        caveats=(*replay.caveats, *_caveats(sent, counted, ok)),
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
    ends_ns = [end for record in counted if (end := record.last_token_at_ns or record.closed_at_ns) is not None]
    if not ends_ns:
        return None
    start_ns = min(record.scheduled_at_ns for record in counted)
    return max(max(ends_ns) - start_ns, 1) / 1e9


def _output_tput_tps(ok: Sequence[Record], span_s: float | None) -> float | None:
    total = _total([record.output_tokens for record in ok])
    return None if total is None or span_s is None else total / span_s


def _total(counts: Sequence[int | None]) -> int | None:
    """The sum; None where one of them is not known, or there is none."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _metrics(counted: Sequence[Record]) -> Metrics:
    gaps_s = [
        (later - earlier) / 1e9 for record in counted if record.ok for earlier, later in pairwise(record.chunk_at_ns)
    ]
    return Metrics(
        ttft_s=_quantiles([scheduled_ttft_s(record) for record in counted]),
        ttft_service_s=_quantiles([ttft_s(record) for record in counted]),
        tpot_s=_quantiles([tpot_s(record) for record in counted]),
        itl_s=_without_bounds(_quantiles(gaps_s)),
        e2e_s=_quantiles([scheduled_e2e_s(record) for record in counted]),
        e2e_service_s=_quantiles([e2e_s(record) for record in counted]),
    )


def _quantiles(values: Sequence[float | None]) -> Quantiles:
    known = [value for value in values if value is not None]
    p50, p90, p95, p99 = (quantile_interval(known, q) for q in (0.5, 0.9, 0.95, 0.99))
    mean = float(np.mean(known)) if known else None
    return Quantiles(n=len(known), mean=mean, p50=p50, p90=p90, p95=p95, p99=p99)


def _without_bounds(found: Quantiles) -> Quantiles:
    def bare(one: QuantileInterval | None) -> QuantileInterval | None:
        return one and msgspec.structs.replace(one, low=None, high=None, high_is_max=False)

    return Quantiles(
        n=found.n, mean=found.mean, p50=bare(found.p50), p90=bare(found.p90), p95=bare(found.p95), p99=bare(found.p99)
    )


def _token_source(ok: Sequence[Record]) -> str | None:
    sources = {record.tokens_from if record.output_tokens is not None else None for record in ok}
    return sources.pop() if len(sources) == 1 else None


def _hit_rate(ok: Sequence[Record]) -> float | None:
    cached = _total([record.cached_tokens for record in ok])
    asked = _total([record.input_tokens for record in ok])
    return cached / asked if cached is not None and asked else None


def _client(replay: ReplayReport) -> Client:
    return Client(
        send_lag_s=Lag(p50=replay.send_lag_p50_s, p99=replay.send_lag_p99_s, max=replay.send_lag_max_s),
        receive_lag_s=Lag(p50=replay.receive_lag_p50_s, p99=replay.receive_lag_p99_s, max=replay.receive_lag_max_s),
        loop_stall_s=Lag(p50=None, p99=replay.loop_stall_p99_s, max=replay.loop_stall_max_s),
        clock=replay.clock,
    )


def _void(sent: Sent, replay: ReplayReport, counted: Sequence[Record]) -> tuple[Caveat, ...]:
    """Why no figure of this run may be used."""
    reasons = []
    if not counted:
        said = "no request was due between warm-up and cool-down"
        reasons.append(Caveat(code="nothing_measured", text=f"{said}, so there is nothing to say of the target."))
    bound_s = sent.slo.ttft_s if sent.slo is not None else None
    if bound_s is not None and (replay.send_lag_p99_s or 0.0) > CLIENT_SHARE * bound_s:
        late = f"{1000 * (replay.send_lag_p99_s or 0.0):.1f} ms late in its p99"
        text = f"The client sent {late}, more than {CLIENT_SHARE:.0%} of the {1000 * bound_s:g} ms allowed."
        reasons.append(Caveat(code="client_late", text=text))
    offered, achieved = replay.offered_rps, replay.achieved_rps
    unsent = any(record.sent_at_ns is None for record in counted)  # refused by the server: not the client's doing
    if offered and achieved and replay.requests >= _FEWEST_FOR_A_RATE and not (replay.partial or unsent):
        off = achieved / offered - 1
        if abs(off) > RATE_SHARE:
            text = f"{achieved:.3g} requests/s were sent where {offered:.3g} were due: {off:+.1%}."
            reasons.append(Caveat(code="rate_missed", text=text))
    return tuple(reasons)


def _caveats(sent: Sent, counted: Sequence[Record], ok: Sequence[Record]) -> list[Caveat]:
    found = []
    if ok and len(ok) < fewest_for(0.95):
        text = (
            f"{plural(len(ok), 'answer')} are too few for an upper bound of a p95: it takes {fewest_for(0.95)}, "
            f"of a p99 {fewest_for(0.99)}."
        )
        found.append(Caveat(code="few_requests", text=text))
    if any(record.output_tokens is None for record in ok):
        text = "The server did not count the tokens of some answers: figures that need them are left out."
        found.append(Caveat(code="usage_not_reported", text=text))
    odd = sum(record.input_tokens not in {None, sent.input_tokens.get(record.index)} for record in ok)
    if odd:
        text = (
            f"By the server's own count {plural(odd, 'prompt')} of {len(ok):,} were not as long as planned: "
            "its tokenizer splits some of the words in two, or its template adds other tokens to each."
        )
        found.append(Caveat(code="prompt_lengths_differ", text=text))
    if any(record.output_tokens is not None and record.chunk_at_ns for record in ok):
        several = sum((record.output_tokens or 0) > len(record.chunk_at_ns) for record in ok)
        if 2 * several > len(ok):
            text = "Most answers had several tokens in a chunk: itl_s is between chunks, tpot_s between tokens."
            found.append(Caveat(code="tokens_share_chunks", text=text))
    if counted:
        text = "How much more this machine's client could have carried was not measured."
        found.append(Caveat(code="headroom_unknown", text=text))
    return found
