"""`unmoor explain`: what a finding means, how it is found, and what to do about it."""

from __future__ import annotations

import click


@click.command("explain")
@click.argument("finding", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(finding: str | None, *, as_json: bool) -> None:
    """Explain the finding ID, such as UM106 or constraint-vanishes; without one, list all."""
    import msgspec

    from unmoor.leave.checks.registry import kind, kinds
    from unmoor.report.kind_text import render

    if finding is None:
        known = kinds()
        listed = [f"{one.id}  {one.name:<26}  {one.title}" for _, one in sorted(known.items())]
        click.echo(msgspec.json.encode(list(known.values())) if as_json else "\n".join(listed))
        return
    asked = kind(finding, where="ID")
    click.echo(msgspec.json.encode(asked) if as_json else render(asked))
