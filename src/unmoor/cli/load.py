"""`unmoor load`: traffic sent to an engine that runs here, and what came of it."""

from __future__ import annotations

import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Self

import click

from unmoor.cli.path_name import PATH_NAME

if TYPE_CHECKING:
    from unmoor.core.record import Record
    from unmoor.core.slo import Slo
    from unmoor.core.traffic import Workload
    from unmoor.measure.load import Target
    from unmoor.measure.load_report import LoadReport

VOID = 3
"""The exit code of a run whose figures may not be used."""
INTERRUPTED = 130
_MOST_REQUESTS = 1_000_000
_LEAST_BURSTY, _MOST_BURSTY = 0.01, 100.0
_DEFAULTS: dict[str, float] = {"requests": 100, "rate_rps": 1.0, "input_tokens": 200, "output_tokens": 32}


@click.command("load")
@click.argument("url")
@click.option(
    "--traffic", type=PATH_NAME, metavar="LOG", help="Replay this log, or a description (.toml), at its own times."
)
@click.option("--format", "format_name", metavar="NAME", help="The log's format; its first line tells it unless given.")
@click.option("--rate", type=float, metavar="RPS", help="Requests per second: of a log, its time is stretched. [1]")
@click.option("--burstiness", type=float, metavar="CV", help="Of gaps without --traffic: 1 is Poisson, 0 constant. [1]")
@click.option("--requests", type=int, metavar="N", help="So many requests; of a log its first N. [100]")
@click.option("--input-tokens", type=int, metavar="N", help="Mean prompt without --traffic. [200]")
@click.option("--output-tokens", type=int, metavar="N", help="Mean answer without --traffic. [32]")
@click.option("--model", metavar="NAME", help="The model's name there; asked of the server unless given.")
@click.option("--endpoint", type=click.Choice(["chat", "completions"]), default="chat", show_default=True)
@click.option("--ttft-ms", type=float, metavar="MS", help="SLO: time to first token, from when a request was due.")
@click.option("--tpot-ms", type=float, metavar="MS", help="SLO: time per output token after the first.")
@click.option("--e2e-ms", type=float, metavar="MS", help="SLO: time to the last token, from when a request was due.")
@click.option("--warm-up", type=float, default=0.0, metavar="S", help="Leave the first S seconds out of figures.")
@click.option("--timeout", type=float, default=600.0, show_default=True, metavar="S", help="Given up after S seconds.")
@click.option("--seed", type=int, metavar="N", help="The same prompts as another run with N; a cache may know them.")
@click.option("--records", type=PATH_NAME, metavar="OUT", help="Keep every request as a JSON line as it ends.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/reference/load.md).")
@click.pass_context
def command(  # noqa: PLR0917 - click's
    context: click.Context,
    url: str,
    traffic: Path | None,
    format_name: str | None,
    rate: float | None,
    burstiness: float | None,
    requests: int | None,
    input_tokens: int | None,
    output_tokens: int | None,
    model: str | None,
    endpoint: str,
    ttft_ms: float | None,
    tpot_ms: float | None,
    e2e_ms: float | None,
    warm_up: float,
    timeout: float,
    seed: int | None,
    records: Path | None,
    as_json: bool,  # noqa: FBT001 - click's
) -> int:
    """Send traffic to the engine at URL, on this machine, on an absolute schedule, and report what came back.

    Prompts are made of words, as long as the traffic's by the server's own count, and new in each run. Latencies run
    from when a request was due. The exit code is 3 where the client itself was too late for the figures to be used.
    """
    from unmoor.measure.load import Target
    from unmoor.measure.served import only_served_name

    _check({"--rate": rate, "--timeout": timeout, "--ttft-ms": ttft_ms, "--tpot-ms": tpot_ms, "--e2e-ms": e2e_ms})
    _check({"--warm-up": warm_up}, zero=True)
    _check_burstiness(burstiness)
    _check({"--requests": requests, "--input-tokens": input_tokens, "--output-tokens": output_tokens})
    described = {"--burstiness": burstiness, "--input-tokens": input_tokens, "--output-tokens": output_tokens}
    if traffic is not None:
        _refuse_beside_traffic(described)
        workload = _replayed(traffic, format_name=format_name, rate=rate, requests=requests)
    else:
        workload = _described(
            requests=requests,
            rate_rps=rate,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            burstiness=burstiness,
            seed=seed,
        )
    name = model or only_served_name(url)
    target = Target(url=url, served_name=name, endpoint="chat" if endpoint == "chat" else "completions")
    report = _send(
        target,
        workload,
        slo=_slo(ttft_ms, tpot_ms, e2e_ms),
        warm_up_s=warm_up,
        timeout_s=timeout,
        seed=seed,
        records=records,
    )
    _show(report, as_json=as_json)
    if report.partial:
        context.exit(INTERRUPTED)
    context.exit(VOID if report.void else 0)


