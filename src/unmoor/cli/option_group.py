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
    spelled = {param.name: param.opts[0] for param in context.command.params}
    return [spelled[field] for field in fields if _by_user(context, field)]


def _by_user(context: click.Context, field: str) -> bool:
    source = context.get_parameter_source(field)
    return source is not None and source is not click.core.ParameterSource.DEFAULT
