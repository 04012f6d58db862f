"""`unmoor check-model`: which engines load a checkpoint and its adapters on which hardware, from their headers."""

from __future__ import annotations

from pathlib import Path

import click

from unmoor.cli.path_name import PATH_NAME

LOST = 3
"""The exit code where something is lost, as of `unmoor move check`."""


@click.command("check-model")
@click.argument("model", type=PATH_NAME)
@click.option(
    "--engine", "engines", metavar="ENGINE[@VERSION]", multiple=True, help="Repeatable; every known one unless given."
)
@click.option(
    "--hardware",
    metavar="NAME",
    multiple=True,
    help="A device (h200) or a kind of hardware; repeatable; all unless given.",
)
@click.option(
    "--adapter", "adapters", type=PATH_NAME, metavar="DIR", multiple=True, help="Adapters for it; repeatable."
)
@click.option("--strict", is_flag=True, help="Refuse a version whose surface is not known.")
@click.option("--hashes", is_flag=True, help="Read every byte of the weights, and tell their files' SHA-256.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/reference/check-model.md).")
@click.option("--sarif", type=PATH_NAME, metavar="OUT", help="Write the findings for code scanning as well.")
@click.option("--page", type=PATH_NAME, metavar="OUT.html", help="Write a page as well.")
@click.pass_context
def command(
    context: click.Context,
    *,
    model: Path,
    engines: tuple[str, ...],
    hardware: tuple[str, ...],
    adapters: tuple[Path, ...],
    strict: bool,
    hashes: bool,
    as_json: bool,
    sarif: Path | None,
    page: Path | None,
) -> None:
    """Say which engines load MODEL on which hardware: natively, with a fallback, or not; and what a move would need.

    MODEL is a checkpoint's folder, or a GGUF file. Headers and configuration are read; nothing is loaded.
    Exit code 0: nothing lost; 3: something is (docs/reference/check-model.md says what counts).
    """
    from urllib.parse import quote

    from unmoor.cli.page_file import write_page
    from unmoor.cli.sarif_file import check_outputs, say, version_here, write_sarif
    from unmoor.engines.surface.concepts import HARDWARE
    from unmoor.engines.surface.load import known_surfaces, surface
    from unmoor.leave.adapters.read import read_adapters
    from unmoor.leave.check_model import check_model
    from unmoor.leave.checkpoint.devices import hardware_kind
    from unmoor.leave.checkpoint.read import read_checkpoint
    from unmoor.leave.checkpoint.weight_hashes import with_weight_hashes
    from unmoor.leave.checks.registry import kinds
    from unmoor.report import model_page, model_sarif, model_text
    from unmoor.report.model_json import to_json

    check_outputs(sarif=sarif, page=page)
    surfaces = [surface(one, where="--engine", strict=strict) for one in engines or known_surfaces()]
    places = list(dict.fromkeys(hardware_kind(one, where="--hardware") for one in hardware)) or list(HARDWARE)
    checkpoint = read_checkpoint(model)
    if hashes:
        checkpoint = with_weight_hashes(checkpoint, model, say)
    found = [one for path in adapters for one in read_adapters(path)]
    report = check_model(checkpoint, found, surfaces, places, all_wanted=bool(engines))
    if sarif is not None:
        write_sarif(sarif, model_sarif.render(report, kinds(), version=version_here(), quoted=quote))
    if page is not None:
        write_page(model_page.render(report, kinds()), page, say, option="--page")
    click.echo(to_json(report) if as_json else model_text.render(report, kinds(), hashed=hashes))
    if report.lost:
        context.exit(LOST)
