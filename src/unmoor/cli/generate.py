"""`unmoor generate`: reproducible traffic from a description, or the twin of a log from its fingerprint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unmoor.cli.path_name import PATH_NAME

if TYPE_CHECKING:
    from unmoor.core.traffic import Workload


@click.command("generate")
@click.argument("description", type=PATH_NAME, required=False)
@click.option("-o", "--output", metavar="OUT", type=PATH_NAME, help="Where to write; else to stdout.")
@click.option("--force", is_flag=True, help="Replace OUT though it holds something else.")
@click.option("--json", "as_json", is_flag=True, help="Say as one JSON object what was written; needs -o.")
@click.option(
    "--twin",
    metavar="FINGERPRINT",
    type=PATH_NAME,
    help="Instead of DESCRIPTION: copy the log behind this fingerprint, with invented words.",
)
@click.option("--seed", metavar="N", type=int, help="Of the twin's words: another seed, other words. [default: 0]")
@click.option("--requests", metavar="N", type=int, help="Only the first N requests of the twin.")
@click.option("--rate", metavar="RPS", type=float, help="The twin's mean rate: time is stretched, or drawn if unknown.")
def command(
    description: Path | None,
    output: Path | None,
    *,
    force: bool,
    as_json: bool,
    twin: Path | None,
    seed: int | None,
    requests: int | None,
    rate: float | None,
) -> None:
    """Make the traffic that DESCRIPTION (TOML) describes, or a twin: the same bytes for the same input, anywhere."""
    import hashlib

    import msgspec

    from unmoor.cli.out_file import PRIVATE, write_out
    from unmoor.core.errors import UsageError
    from unmoor.traffic.synthesis import to_jsonl

    if as_json and output is None:
        raise UsageError(
            "nowhere to write the traffic",
            where="--json",
            seen="--json without -o",
            expected="-o OUT beside --json",
            hint="without --json the traffic itself goes to standard output",
        )
    of_twins = {"--seed": seed, "--requests": requests, "--rate": rate}
    _check(description, twin, of_twins)
    workload, made_by = (
        _twin(twin, seed=seed or 0, requests=requests, rate_rps=rate) if twin else _described(description or Path())
    )
    content = to_jsonl(workload, made_by={"verb": "unmoor generate", **made_by})
    for caveat in workload.caveats:
        click.echo(f"caveat: {caveat.text}", err=True)
    if output is None:
        click.echo(content, nl=False)
        return
    written = write_out(output, [content], force=force, mode=PRIVATE if twin else 0o644)
    report = {
        "path": str(output),
        "written": written,
        "requests": len(workload.requests),
        "bytes": len(content),
        "fingerprint": hashlib.sha256(content).hexdigest(),
    }
    said = f"{output}: {report['requests']} requests, {'written' if written else 'unchanged'}"
    click.echo(msgspec.json.encode(report) if as_json else said)


def _check(description: Path | None, twin: Path | None, of_twins: dict[str, float | None]) -> None:
    """Raises UsageError unless there is one thing to make traffic from, with options that are meant for it."""
    from math import isfinite

    from unmoor.core.errors import UsageError

    if (description is None) == (twin is None):
        raise UsageError(
            "one thing to make traffic from is needed",
            where="unmoor generate",
            seen="neither" if description is None else "both a description and a fingerprint",
            expected="DESCRIPTION.toml, or --twin FINGERPRINT",
            hint="examples/agents/traffic.toml is a description; `unmoor profile LOG --fingerprint OUT` writes one",
        )
    given = [name for name, value in of_twins.items() if value is not None]
    if twin is None and given:
        raise UsageError(
            "an option of twins",
            where=given[0],
            seen=f"{given[0]} beside a description",
            expected="it beside --twin",
            hint="a description has keys for these: seed, requests, rate_rps",
        )
    rate = of_twins["--rate"]
    if rate is not None and not (isfinite(rate) and rate > 0):
        raise UsageError(
            "no rate",
            where="--rate",
            seen=str(rate),
            expected="requests per second, above 0",
            hint="0.5 is one request in two seconds; without --rate the log's own times stay",
        )


def _described(path: Path) -> tuple[Workload, dict[str, Any]]:
    import msgspec

    from unmoor.cli.plan_files import read_text
    from unmoor.core.errors import PlanError
    from unmoor.core.plan_text import read_description
    from unmoor.traffic.synthesis import synthesise

    hint = "examples/agents/traffic.toml is one"
    text = read_text(path, error=PlanError, expected="a description in TOML", hint=hint)
    described = read_description(text, where=str(path))
    return synthesise(described), {"description": msgspec.to_builtins(described)}


def _twin(path: Path, *, seed: int, requests: int | None, rate_rps: float | None) -> tuple[Workload, dict[str, Any]]:
    from unmoor.cli.plan_files import open_traffic
    from unmoor.traffic.twin import twin_of

    traffic = open_traffic(path, format_name="fingerprint")
    twin = twin_of(traffic, seed=seed, requests=requests, rate_rps=rate_rps)
    return twin, {"twin_of": traffic.fingerprint, "seed": seed, "requests": requests, "rate_rps": rate_rps}
