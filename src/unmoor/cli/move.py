"""`unmoor move`: what leaving an engine takes; `check` finds it on paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from unmoor.cli.path_name import PATH_NAME

if TYPE_CHECKING:
    from unmoor.leave.finding import MoveReport
    from unmoor.leave.uses import Uses

LOST = 3
"""The exit code where something is lost."""


@click.group("move")
def command() -> None:
    """Leave an engine: find on paper what would break."""


@command.command("check")
@click.option("--from", "source", metavar="ENGINE[@VERSION]", required=True, help="The engine that serves today.")
@click.option("--to", "target", metavar="ENGINE[@VERSION]", required=True, help="The engine to move to.")
@click.option("--traffic", type=PATH_NAME, metavar="LOG", help="Recorded requests: a file, a folder, or -.")
@click.option("--format", "format_name", metavar="NAME", help="The log's format; its first line tells it unless given.")
@click.option("--model", type=PATH_NAME, metavar="DIR", help="The checkpoint that is served: a folder or a GGUF file.")
@click.option("--adapters", type=PATH_NAME, metavar="DIR", help="LoRA adapters that are served.")
@click.option("--schemas", type=PATH_NAME, metavar="DIR", help="JSON schemas beyond those in the log.")
@click.option("--start", type=PATH_NAME, metavar="FILE", help="The command line that starts the engine of today.")
@click.option(
    "--dashboards",
    type=PATH_NAME,
    metavar="PATH",
    multiple=True,
    help="Dashboards, alerts, probes: names in them count; repeatable.",
)
@click.option("--strict", is_flag=True, help="Refuse a version whose surface is not known.")
@click.option("--show-text", is_flag=True, help="Show what the first requests of each finding hold, and their answers.")
@click.option("--brief", is_flag=True, help="Print the verdict, what is lost and errors alone, in some 40 lines.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/reference/move-check.md).")
@click.option("--sarif", type=PATH_NAME, metavar="OUT", help="Write the findings for code scanning as well.")
@click.option("--page", type=PATH_NAME, metavar="OUT.html", help="Write a page as well.")
@click.pass_context
def check(
    context: click.Context,
    *,
    source: str,
    target: str,
    traffic: Path | None,
    format_name: str | None,
    model: Path | None,
    adapters: Path | None,
    schemas: Path | None,
    start: Path | None,
    dashboards: tuple[Path, ...],
    strict: bool,
    show_text: bool,
    brief: bool,
    as_json: bool,
    sarif: Path | None,
    page: Path | None,
) -> int:
    """Class every feature that the recorded traffic uses: the same, translated, or lost.

    Nothing runs, and no text is shown without --show-text. The exit code is 0 where nothing is lost, and 3 where
    something is.
    """
    from unmoor.cli.sarif_file import check_outputs, say
    from unmoor.engines.surface.load import surface
    from unmoor.leave.check import check_move
    from unmoor.leave.gather import Brought, case_of

    brought = Brought(model=model, adapters=adapters, schemas=schemas, start=start, dashboards=dashboards)
    _refuse_nothing(traffic, brought.model, brought.adapters, brought.schemas, brought.start, *dashboards)
    _refuse_pairs(traffic, brief=brief, as_json=as_json, show_text=show_text)
    check_outputs(sarif=sarif, page=page)
    sides = surface(source, where="--from", strict=strict), surface(target, where="--to", strict=strict)
    uses = _uses(traffic, format_name)
    report = check_move(case_of(*sides, uses, brought, say=say))
    if show_text and traffic is not None:
        report = _with_excerpts(report, traffic, format_name)
    if sarif is not None:
        _write_sarif(sarif, report)
    if page is not None:
        _write_page(page, report, private=show_text)
    _show(report, as_json=as_json, brief=brief)
    context.exit(LOST if report.loses else 0)


def _refuse_nothing(*brought: Path | None) -> None:
    from unmoor.core.errors import UsageError

    if all(path is None for path in brought):
        raise UsageError(
            "nothing to check",
            where="--traffic",
            seen="neither traffic nor anything else",
            expected="--traffic LOG, or one of --model, --adapters, --schemas, --start, --dashboards",
            hint="a log of requests tells most: --traffic requests.jsonl",
        )


def _refuse_pairs(traffic: Path | None, *, brief: bool, as_json: bool, show_text: bool) -> None:
    """Raises UsageError for options of which one would do nothing."""
    from unmoor.core.errors import UsageError

    if brief and as_json:
        raise UsageError(
            "two forms of one report",
            where="--brief",
            seen="--brief beside --json",
            expected="one of them",
            hint="the JSON object holds everything; pick from it what is to be brief",
        )
    if brief and show_text:
        raise UsageError(
            "the brief form shows no text",
            where="--show-text",
            seen="--show-text beside --brief",
            expected="one of them",
            hint="without --brief each finding shows its first requests",
        )
    if show_text and (traffic is None or str(traffic) == "-"):
        raise UsageError(
            "no log to show text of",
            where="--show-text",
            seen="no --traffic" if traffic is None else "standard input, which cannot be read twice",
            expected="--traffic with a file or a folder",
            hint="write the log to a file first",
        )


def _with_excerpts(report: MoveReport, traffic: Path, format_name: str | None) -> MoveReport:
    from msgspec.structs import replace

    from unmoor.cli.plan_files import open_traffic
    from unmoor.leave.reading.excerpts import excerpts

    found = excerpts(
        report.findings,
        lambda cutter, watch: open_traffic(traffic, format_name=format_name, cutter=cutter, watch=watch),
    )
    return replace(report, excerpts=found)


def _uses(traffic: Path | None, format_name: str | None) -> Uses:
    from unmoor.cli.plan_files import open_traffic
    from unmoor.leave.reading.read import read_uses
    from unmoor.leave.uses import Uses

    if traffic is None:
        return Uses()
    uses, log = read_uses(
        lambda cutter, watch: open_traffic(traffic, format_name=format_name, cutter=cutter, watch=watch)
    )
    uses.caveats = log.caveats
    return uses


def _write_sarif(out: Path, report: MoveReport) -> None:
    from unmoor.cli.sarif_file import uri_of, version_here, write_sarif
    from unmoor.leave.checks.registry import kinds
    from unmoor.report.move_sarif import render

    write_sarif(out, render(report, kinds(), version=version_here(), uri=uri_of))


def _write_page(out: Path, report: MoveReport, *, private: bool) -> None:
    from unmoor.cli.page_file import write_page
    from unmoor.cli.sarif_file import say
    from unmoor.leave.checks.registry import kinds
    from unmoor.report.move_page import render

    write_page(render(report, kinds()), out, say, option="--page", private=private)


def _show(report: MoveReport, *, as_json: bool, brief: bool) -> None:
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(report))
        return
    from unmoor.leave.checks.registry import kinds
    from unmoor.report.move_text import render, render_brief

    click.echo((render_brief if brief else render)(report, kinds()))
