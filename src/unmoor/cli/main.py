"""The command line: verbs found by name and imported when called; every error caught once, here."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn, cast

import click

from unmoor.cli.usage_error import UnknownVerb, usage_error
from unmoor.core.errors import UnmoorError
from unmoor.core.printable import printable

INTERRUPTED = 130  # 128 + SIGINT, as shells report it
TERMINATED = 143  # 128 + SIGTERM
TRACEBACK = "UNMOOR_TRACEBACK"


class Verb(NamedTuple):
    """Where a verb's click command is, and its line in `unmoor --help` (so that help imports no verb)."""

    module: str
    attribute: str
    help: str


VERBS: dict[str, Verb] = {
    "decide": Verb("unmoor.cli.decide", "command", "Say which engine to run for a plan, on what evidence."),
    "bakeoff": Verb("unmoor.cli.bakeoff", "command", "Launch real engines here, tune each, and compare them."),
    "load": Verb("unmoor.cli.load", "command", "Send traffic to an engine that runs here, and measure it."),
    "conformance": Verb("unmoor.cli.conformance", "command", "Hold a benchmark client against a known truth."),
    "check-results": Verb(
        "unmoor.cli.check_results", "command", "Say what in a benchmark's result file cannot be trusted."
    ),
    "report": Verb("unmoor.cli.report", "command", "Render a saved run again, for ever."),
    "engines": Verb("unmoor.cli.engines", "command", "List engines known, installed and missing; install one."),
    "profile": Verb("unmoor.cli.profile", "command", "Describe traffic: lengths, arrivals, prefix overlap."),
    "move": Verb("unmoor.cli.move", "command", "Say what would break on another engine, before anything runs."),
    "exit-plan": Verb("unmoor.cli.exit_plan", "command", "Write down what leaving the engine would take."),
    "check-model": Verb("unmoor.cli.check_model", "command", "Say which engines load a checkpoint, on which hardware."),
    "explain": Verb("unmoor.cli.explain", "command", "Explain a finding by its id."),
    "generate": Verb("unmoor.cli.generate", "command", "Make reproducible traffic from a description."),
}


class LazyGroup(click.Group):
    """A group that imports a verb when it is called, and lists all without importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Every verb's name, in the order of the road."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """The verb's command, imported now; None for a name that is no verb."""
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        return cast("click.Command", getattr(importlib.import_module(verb.module), verb.attribute))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that `args` begin with. Raises UnknownVerb where there is none."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise UnknownVerb(args[0], list(VERBS), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Writes the list of verbs from their lines in `VERBS`."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.help) for name, verb in VERBS.items()])


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"unmoor {version('unmoor')}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="VERB [ARGS]...",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def unmoor() -> None:
    """Choose an LLM inference runtime on evidence, and stay able to leave it."""


def run(args: Sequence[str], group: click.Group = unmoor) -> int:
    """The exit code of `unmoor ARGS`: 0 done, 1 the world's failure, 2 the user's mistake, 3 void, 130 interrupted.

    Errors are text on standard error whatever `--json` says; standard output then stays empty.
    """
    try:
        outcome = group.main(args=list(args), prog_name="unmoor", standalone_mode=False)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted: what was finished stays", err=True)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: one error, never a traceback
        return _told(error)
    return outcome if isinstance(outcome, int) else 0


def _told(error: Exception) -> int:
    """The exit code of a failure that was told on standard error."""
    code, text = 1, ""
    match error:
        case UnmoorError():
            code, text = error.exit_code, f"error: {error}"
        case click.exceptions.NoArgsIsHelpError():
            code, text = error.exit_code, error.format_message()
        case click.UsageError():
            code, text = error.exit_code, usage_error(error)
        case click.ClickException():
            code, text = error.exit_code, f"error: {error.format_message()}"
        case BrokenPipeError():  # the reader closed early, as `| head` does: it has what it wanted
            pass
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            text = f"error: {place}{error.strerror or error}\n  hint: is there room, and may it be used?"
            text = _lost(error) if _while_printing(error) else text
        case _:
            text = _defect(error)
    if text:
        click.echo(printable(text), err=True)
    return code


def _defect(error: Exception) -> str:
    """What no room foresaw, as one error; the traceback itself for who asks for it."""
    if os.environ.get(TRACEBACK):
        raise error
    said = " ".join(str(error).split())[:200]
    return (
        f"error: a defect of unmoor, or something it did not foresee\n  seen:     {type(error).__name__}: {said}\n"
        f"  hint: run it again with {TRACEBACK}=1 for the whereabouts, and report them; what was measured stays"
    )


def unwind_on_sigterm() -> None:
    """From now on SIGTERM leaves as an exception: what is under way is ended, and what was finished is kept."""

    def leave(_signum: int, _frame: object) -> NoReturn:
        sys.exit(TERMINATED)

    signal.signal(signal.SIGTERM, leave)


def main() -> None:
    """Runs the command line and exits with its code."""
    unwind_on_sigterm()
    if sys.stdout is None:  # the caller closed it: click would leave out what is printed, and say nothing
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    try:
        code = _flushed(run(sys.argv[1:]))
    except KeyboardInterrupt:  # once more, while the first was dealt with
        code = INTERRUPTED
    sys.exit(code)


def _flushed(code: int) -> int:
    """The exit code once standard output has been written out: not a success where that failed."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # The interpreter would repeat the last flush, and complain about it, while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == 0 and not isinstance(error, BrokenPipeError):  # a reader that closed early, as `| head`, has enough
            click.echo(_lost(error), err=True)
        return code or 1
    return code


def _while_printing(error: OSError) -> bool:
    """Whether it was raised in click's own echo, which writes to standard output."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and at.tb_frame.f_globals.get("__name__") == click.utils.__name__


def _lost(error: OSError) -> str:
    return f"error: standard output: {error.strerror}\n  hint: is there room where it goes, and is it open?"
