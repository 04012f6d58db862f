"""A load as plain text: what was asked of whom, what came, how sure it is, and what the client cost."""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.core.plural import plural
from unmoor.core.printable import printable
from unmoor.core.quantile_interval import QuantileInterval
from unmoor.core.stats import Interval
from unmoor.measure.client.load import Pacing
from unmoor.measure.figures.load_metrics import Quantiles, Slice
from unmoor.measure.figures.load_report import Asked, Lag, LoadReport
from unmoor.measure.server.server_report import ServerReport, Spread
from unmoor.report.layout import heading, table, wrapped

_MS = 1000
_NOTHING = "–"
_MOVED = 1.2
_ENDED = {"duration": "; the time was over", "enough": "; the interval was narrow enough"}


def render(report: LoadReport) -> str:
    """The whole report, 100 columns wide, without colour."""
    model = " ".join(printable(report.model).split())
    lines = [f"{model} at {report.target}, {report.endpoint}{_asked(report.asked)}, measured here"]
    lines += wrapped(_sent(report), "  sent     ")
    lines += wrapped(_came(report), "  came     ")
    lines += wrapped(_carried(report), "  carried  ")
    if report.valid is not None:
        lines += wrapped(_formed(report.valid), "  form     ")
    if report.slo is not None:
        lines += wrapped(_kept(report), "  SLO      ")
    lines += ["", heading("Latencies in ms, with the bounds of each quantile at 95 %"), *_latencies(report)]
    if report.slices and _rate_moves(report.slices):
        lines += ["", heading("Over time: the rate was not the same"), *_over_time(report.slices)]
    if report.server is not None:
        lines += ["", heading("The server's own account"), *_server(report.server)]
    lines += ["", heading("The client's own error"), *_client(report)]
    lines += [line for caveat in report.caveats for line in wrapped(caveat.text, "  ! ")]
    if report.void:
        lines += ["", heading("VOID: no figure above may be used")]
        lines += [line for reason in report.void for line in wrapped(reason.text, "  ! ")]
    return "\n".join(lines)


def _sent(report: LoadReport) -> str:
    window = report.window
    rate = "" if report.offered_rps is None or not report.requests else f", {report.offered_rps:.3g} requests/s due"
    achieved = "" if not rate or report.achieved_rps is None else f" and {report.achieved_rps:.3g} sent"
    left_out = f"; {plural(window.warm_up, 'request')} of warm-up left out" if window.warm_up else ""
    left_out += f"; {plural(window.cool_down, 'request')} of cool-down left out" if window.cool_down else ""
    stopped = f"; stopped before the end of {report.planned:,}" if report.partial else ""
    over = f"{plural(report.requests, 'request')} over {window.to_s - window.from_s:,.1f} s"
    return f"{over}{_waited(report.pacing)}{rate}{achieved}{left_out}{stopped}{_ENDED.get(report.ended_by or '', '')}"


def _asked(asked: Asked) -> str:
    choices = f", {asked.choices} choices each" if asked.choices > 1 else ""
    tools = f", {plural(asked.tools, 'tool')}" if asked.tools else ""
    schemas = f", by {plural(asked.schemas, 'schema')}" if asked.schemas else ""
    return f"{choices}{tools}{schemas}{'' if asked.stream else ', in one piece'}"


def _formed(valid: Interval) -> str:
    return (
        f"{valid.value:.1%} of {plural(valid.n, 'answer')} that could be checked had the form asked for "
        f"({valid.low:.1%} to {valid.high:.1%})"
    )


def _waited(pacing: Pacing) -> str:
    think = f", {pacing.think_s:g} s after it" if pacing.think_s else ""
    if pacing.concurrency is not None:
        return f", by {plural(pacing.concurrency, 'user')} who each wait for the answer{think}"
    return f", turns wait for the answer before{think}" if pacing.wait_for_turns else ""


