"""Options that belong together, declared and passed on as one value, so that a verb with many keeps few arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def option_group(name: str, kind: Callable[..., tuple[Any, ...]], options: Sequence[Decorator]) -> Decorator:
    """A decorator that declares `options` and passes their values as `name`, a named tuple with a field for each."""
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined] # a named tuple

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: object, **values: object) -> object:
            values[name] = kind(*(values.pop(field) for field in fields))
            return function(*args, **values)

        declared: Callable[..., Any] = call
        for option in reversed(options):
            declared = option(declared)
        return declared

    return declare


def given(options: tuple[Any, ...]) -> list[str]:
    """The options of a group that the user gave a value, as written on the command line: "--input-tokens"."""
    fields: tuple[str, ...] = options._fields  # type: ignore[attr-defined] # a named tuple
    context = click.get_current_context()
    ours = {param.opts[0] for param in context.command.params if param.name in fields}
    return [name for name in by_user(context) if name in ours]


def by_user(context: click.Context) -> list[str]:
    """All options that the user gave a value, in the order in which the verb declares them."""
    options = [param for param in context.command.params if isinstance(param, click.Option) and param.name]
    default = click.core.ParameterSource.DEFAULT
    return [one.opts[0] for one in options if context.get_parameter_source(one.name or "") not in {None, default}]
