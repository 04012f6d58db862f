"""`unmoor conformance`: a benchmark client held against a server that knows the truth."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unmoor.cli.path_name import PATH_NAME
from unmoor.cli.positive_number import positive_number

if TYPE_CHECKING:
    from unmoor.fake.conformance.clients import Client
    from unmoor.fake.conformance.judge import CaseResult

NOT_CONFORMANT = 3
"""The exit code where a case is wrong, or did not run."""
INTERRUPTED = 130


@click.command("conformance")
@click.argument("client", required=False)
@click.option("--list", "listing", is_flag=True, help="List the cases and the clients that are known; run nothing.")
@click.option("--only", multiple=True, metavar="CASE", help="Play this case alone; may be given again.")
@click.option("--program", metavar="PATH", help="What is started as CLIENT, in place of its command's first word.")
@click.option("--tokenizer", type=PATH_NAME, metavar="DIR", help="A tokenizer's folder, for clients that need one.")
@click.option(
    "--command", "template", metavar="TEMPLATE", help="A client of your own, with {url} and others filled in."
)
@click.option("--reads", metavar="FORMAT", help="Whose result file TEMPLATE writes: a CLIENT's, or a TOML file's.")
@click.option("--timeout", type=positive_number, default=120.0, show_default=True, metavar="S", help="For each case.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/reference/conformance.md).")
@click.pass_context
def command(  # noqa: PLR0917 - click's
    context: click.Context,
    client: str | None,
    listing: bool,  # noqa: FBT001 - click's
    only: tuple[str, ...],
    program: str | None,
    tokenizer: Path | None,
    template: str | None,
    reads: str | None,
    timeout: float,
    as_json: bool,  # noqa: FBT001 - click's
) -> None:
    """Hold the benchmark client CLIENT against scripted answers whose truth is known, and say what it gets wrong.

    A server on this machine plays one case after the other: it decides when each byte goes out, so that it knows how
    many requests failed, the time to first token, and the tokens. CLIENT is run once per case and its own result file
    is judged. The exit code is 3 where something is wrong, or did not run.
    """
    from unmoor.fake.conformance.cases import CASES, case_named
    from unmoor.fake.conformance.clients import known_clients
    from unmoor.fake.conformance.play import Call, play
    from unmoor.report.conformance_text import listed, rendered

    cases = tuple(case_named(code) for code in only) or CASES
    if listing:
        click.echo(listed(cases, known_clients(), as_json=as_json))
        return
    name, chosen = _client(client, template, reads)
    call = Call(
        client=chosen,
        program=_program(program, chosen),
        tokenizer=_tokenizer(tokenizer, chosen, name),
        timeout_s=timeout,
    )
    results: list[CaseResult] = []
    stopped = False
    try:
        for case in cases:
            results.append(play(case, call))
            _tell(results, len(cases))
    except KeyboardInterrupt:
        stopped = True
    click.echo(rendered(name, results, as_json=as_json))
    if stopped:
        click.echo(f"stopped after {len(results)} of {len(cases)} cases", err=True)
        context.exit(INTERRUPTED)
    context.exit(NOT_CONFORMANT if any(result.standing in {"wrong", "did_not_run"} for result in results) else 0)


def _client(name: str | None, template: str | None, reads: str | None) -> tuple[str, Client]:
    from unmoor.core.errors import UsageError
    from unmoor.fake.conformance.clients import client_from_template, client_named, known_clients

    if name is not None and template is None and reads is None:
        return name, client_named(name)
    if name is None and template is not None and reads is not None:
        return template, client_from_template(template, reads)
    given = [
        word for word, value in (("CLIENT", name), ("--command", template), ("--reads", reads)) if value is not None
    ]
    raise UsageError(
        "which client?",
        where="CLIENT",
        seen=" and ".join(given) or "none",
        expected=f"one of {', '.join(known_clients())}; or --command and --reads",
        hint="unmoor conformance --list prints the cases and the clients",
    )


def _program(program: str | None, client: Client) -> str | None:
    """The program to start, whole. Raises UsageError for one that is not to be found."""
    from unmoor.core.errors import UsageError

    first = client.command[0]
    if program is None and first.startswith("{"):
        return None
    wanted = program if program is not None else first
    found = shutil.which(wanted)
    if found is None:
        raise UsageError(
            "the client is not here",
            where="--program" if program is not None else "CLIENT",
            seen=wanted,
            expected="a program that can be started",
            hint="--program PATH names it, where it lies in an environment of its own",
        )
    return str(Path(found).absolute())


def _tokenizer(folder: Path | None, client: Client, name: str) -> str:
    from unmoor.core.errors import UsageError

    if folder is None and client.wants_tokenizer:
        raise UsageError(
            "this client counts with a tokenizer",
            where="--tokenizer",
            seen="none",
            expected="the folder of a tokenizer or a model",
            hint=f"unmoor conformance {name} --tokenizer DIR",
        )
    if folder is not None and not folder.is_dir():
        raise UsageError(
            "no such tokenizer",
            where="--tokenizer",
            seen=str(folder),
            expected="a folder with tokenizer.json",
            hint="the folder of a model has one",
        )
    return "" if folder is None else str(folder.absolute())


def _tell(results: list[CaseResult], of: int) -> None:
    """A line on a terminal that says how far it is; nothing where there is no terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        last = results[-1]
        click.echo(f"{len(results)} of {of}: {last.case} {last.standing.value.replace('_', ' ')}", err=True)