def _check(options: dict[str, float | None], *, zero: bool = False) -> None:
    """Raises UsageError for a number that is none of that sort."""
    from math import isfinite

    from unmoor.core.errors import UsageError

    for name, value in options.items():
        if value is not None and not (isfinite(value) and (value > 0 or (zero and value == 0))):
            raise UsageError(
                "no such amount",
                where=name,
                seen=f"{value:g}",
                expected="a number of at least 0" if zero else "a number above 0",
                hint=f"leave {name} out for its default",
            )


def _check_burstiness(variation: float | None) -> None:
    from unmoor.core.errors import UsageError

    if variation not in {None, 0} and not (_LEAST_BURSTY <= (variation or 0) <= _MOST_BURSTY):
        raise UsageError(
            "no such variation of gaps",
            where="--burstiness",
            seen=f"{variation:g}",
            expected=f"0, or a number from {_LEAST_BURSTY:g} to {_MOST_BURSTY:g}",
            hint="1 is Poisson, 0 the same gap each time",
        )


def _refuse_beside_traffic(described: dict[str, float | int | None]) -> None:
    from unmoor.core.errors import UsageError

    given = [name for name, value in described.items() if value is not None]
    if given:
        raise UsageError(
            "an option of traffic that is described here",
            where=given[0],
            seen=f"{given[0]} beside --traffic",
            expected="one of them",
            hint="a log has its own lengths and gaps; --rate stretches its time",
        )


def _described(**told: float | None) -> Workload:
    """Traffic with these keys of a description; those that are None have their defaults."""
    import msgspec

    from unmoor.core.errors import UsageError
    from unmoor.core.plan import SyntheticTraffic
    from unmoor.traffic.synthesis import synthesise

    chosen = _DEFAULTS | {key: value for key, value in told.items() if value is not None}
    if chosen["requests"] > _MOST_REQUESTS:
        raise UsageError(
            "too many requests for one run",
            where="--requests",
            seen=f"{chosen['requests']:,}",
            expected=f"{_MOST_REQUESTS:,} at most",
            hint="their prompts are made before the first is sent",
        )
    return synthesise(msgspec.convert(chosen, SyntheticTraffic))


def _replayed(path: Path, *, format_name: str | None, rate: float | None, requests: int | None) -> Workload:
    from msgspec.structs import replace

    from unmoor.cli.plan_files import open_traffic, read_text
    from unmoor.core.errors import PlanError, UsageError
    from unmoor.core.plan_text import read_description
    from unmoor.traffic.conversion import workload_of
    from unmoor.traffic.synthesis import synthesise

    if path.suffix == ".toml" and format_name is None:
        text = read_text(path, error=PlanError, expected="a description in TOML", hint="or name a log")
        workload = synthesise(read_description(text, where=str(path)))
    else:
        workload = workload_of(open_traffic(path, format_name=format_name))
    chosen = workload.requests[:requests]
    if rate is not None:
        span_s = chosen[-1].arrival_s - chosen[0].arrival_s
        if not span_s:
            raise UsageError(
                "no time to stretch",
                where="--rate",
                seen="requests that all came at one moment" if len(chosen) > 1 else "one request",
                expected="a log with requests at several times",
                hint="leave --rate out, or describe the traffic with --requests, --input-tokens and --output-tokens",
            )
        scale = (len(chosen) - 1) / span_s / rate
        chosen = tuple(replace(request, arrival_s=request.arrival_s * scale) for request in chosen)
    return replace(workload, requests=chosen)


