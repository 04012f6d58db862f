"""`unmoor exit-plan`: the document on leaving that a risk officer can file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unmoor.cli.path_name import PATH_NAME

if TYPE_CHECKING:
    from unmoor.choose.decide import Measured
    from unmoor.core.decision import Decision
    from unmoor.core.plan import Plan
    from unmoor.core.traffic import Workload
    from unmoor.engines.surface.surface import Surface
    from unmoor.leave.checkpoint.checkpoint import Checkpoint
    from unmoor.leave.exit_plan.exit_plan import ExitPlan, Place, Weights
    from unmoor.leave.gather import Brought
    from unmoor.leave.uses import Uses

_AS_OF = click.DateTime(["%Y-%m-%d"])
_BESIDES = ("adapters", "schemas", "start")


@click.command()
@click.argument("plan", type=PATH_NAME)
@click.option("-o", "--out", type=PATH_NAME, metavar="OUT.md", help="Write it there, not to standard output.")
@click.option("--force", is_flag=True, help="Replace what is at --out.")
@click.option("--html", type=PATH_NAME, metavar="OUT.html", help="Write a page as well.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/reference/exit-plan.md) instead.")
@click.option(
    "--model", type=PATH_NAME, metavar="DIR", help="The weights that are served, in place of the plan's exit.model."
)
@click.option("--no-hashes", is_flag=True, help="Do not read the weights to hash them.")
@click.option("--run", type=PATH_NAME, metavar="RUN", help="Take what the bake-off in this directory measured.")
@click.option(
    "--as-of",
    type=_AS_OF,
    metavar="YYYY-MM-DD",
    help="Date the page, and judge how stale facts are, as on this day [today].",
)
def command(
    *,
    plan: Path,
    out: Path | None,
    force: bool,
    html: Path | None,
    as_json: bool,
    model: Path | None,
    no_hashes: bool,
    run: Path | None,
    as_of: datetime | None,
) -> None:
    """Write what leaving the engine of PLAN would take, as far as is known today.

    What lives outside the runtime and where, what belongs to the engine and its replacement, hardware, licences and
    security contacts, rehearsals, open risks, and when the page goes stale. What PLAN does not record is said to be not
    recorded. No engine is launched; no prompt is shown.
    """
    from unmoor.cli.page_file import write_page
    from unmoor.cli.plan_files import open_plan
    from unmoor.cli.plan_words import check_names, finder
    from unmoor.leave.checks.registry import kinds
    from unmoor.report.exit_plan_page import render

    _check_outputs(out=out, html=html)
    read, text = open_plan(plan)
    check_names(read, finder(plan, text))
    today = as_of.date() if as_of else date.today()  # noqa: DTZ011 - the user's own day is meant
    found = _exit_plan(read, plan.parent, model=model, hash_files=not no_hashes, run=run, today=today)
    if html is not None:
        write_page(render(found, kinds()), html, _say)  # first: where it fails, nothing is printed
    _show(found, out=out, as_json=as_json, force=force)


def _exit_plan(
    plan: Plan, base: Path, *, model: Path | None, hash_files: bool, run: Path | None, today: date
) -> ExitPlan:
    from unmoor.choose.decide import traits_of
    from unmoor.choose.facts import load_facts, load_prices
    from unmoor.leave.exit_plan.assemble import Found, make_exit_plan, sides_of
    from unmoor.leave.exit_plan.moves import moves
    from unmoor.leave.exit_plan.places import places
    from unmoor.leave.exit_plan.withheld import without_secrets

    def resolve(written: str, key: str) -> Path:
        return _resolved(written, base, where=f"plan '{plan.name}', exit.{key}")

    workload, uses = _traffic(plan, base)
    measured = _measured(run, plan, workload)
    decision = _decision(without_secrets(plan), workload, measured, today)
    facts = load_facts()
    traits = traits_of(workload, decision.traffic)
    sides = sides_of(plan, decision, [_surface(one.engine, one.version) for one in decision.candidates], facts, traits,
                     today=today)  # fmt: skip
    kept = _named_here(places(plan.exit, resolve), model)
    folder = model or _there(plan.exit.model, "model", resolve)
    where = f"--model {model}" if model else f"plan '{plan.name}', exit.model"
    checkpoint, weights = _weights(folder, where=where, hash_files=hash_files) if folder else (None, None)
    found = Found(
        decision=decision,
        sides=sides,
        places=kept,
        moves=moves(sides.surface, sides.others, uses, _brought(plan, folder, resolve), say=_say),
        checkpoint=checkpoint,
        weights=weights,
        measured=measured,
        bodies=uses.bodies,
    )
    return make_exit_plan(plan, found, facts, load_prices(), today=today)


def _named_here(kept: Sequence[Place], model: Path | None) -> tuple[Place, ...]:
    """The places, with the weights at `model` where the command line names them."""
    from unmoor.cli.plan_files import shown
    from unmoor.leave.exit_plan.exit_plan import Place
    from unmoor.leave.exit_plan.withheld import withheld

    if model is None:
        return tuple(kept)
    here = Place(what="model", where=withheld(shown(model)), seen="there")
    return tuple(here if place.what == "model" else place for place in kept)


def _traffic(plan: Plan, base: Path) -> tuple[Workload, Uses]:
    """The plan's traffic, and what its requests use: nothing, for a description. Read once for both."""
    from unmoor.cli.plan_files import open_workload, plan_log
    from unmoor.leave.exit_plan.withheld import withheld
    from unmoor.leave.reading.read import UseReader
    from unmoor.leave.uses import Uses
    from unmoor.traffic.conversion import workload_of

    if plan.traffic.synthetic is not None:
        return open_workload(plan, base=base), Uses()
    reader = UseReader()
    log = plan_log(plan, base=base, watch=reader.watch)
    reader.uses.source, reader.uses.format, reader.uses.caveats = withheld(log.source), log.format, log.caveats
    return workload_of(log), reader.uses


