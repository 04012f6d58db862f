"""The page of a verb, written before anything is printed: a page that fails leaves standard output empty."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from unmoor.core.errors import WorldError

_OWN, _ALL = 0o600, 0o644


def write_page(
    page: str, target: Path, say: Callable[[str], None], *, option: str = "--html", private: bool = False
) -> None:
    """Writes the page, with the folders on the way, and says where. Raises WorldError where it cannot be written.

    `option` is what names the place on the command line. A `private` page, with somebody's text in it, is readable by
    its owner only.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWN if private else _ALL)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            if private:
                os.fchmod(handle, _OWN)  # one that was there keeps its mode otherwise
            file.write(page)
    except OSError as failure:
        raise WorldError(
            "the page cannot be written",
            where=str(target),
            seen=failure.strerror,
            expected="a place that can be written to",
            hint=f"name another with {option}",
        ) from None
    say(f"page: {target}")
