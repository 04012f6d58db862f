"""The nearest known name to one that is not known, for errors that say what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None when none is alike (similarity under 0.5)."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint: the nearest known name if one is alike, and all known names else."""
    names = sorted(known)
    close = nearest(name, names)
    return f"did you mean '{close}'?" if close else f"known: {', '.join(names)}"
