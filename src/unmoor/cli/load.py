"""`unmoor load`: traffic sent to an engine that runs here, and what came of it."""

from __future__ import annotations

import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Self

import click

from unmoor.cli.load_asks import AskOptions, ask_options, asked_of, forms_of, mix_of
from unmoor.cli.load_beside import BesideOptions, beside_options, headroom_of, shared_by_what_was_sent, watch
from unmoor.cli.load_pace import PaceOptions, SloOptions, pace_options, pacing_of, slo_of, slo_options
from unmoor.cli.load_traffic import TrafficOptions, traffic_options, workload_to_send
from unmoor.cli.path_name import PATH_NAME
from unmoor.cli.plain_text import plain_text
from unmoor.cli.whole_number import WholeNumber

if TYPE_CHECKING:
    from collections.abc import Callable

    from unmoor.cli.record_file import RecordFile
    from unmoor.core.record import Record
    from unmoor.core.traffic import Workload
    from unmoor.measure.ask_mix import AskMix
    from unmoor.measure.client.load import PlannedRequest, Target
    from unmoor.measure.figures.load_report import LoadReport, Sent

VOID = 3
"""The exit code of a run whose figures may not be used."""
INTERRUPTED = 130
_MOST_SEED = 2**63 - 1
"""As engines take it."""


@click.command("load")
@click.argument("url", required=False, type=plain_text)
@traffic_options
@pace_options
@click.option(
    "--model", type=plain_text, metavar="NAME", help="The model's name there; asked of the server unless given."
)
@ask_options
@slo_options
@click.option(
    "--seed",
    type=WholeNumber(0, _MOST_SEED),
    metavar="N",
    help="The same prompts as another run with N; a cache may know them.",
)
@click.option("--records", type=PATH_NAME, metavar="OUT", help="Keep every request as a JSON line as it ends.")
@click.option("--parquet", type=PATH_NAME, metavar="OUT", help="Every request as a Parquet file too, at the end.")
@beside_options
@click.option("--self-check", is_flag=True, help="Without URL: say what this machine's client can carry.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/reference/load.md).")
def command(
    url: str | None,
    *,
    traffic: TrafficOptions,
    pace: PaceOptions,
    model: str | None,
    asks: AskOptions,
    bounds: SloOptions,
    seed: int | None,
    records: Path | None,
    parquet: Path | None,
    beside: BesideOptions,
    self_check: bool,
    as_json: bool,
) -> int:
    """Send traffic to the engine at URL, on this machine, on an absolute schedule, and report what came back.

    Prompts are made of words, as long as the traffic's by the server's own count, and new in each run. Latencies run
    from when a request was due. The exit code is 3 where no figure may be used: the report says why.
    """
    if url is None or self_check:
        return _checked(url, self_check=self_check, as_json=as_json)
    from unmoor.cli.log_cutter import token_cutter_for
    from unmoor.cli.out_file import check_places
    from unmoor.cli.record_file import RecordFile, check_parquet, write_parquet
    from unmoor.measure.client.load import Target
    from unmoor.measure.figures.load_report import Sent
    from unmoor.measure.server.served import only_served_name

    forms = forms_of(asks)
    mix = mix_of(asks, forms, model_given=model is not None)
    count = token_cutter_for(asks.tokenizer).count_answer if asks.tokenizer is not None else None
    pacing = pacing_of(pace, rate_given=traffic.rate is not None)
    endless = pace.until_ttft_p95 is not None or (pace.concurrency is not None and pace.duration is not None)
    workload = workload_to_send(traffic, seed=seed, duration_s=pace.duration, endless=endless)
    check_places({"--records": records, "--parquet": parquet})
    check_parquet(parquet)
    with RecordFile(records) as kept:
        name = model or (mix.names[0] if mix.names else only_served_name(url))
        target = Target(url=url, served_name=name, endpoint=asks.endpoint, form=forms[0])
        sent = Sent(
            target=target.url,
            model=", ".join(mix.names) or name,
            endpoint=target.endpoint,
            asked=asked_of(forms, mix),
            input_tokens={index: one.input_tokens for index, one in enumerate(workload.requests)},
            slo=slo_of(bounds),
            pacing=pacing,
            warm_up_s=pace.warm_up,
            cool_down_s=pace.cool_down,
        )
        report = _measured(target, workload, sent, kept, pace=pace, mix=mix, beside=beside, seed=seed, count=count)
        unwritten = write_parquet(parquet, kept.records)
        _show(report, as_json=as_json)
        kept.raise_if_lost()
        if unwritten is not None:
            raise unwritten
    if report.partial or report.client.headroom_stopped:
        return INTERRUPTED
    return VOID if report.void else 0


