"""What verbs that find things write beside their report: a SARIF file, and a page; both refused before any work."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

_OURS = re.compile(
    rb'\s*\{\s*"\$schema":\s*"[^"]*sarif[^"]*",\s*"version":\s*"[\d.]+",\s*"runs":\s*\[\s*\{\s*"tool":\s*\{\s*'
    rb'"driver":\s*\{\s*"name":\s*"unmoor"'
)
"""How every log of ours begins, laid out as it may be."""


def check_outputs(*, sarif: Path | None, page: Path | None) -> None:
    """Refuses what could not be written after the work was done, or holds something else than an older one of ours.

    Raises UsageError, and WorldError for a file that cannot be read.
    """
    from unmoor.cli.out_file import check_places
    from unmoor.cli.page_file import refuse_strange

    check_places({"--sarif": sarif, "--page": page}, folders_made=frozenset({"--page"}))
    if sarif is not None:
        _refuse_strange_sarif(sarif)
    if page is not None:
        refuse_strange(page, option="--page")


def write_sarif(out: Path, log: Mapping[str, Any]) -> None:
    """Writes the log whole, in the place of an older one of ours, and says where.

    Raises UsageError where it cannot be written, or something else is there, and WorldError where that cannot be read.
    """
    import msgspec

    from unmoor.cli.out_file import write_out

    _refuse_strange_sarif(out)
    text = msgspec.json.format(msgspec.json.encode(log))
    write_out(out, [text, b"\n"], force=True, hint="name another with --sarif")
    say(f"sarif: {out}")


def _refuse_strange_sarif(out: Path) -> None:
    from unmoor.cli.out_file import refuse_unlike

    refuse_unlike(out, lambda head: _OURS.match(head) is not None, option="--sarif", what="SARIF log")


def version_here() -> str:
    """The version of this package, as it was installed."""
    from importlib.metadata import metadata

    return str(metadata("unmoor")["Version"])


def uri_of(file: str) -> str:
    """The file as SARIF names it, percent-encoded: relative to the working directory where it lies below that."""
    from urllib.parse import quote

    path = Path(file)
    below = path.is_absolute() and path.is_relative_to(Path.cwd())
    return quote(str(path.relative_to(Path.cwd())) if below else file)


def say(line: str) -> None:
    """A line on standard error."""
    click.echo(line, err=True)
