"""The nearest known name to one that is not known, for errors that say what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE = 0.65
_ALIKE_AS_BEGUN = 0.5
_LEAST_PART = 3


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None when none is alike: similarity under 0.65, hyphens in front left out.

    Under 0.5 where both begin with the same three characters; and one name may be a part of the other.
    """
    plain = {one.lstrip("-"): one for one in known}
    asked = name.lstrip("-")
    begun = [one for one in plain if one[:_LEAST_PART] == asked[:_LEAST_PART]]
    found = difflib.get_close_matches(asked, list(plain), n=1, cutoff=_ALIKE)
    if found := found or difflib.get_close_matches(asked, begun, n=1, cutoff=_ALIKE_AS_BEGUN):
        return plain[found[0]]
    parts = (one for one in plain if min(len(one), len(asked)) >= _LEAST_PART and (asked in one or one in asked))
    return next((plain[one] for one in parts), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint: the nearest known name if one is alike, and all known names else."""
    names = sorted(known)
    close = nearest(name, names)
    return f"did you mean '{close}'?" if close else f"known: {', '.join(names)}"
