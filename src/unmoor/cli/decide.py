"""`unmoor decide`: a plan in, the verdict out."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unmoor.cli.path_name import PATH_NAME

if TYPE_CHECKING:
    from unmoor.choose.decide import Measured
    from unmoor.choose.prediction.kernel_tables import TableFinder
    from unmoor.core.decision import Decision, MendFirst
    from unmoor.core.plan import Plan
    from unmoor.core.traffic import Workload


@click.command()
@click.argument("plan", type=PATH_NAME)
@click.option(
    "--full", is_flag=True, help="Refine the coarse search of rates; about half a minute for the reference plan."
)
@click.option("--html", type=PATH_NAME, help="Where to write the page [reports/NAME/report.html].")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output; a page only with --html.")
@click.option("--run", type=PATH_NAME, help="Take what the bake-off in this directory measured.")
@click.option(
    "--as-of",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="Judge how stale facts are as on this day [today].",
)
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
    from unmoor.cli.plan_words import check_names, finder
    from unmoor.core.folder_name import folder_name
    from unmoor.report.decision_page import render

    read, text = open_plan(plan)
    check_names(read, finder(plan, text))
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


def _show(decision: Decision, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(decision))
        return
    from unmoor.report.decision_text import render

    click.echo(render(decision))
