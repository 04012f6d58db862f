"""Whether the load was the one that a file says: its rate, what waited in the client, how long it ran."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unmoor.core.plural import plural
from unmoor.core.quantile_interval import quantile_interval
from unmoor.measure.results.finding import Finding, Severity
from unmoor.measure.results.run import E2E, TTFT, Run

_SHORT = 0.05
_FAR_SHORT = 0.2
_ERRORS = 3.0
_FEWEST_FOR_A_RATE = 20
_FEWEST_FOR_A_START = 10
_FEWEST_FOR_A_TREND = 40
_SLOWER = 3.0
_GROWTH = 1.5
_LONGEST = 5.0
_LATE = 0.05
_WAITS = 0.1
_MS = 1000


def load_findings(run: Run) -> Iterator[Finding]:
    """What the load of a run leaves in doubt."""
    yield from _rate(run)
    yield from _cap(run)
    yield from _late(run)
    yield from _length(run)
    yield from _start(run)
    yield from _trend(run)
    yield from _goodput(run)


def sent_rate_rps(run: Run) -> float | None:
    """The rate of the sending: gaps between the first and the last, per second; None where times are not told."""
    sent = [one.sent_at_s for one in run.requests if one.sent_at_s is not None]
    if len(sent) < _FEWEST_FOR_A_RATE or max(sent) <= min(sent):
        return None
    return (len(sent) - 1) / (max(sent) - min(sent))


def _rate(run: Run) -> Iterator[Finding]:
    asked, count = run.load.requested_rps, run.load.requests or 0
    if run.load.all_at_once:
        yield Finding(
            code="all_at_once",
            severity=Severity.OTHERWISE,
            figures=(TTFT, E2E),
            text="Every request was sent at once, or as a cap let it: latencies are those of a queue that the load "
            "itself made, longer with more requests, and no rate of traffic has them.",
            evidence="the rate asked for is inf" + (f", of {count:,} requests" if count else ""),
        )
    if asked is None or count < _FEWEST_FOR_A_RATE:
        return
    achieved, how = sent_rate_rps(run), "by the times of sending"
    if achieved is None:
        achieved, how = _most_sent_rps(run), "at most: all were sent before the longest of the last could end"
    chance = _ERRORS * (1.0 if run.load.gap_cv is None else run.load.gap_cv) / count**0.5
    if achieved is None or achieved >= asked * (1 - max(_SHORT, chance)):
        return
    yield Finding(
        code="rate_missed",
        severity=Severity.VOID if achieved < asked * (1 - max(_FAR_SHORT, chance)) else Severity.OTHERWISE,
        figures=("requested_rps", TTFT, E2E),
        text="Fewer requests a second were sent than asked for, by more than chance does: these latencies are of a "
        "lighter load.",
        evidence=f"{asked:g} requests/s asked for, {achieved:.3g} sent ({how})",
    )


def _most_sent_rps(run: Run) -> float | None:
    """An upper bound of the rate of sending, from the duration and the longest request; None where one is missing."""
    longest = max((one.e2e_s for one in run.requests if one.e2e_s is not None), default=None)
    count = run.load.requests
    if longest is None or run.duration_s is None or count is None or run.duration_s <= longest:
        return None
    return count / (run.duration_s - longest)


def _cap(run: Run) -> Iterator[Finding]:
    cap = run.load.concurrency
    if cap is None:
        return
    if run.load.requested_rps is None or run.load.all_at_once:
        rate = "a rate of inf" if run.load.all_at_once else "and no rate in the file"
        yield Finding(
            code="closed_loop",
            severity=Severity.OTHERWISE,
            figures=(TTFT, E2E, "request_tput_rps"),
            text="Each request waited for another's end: a slower engine was asked less often, so that these are not "
            "the latencies of traffic that comes at its own rate.",
            evidence=f"at most {cap:,} in flight, {rate}",
        )
        return
    queued = [one.queued_s for one in run.requests if one.queued_s is not None and one.ok]
    services = [one.e2e_s for one in run.requests if one.e2e_s is not None and one.ok]
    told = f"{run.load.requested_rps:g} requests/s with at most {cap:,} in flight"
    hides = bool(queued and services) and float(np.quantile(queued, 0.99)) > _WAITS * float(np.median(services))
    if hides:
        told += f"; the median wait in the client is {_ms(np.median(queued))}, its p99 {_ms(np.quantile(queued, 0.99))}"
        if len(queued) == len(services):
            both = np.add(queued, services)
            with_it, without = _ms(np.quantile(both, 0.99)), _ms(np.quantile(services, 0.99))
            told += f"; the p99 end to end is {with_it} with it, {without} without"
    yield Finding(
        code="queue_hidden" if hides else "capped_rate",
        severity=Severity.VOID if hides else Severity.OTHERWISE,
        figures=(TTFT, E2E),
        text="A cap held requests back in the client, and what they waited there is in no latency: the open loop "
        "became a closed one."
        if hides
        else "A cap on requests in flight stands beside the rate: where it was reached, requests waited in the client, "
        "and that is in no latency.",
        evidence=told,
    )


def _late(run: Run) -> Iterator[Finding]:
    """Latencies from the sending, where the sending was late; not where a cap is told to have held requests back."""
    lags = [
        one.sent_at_s - one.due_at_s for one in run.requests if one.sent_at_s is not None and one.due_at_s is not None
    ]
    ttfts = [one.ttft_s for one in run.requests if one.ok and one.ttft_s]
    if run.from_due or run.load.concurrency is not None or not lags or not ttfts:
        return
    lag_s, ttft_s = float(np.quantile(lags, 0.99)), float(np.median(ttfts))
    if lag_s > _LATE * ttft_s:
        yield Finding(
            code="sent_late",
            severity=Severity.OTHERWISE,
            figures=(TTFT, E2E),
            text="Latencies run from when a request was sent, and it was sent later than it was due: what a user would "
            "have waited is longer.",
            evidence=f"p99 of sent - due is {_ms(lag_s)}, where the median TTFT is {_ms(ttft_s)}",
        )


def _length(run: Run) -> Iterator[Finding]:
    ends = [one.e2e_s for one in run.requests if one.ok and one.e2e_s is not None]
    stated = run.stated.get(E2E)
    longest = max(ends, default=max(stated.quantiles.values(), default=None) if stated else None)
    if not run.duration_s or longest is None or run.duration_s >= _LONGEST * longest:
        return
    yield Finding(
        code="short_run",
        severity=Severity.OTHERWISE,
        figures=("request_tput_rps", "output_tput_tps"),
        text="The run is only a few requests long: filling up and running empty are in its throughput, and no steady "
        "state may have been reached.",
        evidence=f"{run.duration_s:,.3g} s, where one request took {longest:,.3g} s",
    )


def _in_order(run: Run) -> list[float]:
    """TTFT of the answered requests, else their end to end, in the order of sending (of the file where not told)."""
    whole = [one for one in run.requests if one.ok]
    if whole and all(one.sent_at_s is not None for one in whole):
        whole.sort(key=lambda one: one.sent_at_s or 0.0)
    ttfts = [one.ttft_s for one in whole if one.ttft_s]
    return ttfts or [one.e2e_s for one in whole if one.e2e_s]


def _start(run: Run) -> Iterator[Finding]:
    values = _in_order(run)
    if len(values) < _FEWEST_FOR_A_START:
        return
    median = float(np.median(values))
    slow = next((place for place, value in enumerate(values) if value <= _SLOWER * median), len(values))
    if 0 < slow <= len(values) // 4 and values[0] == max(values):
        yield Finding(
            code="warm_up_included",
            severity=Severity.OTHERWISE,
            figures=(TTFT, E2E),
            text="The first requests were much slower than the rest, as a cold engine is, and are in the figures: in "
            "the mean and the high quantiles above all.",
            evidence=f"{plural(slow, 'request')} at the start took up to {_ms(values[0])}, the median is {_ms(median)}",
        )


def _trend(run: Run) -> Iterator[Finding]:
    values = _in_order(run)
    if len(values) < _FEWEST_FOR_A_TREND:
        return
    quarters = np.array_split(np.array(values), 4)
    first, last = (quantile_interval(list(quarters[place]), 0.5) for place in (0, -1))
    if first is None or last is None or first.high is None or last.low is None:
        return
    if last.value > _GROWTH * first.value and last.low > first.high:
        yield Finding(
            code="unsteady",
            severity=Severity.OTHERWISE,
            figures=(TTFT, E2E),
            text="Latency grew all along the run: a queue built up, and a longer run would have said more.",
            evidence=f"median of the first quarter {_ms(first.value)}, of the last {_ms(last.value)}",
        )


def _goodput(run: Run) -> Iterator[Finding]:
    if run.goodput_rps is None:
        return
    if run.slo is None:
        yield Finding(
            code="slo_not_told",
            severity=Severity.OTHERWISE,
            figures=("goodput_rps",),
            text="The goodput is of an SLO that the file does not name: it cannot be compared with any other.",
            evidence=f"{run.goodput_rps:,.3g} requests/s, and no bound",
        )


def _ms(value_s: float | np.floating) -> str:
    return f"{float(value_s) * _MS:,.1f} ms"
