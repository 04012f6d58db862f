"""`unmoor decide`: a plan in, the verdict out."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from unmoor.choose.decide import Measured
    from unmoor.choose.prediction.kernel_tables import TableFinder
    from unmoor.core.decision import Decision, MendFirst
    from unmoor.core.plan import CandidatePlan, Plan
    from unmoor.core.traffic import Workload
    from unmoor.engines.contract import Engine


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--full", is_flag=True, help="Refine the coarse search of rates; about half a minute for the reference plan."
)
@click.option("--html", type=click.Path(path_type=Path), help="Where to write the page [reports/NAME/report.html].")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output; a page only with --html.")
@click.option("--run", type=click.Path(path_type=Path), help="Take what the bake-off in this directory measured.")
@click.option("--as-of", type=click.DateTime(["%Y-%m-%d"]), help="Judge how stale facts are as on this day [today].")
def command(
    *, plan: Path, full: bool, html: Path | None, as_json: bool, run: Path | None, as_of: datetime | None
) -> None:
    """Say which engine to run for PLAN, why, what it costs, and what speaks against it.

    Gates come first, then evidence that may rank, then what is hard to reverse. Nothing is launched.
    """
    from unmoor.choose.decide import make_decision
    from unmoor.cli.kernel_times import table_finder
    from unmoor.cli.page_file import write_page
    from unmoor.cli.plan_files import open_plan
    from unmoor.core.folder_name import folder_name
    from unmoor.report.decision_page import render

    read, text = open_plan(plan)
    _check_names(read, _finder(plan, text))
    _say(f"plan: {read.name}")
    tables = table_finder()
    workload, mend_first = _traffic(read, plan.parent, tables)
    decision = make_decision(
        read,
        workload,
        today=as_of.date() if as_of else date.today(),  # noqa: DTZ011 - the user's own day is meant
        effort="full" if full else "coarse",
        say=_say,
        measured=_measured(run, read, workload) if run else None,
        tables=tables,
        mend_first=mend_first,
    )
    target = html or (None if as_json else Path("reports") / folder_name(read.name) / "report.html")
    if target is not None:
        write_page(render(decision), target, _say)  # first: where it fails, nothing is printed
    _show(decision, as_json=as_json)


def _traffic(plan: Plan, base: Path, tables: TableFinder) -> tuple[Workload, tuple[MendFirst, ...]]:
    """The plan's traffic, and what to mend in its prompts where it is a log with text."""
    import secrets

    from unmoor.choose.mend_first import WINDOW_BYTES, mend_first
    from unmoor.cli.plan_files import open_workload, plan_log
    from unmoor.traffic.breakers import Watch
    from unmoor.traffic.conversion import workload_of
    from unmoor.traffic.text.pieces import BytesCutter

    if plan.traffic.synthetic is not None:
        return open_workload(plan, base=base), ()
    watch = Watch(WINDOW_BYTES)
    log = plan_log(plan, base=base, watch=watch)
    ratio = log.grain.bytes_per_token if log.grain else None
    if ratio is None:
        return workload_of(log), ()
    cutter = BytesCutter(secrets.token_bytes())
    return workload_of(log), mend_first(plan, watch, cutter, bytes_per_token=ratio, tables=tables)


def _measured(run: Path, plan: Plan, workload: Workload) -> Measured:
    from unmoor.cli.measured_run import measured_in

    return measured_in(run, plan, workload.fingerprint)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _finder(path: Path, text: str) -> Callable[[str], str]:
    """Turns a word of the plan into its place: the first line that quotes it, or sets it as a key; no comment."""
    lines = [line.partition("#")[0] for line in text.splitlines()]

    def where(word: str) -> str:
        told = re.compile(rf"""["']{re.escape(word)}["']|(^|[{{,.\s]){re.escape(word)}\s*=""")
        line = next((n for n, line in enumerate(lines, 1) if told.search(line)), None)
        return f"{path}:{line}" if line else str(path)

    return where


def _check_names(plan: Plan, where: Callable[[str], str]) -> None:
    from unmoor.choose.devices import check_device
    from unmoor.choose.facts import load_facts
    from unmoor.choose.gates import check_gate_words
    from unmoor.engines.registry import engine

    for candidate in plan.candidates:
        _check_settings(engine(candidate.engine, where=where(candidate.engine)), candidate, where)
    engine(plan.default_engine, where=where(plan.default_engine))
    check_device(plan.hardware, where=where)
    check_gate_words(plan.gates, load_facts(), where=where)


def _check_settings(found: Engine, candidate: CandidatePlan, where: Callable[[str], str]) -> None:
    """An unknown knob with its place in the plan, before any traffic is read."""
    from unmoor.core.errors import PlanError, UsageError
    from unmoor.engines.knobs import refuse_unknown

    for name, value in candidate.settings.items():
        try:
            refuse_unknown(found.title, found.knobs, {name: value})
        except UsageError as error:
            raise PlanError(
                error.message, where=where(name), seen=error.seen, expected=error.expected, hint=error.hint
            ) from None


def _show(decision: Decision, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(decision))
        return
    from unmoor.report.decision_text import render

    click.echo(render(decision))
