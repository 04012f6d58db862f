"""Rates and durations as people write them on a command line."""

from __future__ import annotations

import click

_LEAST, _MOST = 1e-3, 1e9


def positive_number(written: str) -> float:
    """A number from 0.001 to 1e9. Raises BadParameter for anything else, infinity and NaN among it.

    An option's `type`.
    """
    try:
        number = float(written)
    except ValueError:
        number = float("nan")
    if not _LEAST <= number <= _MOST:
        raise click.BadParameter(f"{str(written)[:40]!r} is no number from {_LEAST:g} to {_MOST:g}")
    return number
