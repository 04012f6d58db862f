"""Rates and durations as people write them on a command line."""

from __future__ import annotations

import click

_LEAST, _MOST = 1e-3, 1e9


def positive_number(written: str) -> float:
    """A number from 0.001 to 1e9. Raises BadParameter for anything else, infinity and NaN among it.

    An option's `type`.
    """
    return _number(written, least=_LEAST)


def zero_or_more(written: str) -> float:
    """A number from 0 to 1e9. Raises BadParameter for anything else, infinity and NaN among it. An option's `type`."""
    return _number(written, least=0)


def _number(written: str, *, least: float) -> float:
    try:
        number = float(written)
    except ValueError:
        number = float("nan")
    if not least <= number <= _MOST:
        raise click.BadParameter(f"{str(written)[:40]!r} is no number from {least:g} to {_MOST:g}")
    return number
