"""`unmoor report`: a saved run, rendered again."""

from __future__ import annotations

from pathlib import Path

import click

from unmoor.cli.path_name import PATH_NAME


@click.command()
@click.argument("run", type=PATH_NAME)
@click.option("--html", type=PATH_NAME, help="Write the page here.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(*, run: Path, html: Path | None, as_json: bool) -> None:
    """Render the bake-off in the directory RUN again, from that directory alone. Nothing is launched."""
    from unmoor.bakeoff.summary import summarise
    from unmoor.cli.bakeoff import show
    from unmoor.measure.run_store import StoredRun

    show(summarise(StoredRun(run)), as_json=as_json, html=html)