def _slo(ttft_ms: float | None, tpot_ms: float | None, e2e_ms: float | None) -> Slo | None:
    from unmoor.core.slo import Slo

    if ttft_ms is tpot_ms is e2e_ms is None:
        return None

    def seconds(bound_ms: float | None) -> float | None:
        return None if bound_ms is None else bound_ms / 1000

    return Slo(ttft_s=seconds(ttft_ms), tpot_s=seconds(tpot_ms), e2e_s=seconds(e2e_ms))


def _send(
    target: Target,
    workload: Workload,
    *,
    slo: Slo | None,
    warm_up_s: float,
    timeout_s: float,
    seed: int | None,
    records: Path | None,
) -> LoadReport:
    import secrets

    from msgspec.structs import replace

    from unmoor.cli.record_file import RecordFile
    from unmoor.core.errors import WorldError
    from unmoor.measure.load_report import Sent, load_report
    from unmoor.measure.prompts import PROBE_TOKENS, ask_once, foreign, overhead_of, planned_requests
    from unmoor.measure.replay import replay

    salt = secrets.token_hex(8) if seed is None else f"seed/{seed}"
    with RecordFile(records) as kept:
        probe = ask_once(target, foreign(PROBE_TOKENS), overhead_tokens=0, salt=f"warm-up/{salt}", timeout_s=timeout_s)
        if probe is None:
            raise KeyboardInterrupt
        if not probe.ok:
            raise WorldError(
                "the first request was not answered",
                where=target.url,
                seen=f"{probe.outcome.value}: {probe.error}" if probe.error else probe.outcome.value,
                expected="an answer that streams",
                hint="--model and --endpoint say what is asked for; the server's log says more",
            )
        overhead = overhead_of(probe)
        planned = planned_requests(
            workload.requests, range(len(workload.requests)), overhead_tokens=overhead, salt=salt, seed=seed
        )
        with _Progress(len(planned)) as progress:

            def sink(record: Record) -> None:
                kept.append(record)
                progress.step()

            replayed = replay(target, planned, sink=sink, timeout_s=timeout_s, slo=slo, stop=kept.failed)
        sent = Sent(
            target=target.url,
            model=target.served_name,
            endpoint=target.endpoint,
            input_tokens={index: max(one.input_tokens, overhead + 1) for index, one in enumerate(workload.requests)},
            slo=slo,
            warm_up_s=warm_up_s,
        )
        report = load_report(sent, kept.records, replayed)
        return replace(report, caveats=(*workload.caveats, *report.caveats, *kept.caveats()))


class _Progress:
    """A line on a terminal that says how many requests have ended; nothing where there is no terminal."""

    def __init__(self, planned: int) -> None:
        self._planned, self._ended = planned, 0
        self._shown = sys.stderr is not None and sys.stderr.isatty()
        self._told_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            click.echo("\r" + " " * 40 + "\r", err=True, nl=False)

    def step(self) -> None:
        """One more has ended; the line is written once a second at most."""
        self._ended += 1
        if self._shown and monotonic() - self._told_s >= 1:
            self._told_s = monotonic()
            click.echo(f"\r{self._ended:,} of {self._planned:,} requests", err=True, nl=False)


def _show(report: LoadReport, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(report))
        return
    from unmoor.report.load_text import render

    click.echo(render(report))
