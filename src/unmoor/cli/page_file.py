"""The page of a verb, written before anything is printed: a page that fails leaves standard output empty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unmoor.core.errors import WorldError


def write_page(page: str, target: Path, say: Callable[[str], None]) -> None:
    """Writes the page, with the folders on the way, and says where. Raises WorldError where it cannot be written."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
    except OSError as failure:
        raise WorldError(
            "the page cannot be written",
            where=str(target),
            seen=failure.strerror,
            expected="a place that can be written to",
            hint="name another with --html",
        ) from None
    say(f"page: {target}")
