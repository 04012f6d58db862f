"""`unmoor check-results`: what in a benchmark client's result file cannot be trusted, and why."""

from __future__ import annotations

from pathlib import Path

import click

from unmoor.cli.path_name import PATH_NAME
from unmoor.cli.positive_number import positive_number

VOID = 3
"""The exit code where a figure of the file cannot be used."""
_MS = 1000


@click.command("check-results")
@click.argument("file", type=PATH_NAME)
@click.option("--format", "format_name", metavar="NAME", help="Whose file it is; without it, what is in it tells.")
@click.option("--ttft-ms", type=positive_number, metavar="MS", help="How many of its requests meet this bound.")
@click.option("--tpot-ms", type=positive_number, metavar="MS", help="The same, per output token after the first.")
@click.option("--e2e-ms", type=positive_number, metavar="MS", help="The same, end to end.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/reference/check-results.md).")
@click.pass_context
def command(  # noqa: PLR0917 - click's
    context: click.Context,
    file: Path,
    format_name: str | None,
    ttft_ms: float | None,
    tpot_ms: float | None,
    e2e_ms: float | None,
    as_json: bool,  # noqa: FBT001 - click's
) -> None:
    """Say what in the result file FILE of a benchmark client cannot be trusted, and why.

    Formats: vllm-bench, sglang-bench, guidellm, aiperf, aiperf-records, inferencex, unmoor-records, unmoor-load. What
    the file's own requests give is recomputed, with bounds. No text of a prompt or an answer is read. The exit code is
    3 where a figure cannot be used.
    """
    import msgspec

    from unmoor.core.slo import Slo
    from unmoor.measure.results.check import check_results
    from unmoor.measure.results.formats import read_results
    from unmoor.report.results_text import render

    bounds = [None if bound is None else bound / _MS for bound in (ttft_ms, tpot_ms, e2e_ms)]
    slo = None if bounds == [None] * 3 else Slo(ttft_s=bounds[0], tpot_s=bounds[1], e2e_s=bounds[2])
    report = check_results(read_results(file, format_name), slo)
    click.echo(msgspec.json.encode(report).decode() if as_json else render(report, file.name))
    context.exit(VOID if report.void else 0)
