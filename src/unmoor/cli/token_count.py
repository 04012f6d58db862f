"""Numbers of tokens as people write them on a command line."""

from __future__ import annotations

import re
from decimal import Decimal

import click

_SCALES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)", re.IGNORECASE | re.ASCII)
_MOST = 10**15


def token_count(written: str) -> int:
    """A whole number of tokens of at least 1; "1.3M" and "500k" are understood. Raises BadParameter for anything else.

    An option's `type`.
    """
    found = _WRITTEN.fullmatch(str(written).replace("_", "").replace(",", "").strip())
    exact = Decimal(found[1]) * _SCALES[found[2].lower()] if found else Decimal(0)
    count = int(exact)
    if not 1 <= count <= _MOST or count != exact:
        raise click.BadParameter(f"{str(written)[:40]!r} is no number of tokens; 1300000 and 1.3M are")
    return count
