"""Writes docs/reference/cli.md from the command line itself; a test fails when the page is not what this gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from unmoor.cli.main import unmoor

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
HEAD = """\
# The command line

Made by `python scripts/build_cli_reference.py` from the verbs themselves; do not edit it by hand.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 the world's failure (an
engine that died, a disk that is full, a run's file that is broken), 2 the user's mistake (an unknown key, a missing
file, a folder that holds no run), 3 something would be lost (`move check`, `check-model`), 130 interrupted. A mistake
in a call is one error with a `hint:` line, the way out, and a `see:` line, whose help says more.
"""


def helps(command: click.Command, path: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """Every command's path with its help text, 100 columns wide, the group before its verbs."""
    context = click.Context(
        command, info_name=path.rsplit(maxsplit=1)[-1], parent=parent, max_content_width=100, terminal_width=100
    )
    context.help_option_names = ["-h", "--help"]
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from helps(inner, f"{path} {name}", context)


def page() -> str:
    """The whole page as Markdown."""
    sections = (f"## `{path}`\n\n```text\n{text.rstrip()}\n```\n" for path, text in helps(unmoor, "unmoor"))
    return "\n".join([HEAD, *sections])


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}")
