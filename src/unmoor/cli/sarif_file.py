"""What verbs that find things write beside their report: a SARIF file, and a page; both refused before any work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click


def check_outputs(*, sarif: Path | None, page: Path | None) -> None:
    """Refuses what could not be written after the work was done. Raises UsageError."""
    from unmoor.cli.out_file import check_places
    from unmoor.cli.page_file import refuse_strange

    check_places({"--sarif": sarif, "--page": page}, folders_made=frozenset({"--page"}))
    if page is not None:
        refuse_strange(page, option="--page")


def write_sarif(out: Path, log: Mapping[str, Any]) -> None:
    """Writes the log whole, in the place of an older one, and says where. Raises UsageError where it cannot be."""
    import msgspec

    from unmoor.cli.out_file import write_out

    text = msgspec.json.format(msgspec.json.encode(log))
    write_out(out, [text, b"\n"], force=True, hint="name another with --sarif")
    say(f"sarif: {out}")


def version_here() -> str:
    """The version of this package, as it was installed."""
    from importlib.metadata import metadata

    return str(metadata("unmoor")["Version"])


def say(line: str) -> None:
    """A line on standard error."""
    click.echo(line, err=True)
