"""`unmoor bakeoff`: real engines on this machine, tuned and compared."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unmoor.cli.path_name import PATH_NAME

if TYPE_CHECKING:
    from unmoor.bakeoff.block import Entrant
    from unmoor.bakeoff.result import BakeoffResult, Skipped
    from unmoor.core.plan import CandidatePlan, Plan

INTERRUPTED = 130  # 128 + SIGINT, as shells report it


@click.command()
@click.argument("plan", type=PATH_NAME)
@click.option("--runs", type=PATH_NAME, default=Path("runs"), show_default=True, help="Where runs are kept.")
@click.option("--html", type=PATH_NAME, help="Write the page here.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(*, plan: Path, runs: Path, html: Path | None, as_json: bool) -> int:
    """Launch the engines of PLAN here, try settings of each on its traffic, and compare them.

    PLAN's hardware must be "cpu", this machine: what is measured here says nothing of an accelerator.

    Every request is kept as it ends. The same command resumes what is missing and repeats nothing.
    """
    from importlib.metadata import version

    from unmoor.bakeoff.machine import require_this_machine
    from unmoor.bakeoff.plan_check import check_left_out, check_names
    from unmoor.bakeoff.road import Order, run_bakeoff
    from unmoor.cli.plan_files import open_plan, open_workload

    read, text = open_plan(plan)
    require_this_machine(read, text, where=str(plan))
    check_names(read, text, where=str(plan))
    workload = open_workload(read, base=plan.parent)
    check_left_out(read, text, len(workload.requests), where=str(plan))
    entrants, skipped = _entrants(read, where=str(plan))
    order = Order(
        plan=read,
        plan_text=text,
        workload=workload,
        entrants=entrants,
        skipped=skipped,
        version=version("unmoor"),
        today=date.today().isoformat(),  # noqa: DTZ011 - the user's own day is meant
    )
    end = run_bakeoff(order, runs=runs, say=_say)
    try:
        show(end.result, as_json=as_json, html=html)
    finally:
        _say(f"run: {end.path}")
    if end.interrupted:
        return INTERRUPTED
    if end.error is not None:
        raise end.error
    return 0


def _say(line: str) -> None:
    click.echo(line, err=True)


def _entrants(plan: Plan, *, where: str) -> tuple[tuple[Entrant, ...], tuple[Skipped, ...]]:
    """Who takes part, and who does not because the plan calls it optional and it is not here."""
    from unmoor.bakeoff.result import Skipped
    from unmoor.core.errors import EngineMissingError

    entrants, skipped = [], []
    missing: EngineMissingError | None = None
    for candidate in plan.candidates:
        try:
            entrants.append(_entrant(candidate, plan, where=where))
        except EngineMissingError as error:
            if not candidate.optional:
                raise
            missing = missing or error
            reason = f"{error.message} ({error.hint})" if error.hint else error.message
            skipped.append(Skipped(engine=candidate.engine, reason=reason))
            _say(f"skipped, as the plan allows: {candidate.engine}: {reason}")
    if missing is not None and not entrants:
        raise missing
    return tuple(entrants), tuple(skipped)


def _entrant(candidate: CandidatePlan, plan: Plan, *, where: str) -> Entrant:
    from unmoor.bakeoff.block import Entrant
    from unmoor.bakeoff.ledger import Contender
    from unmoor.core.errors import EngineMissingError
    from unmoor.engines.registry import engine
    from unmoor.launch.environments import require
    from unmoor.launch.models import require_model

    adapter = engine(candidate.engine, where=where)
    if adapter.install is None:
        raise EngineMissingError(
            f"{adapter.title} cannot be launched here",
            where=where,
            seen=f"engine = '{candidate.engine}'",
            hint=f"{adapter.absent_reason}; leave it out of this plan, or mark it optional",
        )
    environment = require(candidate.engine)
    if candidate.version not in {None, environment.version}:
        raise EngineMissingError(
            f"{adapter.title} is here in another version than the plan asks for",
            where=where,
            seen=environment.version,
            expected=str(candidate.version),
            hint="change candidates.version in the plan, or leave it out",
        )
    return Entrant(
        engine=adapter,
        contender=Contender(
            engine=adapter.name, title=adapter.title, version=environment.version, weights=adapter.cpu_weights
        ),
        python=environment.python,
        model_dir=require_model(plan.model.name, [adapter.model_format]).root,
        pinned=candidate.settings,
    )


def show(result: BakeoffResult, *, as_json: bool, html: Path | None) -> None:
    """Writes the page where one is asked for, then prints the result to standard output, as text or as JSON."""
    import msgspec

    from unmoor.cli.page_file import write_page
    from unmoor.report import run_page, run_text

    if html is not None:
        write_page(run_page.render(result), html, _say)
    click.echo(msgspec.json.encode(result) if as_json else run_text.render(result))
