"""What this machine's client can carry, as plain text."""

from __future__ import annotations

from unmoor.measure.headroom.self_check import SHORT_CHUNKS, STREAM_TPS, Carried, Cost, SelfCheck
from unmoor.report.layout import table, wrapped

_NOTHING = "–"
_MS = 1000
_WHY = {
    "client": "the next step was too much for the client",
    "server": "the calibration server was the limit, not the client",
    "time": "no more was tried",
    "stopped": "it was stopped",
}


def render(check: SelfCheck) -> str:
    """The whole check, 100 columns wide, without colour."""
    stamps = "the kernel's" if check.clock == "kernel" else "this process's own"
    lines = [f"What unmoor load can carry here, on one core; time stamps are {stamps}", ""]
    lines += table(_rows(check))
    lines += wrapped(f"Streams: {_WHY[check.streams.limited_by]}.", "  ")
    if check.short_requests is not None:
        lines += wrapped(
            f"Short requests, {SHORT_CHUNKS} chunks in one write: {_WHY[check.short_requests.limited_by]}.", "  "
        )
    noise = check.noise
    lines += ["", "The machine's own noise: woken late with nothing to do, in ms"]
    lines += table(
        [("", "p50", "p99", "most", "of"), ("", _ms(noise.p50_s), _ms(noise.p99_s), _ms(noise.max_s), f"{noise.n:,}")]
    )
    bounds = (
        f"Carried: p99 of sent late and received late under {check.lag_bound_s * _MS:g} ms, the rate within "
        f"{check.rate_share:.1%} of the schedule's, every answer whole. Each figure was run for a second or two; a "
        "failing step was tried twice. A longer run meets more of the machine's noise."
    )
    lines += ["", *wrapped(bounds, "")]
    if check.partial:
        lines += wrapped("Stopped before its end: what is missing was not measured.", "  ! ")
    return "\n".join(lines)


def _rows(check: SelfCheck) -> list[tuple[str, ...]]:
    streams, short = check.streams, check.short_requests
    rows: list[tuple[str, ...]] = [("", "carried", "over", "sent late p99 ms", "received late p99 ms")]
    rows.append(
        (f"streams at {STREAM_TPS:g} tokens/s", _count(streams.streams), *_evidence(streams, streams.chunks, "chunk"))
    )
    if short is not None:
        rows.append(("short requests/s", _count(short.request_rps), *_evidence(short, short.requests, "answer")))
    rows.append(("CPU µs per streamed chunk", *_cost(check.chunk, "chunk")))
    if check.short_request is not None:
        rows.append(("CPU µs per short request", *_cost(check.short_request, "answer")))
    return rows


def _evidence(carried: Carried, number: int, unit: str) -> tuple[str, ...]:
    return (
        f"{number:,} {unit}s",
        _ms(carried.send_lag_p99_s),
        _ms(carried.receive_lag_p99_s),
    )


def _cost(cost: Cost, unit: str) -> tuple[str, ...]:
    return (_NOTHING if cost.cpu_us is None else f"{cost.cpu_us:,.1f}", f"{cost.n:,} {unit}s", "", "")


def _count(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,.0f}"


def _ms(value_s: float | None) -> str:
    return _NOTHING if value_s is None else f"{value_s * _MS:,.2f}"