def _rate_moves(slices: Sequence[Slice]) -> bool:
    """Whether the rate went one way all along: not what chance does to a constant one."""
    halves = [sum(one.requests for one in part) for part in (slices[: len(slices) // 2], slices[len(slices) // 2 :])]
    return max(halves) - min(halves) > 3 * sum(halves) ** 0.5 and max(halves) > _MOVED * min(halves)


def _over_time(slices: Sequence[Slice]) -> list[str]:
    rows: list[tuple[str, ...]] = [("from s", "requests/s due", "failed", "TTFT p50", "TTFT p95", "SLO met")]
    for one in slices:
        met = _NOTHING if one.slo_attainment is None else f"{one.slo_attainment:.0%}"
        rate, failed = f"{one.offered_rps:.3g}", f"{one.failed:,}"
        rows.append((f"{one.from_s:,.1f}", rate, failed, _ms(one.ttft_p50_s), _ms(one.ttft_p95_s), met))
    return table(rows)


def _came(report: LoadReport) -> str:
    if not report.failed:
        return f"{plural(report.requests, 'answer')}, none failed"
    kinds = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in report.failures.items())
    return f"{plural(report.requests - report.failed, 'answer')}; {report.failed:,} failed: {kinds}"


def _carried(report: LoadReport) -> str:
    figures = [
        _figure(report.request_tput_rps, "requests/s"),
        _figure(report.output_tput_tps, "output tokens/s"),
        "" if report.prefix_hit_rate is None else f"prefix hit rate {report.prefix_hit_rate:.1%}",
    ]
    return ", ".join(filter(None, figures)) or "nothing"


def _figure(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.3g} {unit}"


def _kept(report: LoadReport) -> str:
    met = report.slo_attainment
    if met is None:
        return f"{report.slo}: no request to judge"
    good = "" if report.goodput_rps is None else f", {report.goodput_rps:.3g} requests/s"
    return f"{report.slo}: {met.value:.1%} of all requests meet every bound ({met.low:.1%} to {met.high:.1%}){good}"


def _latencies(report: LoadReport) -> list[str]:
    metrics = report.metrics
    answers = [("first answer from due", metrics.ttfa_s)] if report.reasoning_tokens else []
    rows: list[tuple[str, ...]] = [("", "mean", "p50", "p90", "p95", "p99")]
    for name, found in (
        ("TTFT from due", metrics.ttft_s),
        ("TTFT from sent", metrics.ttft_service_s),
        *answers,
        ("TPOT", metrics.tpot_s),
        ("between chunks", metrics.itl_s),
        ("end to end from due", metrics.e2e_s),
        ("end to end from sent", metrics.e2e_service_s),
    ):
        rows += _row(name, found)
    return table(rows)


def _row(name: str, found: Quantiles) -> list[tuple[str, ...]]:
    shown = (found.p50, found.p90, found.p95, found.p99)
    values = (name, _ms(found.mean), *(_ms(one.value if one else None) for one in shown))
    bounds = ("", "", *(_bounds(one) for one in shown))
    return [values, bounds] if any(bounds) else [values]


def _bounds(one: QuantileInterval | None) -> str:
    if one is None or one.low is one.high is None:
        return ""
    return f"{_ms(one.low)} to {_ms(one.high) if one.high is not None else '?'}{' (max)' if one.high_is_max else ''}"


def _ms(value_s: float | None) -> str:
    return _NOTHING if value_s is None else f"{value_s * _MS:,.1f}"


def _server(server: ServerReport) -> list[str]:
    told = [
        f"by the metrics of {server.engine}, read {plural(server.scrapes, 'time')}"
        + (f", {plural(server.missed, 'reading')} missed" if server.missed else ""),
        _gauge("running", server.running),
        _gauge("waiting", server.waiting),
        "" if server.kv_use_max is None else f"KV cache in use {server.kv_use_max:.0%} at most",
        "" if server.preemptions is None else plural(server.preemptions, "preemption"),
        "" if server.prefix_hit_rate is None else f"prefix hit rate {server.prefix_hit_rate:.1%}",
    ]
    return wrapped("; ".join(filter(None, told)), "  ")


def _gauge(name: str, spread: Spread | None) -> str:
    return "" if spread is None else f"{name} {spread.p50:,.0f} in the median, {spread.max:,.0f} at most"


def _client(report: LoadReport) -> list[str]:
    client = report.client
    stamps = "time stamps are this process's own" if client.clock == "user" else "time stamps are the kernel's"
    rows = [
        ("", "p50", "p99", "most"),
        _lag("sent late", client.send_lag_s),
        _lag("received late", client.receive_lag_s),
    ]
    rows.append(_lag("loop stalled", client.loop_stall_s))
    room = "" if client.headroom is None else f"; it could have carried {client.headroom:.2g} times this load"
    return [*table(rows), *wrapped(f"in ms; {stamps}{room}", "  ")]


def _lag(name: str, lag: Lag) -> tuple[str, ...]:
    return name, _ms(lag.p50), _ms(lag.p99), _ms(lag.max)