def _measured(run: Path | None, plan: Plan, workload: Workload) -> Measured | None:
    from unmoor.cli.measured_run import measured_in

    return measured_in(run, plan, workload.fingerprint) if run else None


def _decision(plan: Plan, workload: Workload, measured: Measured | None, today: date) -> Decision:
    """The verdict by gates, facts and what was measured: a prediction is not what this page rests on."""
    from unmoor.choose.decide import make_decision
    from unmoor.choose.prediction.kernel_tables import NoTable

    def not_asked(*_asked: object) -> NoTable:
        return NoTable(code="no_kernel_table", text="nothing is predicted for an exit plan")

    return make_decision(plan, workload, today=today, effort="coarse", say=_say, measured=measured, tables=not_asked)


def _surface(engine: str, version: str | None) -> Surface | None:
    """The surface of an engine at a version or the nearest; None where none is known of it."""
    from unmoor.engines.surface.load import known_surfaces, surface

    if engine not in known_surfaces():
        return None
    return surface(f"{engine}@{version}" if version else engine, where="the plan's candidates")


def _weights(folder: Path, *, where: str, hash_files: bool) -> tuple[Checkpoint, Weights]:
    from unmoor.leave.checkpoint.read import read_checkpoint
    from unmoor.leave.exit_plan.weights import weights_of

    checkpoint = read_checkpoint(folder, where=where)
    return checkpoint, weights_of(checkpoint, folder, hash_files=hash_files, say=_say)


def _brought(plan: Plan, model: Path | None, resolve: Callable[[str, str], Path]) -> Brought:
    """What the check of a move can look at besides the traffic; what the plan names and is not here is left out."""
    from unmoor.leave.gather import Brought

    table = plan.exit
    dashboards = tuple(path for one in table.dashboards if (path := _there(one, "dashboards", resolve)))
    found = {key: _there(getattr(table, key), key, resolve) for key in _BESIDES}
    return Brought(model=model, dashboards=dashboards, **found)


def _there(written: str | None, key: str, resolve: Callable[[str, str], Path]) -> Path | None:
    """The path where there is something; None where the plan names none, or there is nothing."""
    if written is None:
        return None
    path = resolve(written, key)
    try:
        return path if path.exists() else None
    except OSError:
        return None


def _resolved(written: str, base: Path, *, where: str) -> Path:
    """A path of the plan: relative to its folder, `~` and `$VARS` expanded. Raises PlanError for what cannot be."""
    from unmoor.cli.plan_files import expand
    from unmoor.core.errors import PlanError
    from unmoor.leave.exit_plan.withheld import withheld

    try:
        return base / Path(expand(written, where=where)).expanduser()
    except RuntimeError:
        raise PlanError(
            "no such user's folder",
            where=where,
            seen=withheld(written),
            expected="a path; ~ alone is your own folder, ~NAME that of the user NAME",
            hint="write the path without ~, or set a variable",
        ) from None


def _check_outputs(*, out: Path | None, html: Path | None) -> None:
    """Refuses what could not be written after minutes of hashing. Raises UsageError."""
    from unmoor.cli.out_file import check_places
    from unmoor.cli.page_file import refuse_strange

    check_places({"--out": out, "--html": html}, folders_made=frozenset({"--html"}))
    if html is not None:
        refuse_strange(html, option="--html")


def _say(line: str) -> None:
    click.echo(line, err=True)


def _show(found: ExitPlan, *, out: Path | None, as_json: bool, force: bool) -> None:
    """JSON or Markdown, to standard output or to `out`."""
    from unmoor.cli.out_file import write_out
    from unmoor.leave.checks.registry import kinds
    from unmoor.report.exit_plan_markdown import render

    if as_json:
        import msgspec

        text = msgspec.json.encode(found).decode()
    else:
        text = render(found, kinds())
    if out is None:
        click.echo(text)
        return
    write_out(out, [text.encode(), b"\n"], force=force)
    _say(f"exit plan: {out}")