def _measured(
    target: Target,
    workload: Workload,
    sent: Sent,
    kept: RecordFile,
    *,
    pace: PaceOptions,
    mix: AskMix,
    beside: BesideOptions,
    seed: int | None,
    count: Callable[[str], int] | None,
) -> LoadReport:
    from msgspec.structs import replace

    from unmoor.measure.client.replay import replay
    from unmoor.measure.figures.load_doubts import Beside
    from unmoor.measure.figures.load_report import load_report
    from unmoor.measure.figures.narrow_enough import NarrowEnough
    from unmoor.measure.prompts import not_asked_for
    from unmoor.measure.server.server_watch import reset_cache

    undealt, overhead_tokens = _planned(target, workload, timeout_s=pace.timeout, seed=seed)
    planned = mix.dealt(undealt, seed=seed)
    if beside.reset_cache:
        reset_cache(target.url)
    narrow = NarrowEnough(pace.until_ttft_p95 / 100, warm_up_s=pace.warm_up) if pace.until_ttft_p95 else None
    kept.begin()
    with watch(beside, target.url) as watched, _Progress(len(planned)) as progress:

        def sink(record: Record) -> None:
            kept.append(record)
            progress.step()
            if narrow is not None:
                narrow.note(record)

        replayed = replay(
            target,
            planned,
            sink=sink,
            timeout_s=pace.timeout,
            slo=sent.slo,
            stop=kept.failed,
            enough=None if narrow is None else narrow.enough,
            pacing=sent.pacing,
            count=count,
        )
    found = Beside(
        server=None if watched is None else watched.report,
        watched=watched is not None,
        shared_at_most=shared_by_what_was_sent(workload, kept.records, overhead_tokens=overhead_tokens),
        headroom=None if replayed.partial else headroom_of(beside, planned, kept.records, sent.slo),
    )
    report = load_report(sent, kept.records, replayed, found)
    silent = not_asked_for(workload.requests, sent.pacing)
    unsure = () if narrow is None or replayed.partial else narrow.caveats()
    return replace(report, caveats=(*workload.caveats, *silent, *report.caveats, *unsure, *kept.caveats()))


def _checked(url: str | None, *, self_check: bool, as_json: bool) -> int:
    """What this machine can carry, and its exit code. Raises UsageError unless that, or a load, was asked for."""
    from unmoor.cli.option_group import by_user
    from unmoor.cli.self_check import print_self_check
    from unmoor.core.errors import UsageError

    others = [name for name in by_user(click.get_current_context()) if name not in {"--self-check", "--json"}]
    if self_check and others:
        raise UsageError(
            "an option of a load",
            where=others[0],
            seen=f"{others[0]} beside --self-check",
            expected="--self-check, and --json at most",
            hint="--headroom says what this client can carry at the shape of a load",
        )
    if (url is None) is not self_check:
        raise UsageError(
            "one thing to load is needed",
            where="unmoor load",
            seen="neither URL nor --self-check" if url is None else "URL and --self-check",
            expected="URL, or --self-check alone",
            hint="unmoor load http://127.0.0.1:8000",
        )
    return print_self_check(as_json=as_json)


def _planned(
    target: Target, workload: Workload, *, timeout_s: float, seed: int | None
) -> tuple[tuple[PlannedRequest, ...], int]:
    """The requests to send, as long as the traffic's once the server has said what its template adds; and how much.

    Raises WorldError where the first request, which asks that, is not answered; KeyboardInterrupt where it is stopped.
    """
    import secrets

    from unmoor.core.errors import WorldError
    from unmoor.measure.prompts import PROBE_TOKENS, ask_once, foreign, overhead_of, planned_requests

    salt = secrets.token_hex(8) if seed is None else f"seed/{seed}"
    probe = ask_once(target, foreign(PROBE_TOKENS), overhead_tokens=0, salt=f"warm-up/{salt}", timeout_s=timeout_s)
    if probe is None:
        raise KeyboardInterrupt
    if not probe.ok:
        raise WorldError(
            "the first request was not answered",
            where=target.url,
            seen=f"{probe.outcome.value}: {probe.error}" if probe.error else probe.outcome.value,
            expected="an answer that streams" if target.form.stream else "an answer",
            hint="--model and --endpoint say what is asked for; the server's log says more",
        )
    indices, overhead = range(len(workload.requests)), overhead_of(probe)
    return planned_requests(workload.requests, indices, overhead_tokens=overhead, salt=salt, seed=seed), overhead


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
