"""What the command-line library finds wrong with a call, as one error with one way out."""

from __future__ import annotations

import click

from unmoor.core.nearest import did_you_mean


class UnknownVerb(click.UsageError):
    """A name in a verb's place that is none."""

    def __init__(self, name: str, known: list[str], ctx: click.Context) -> None:
        super().__init__(f"unknown verb '{name}'", ctx)
        self.name, self.known = name, known


def usage_error(error: click.UsageError) -> str:
    """The error as it is printed: what is wrong, one hint, and whose help says more where that is known."""
    context = error.ctx
    message = error.format_message()
    if isinstance(error, click.NoSuchOption) and context is not None:
        message = f"unknown option '{error.option_name}'"
    lines = [f"error: {message}", f"  hint: {_hint(error)}"]
    if context is not None:
        lines.append(f"  see: {context.command_path} --help")
    return "\n".join(lines)


def _hint(error: click.UsageError) -> str:
    if isinstance(error, UnknownVerb):
        return did_you_mean(error.name, error.known)
    if isinstance(error, click.BadOptionUsage):
        return f"`unmoor VERB --help` says what follows {error.option_name}, if anything"
    if error.ctx is None:
        return "`unmoor --help` lists the verbs, `unmoor VERB --help` what each takes"
    return _hint_of_verb(error, error.ctx)


def _hint_of_verb(error: click.UsageError, context: click.Context) -> str:
    if isinstance(error, click.NoSuchOption):
        return did_you_mean(error.option_name, [*_long_options(context.command), "--help"])
    if isinstance(error, click.BadParameter) and isinstance(error.param, click.Option) and error.param.help:
        return f"{_written(error.param, context)}: {error.param.help}"
    if isinstance(context.command, click.Group):
        return f"known: {', '.join(sorted(context.command.list_commands(context)))}"
    return " ".join(context.get_usage().split()).replace("Usage:", "write", 1)


def _long_options(command: click.Command) -> list[str]:
    return [name for param in command.params for name in param.opts if name.startswith("--")]


def _written(option: click.Option, context: click.Context) -> str:
    """An option with its value as the help writes it: "--kv-tokens N"."""
    return f"{option.opts[0]} {option.make_metavar(context)}"
