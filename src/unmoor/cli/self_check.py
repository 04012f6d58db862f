"""`unmoor load --self-check`: what this machine's client can carry."""

from __future__ import annotations

import click

INTERRUPTED = 130


def print_self_check(*, as_json: bool) -> int:
    """Runs the check, telling its steps on stderr, and prints it. Returns the exit code."""
    from unmoor.measure.headroom.self_check import WITHIN_S, self_check

    click.echo(f"trying what the client can carry, about {WITHIN_S:g} s", err=True)
    check = self_check(tell=lambda line: click.echo(f"  {line}", err=True))
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(check))
    else:
        from unmoor.report.self_check_text import render

        click.echo(render(check))
    return INTERRUPTED if check.partial else 0
