"""The page of a verb, written before anything is printed: a page that fails leaves standard output empty."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from unmoor.cli.out_file import PRIVATE, part_file, refuse_unlike
from unmoor.core.errors import WorldError

_ALL = 0o644
_BEGINS, _TITLE, _TITLE_WITHIN = b"<!doctype html>", b"<title>Unmoor", 1024


def write_page(
    page: str, target: Path, say: Callable[[str], None], *, option: str = "--html", private: bool = False
) -> None:
    """Writes the page whole, with the folders on the way, and says where; an older page of ours gives way to it.

    `option` is what names the place on the command line. A `private` page, with somebody's text in it, is readable by
    its owner only.

    Raises UsageError for a place that holds something else, and WorldError where the page cannot be written.
    """
    refuse_strange(target, option=option)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        older = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        with part_file(target, [page.encode()], mode=PRIVATE if private else _ALL) as (part, place):
            if older is not None and not private:
                part.chmod(older)
            part.replace(place)
    except OSError as failure:
        raise WorldError(
            "the page cannot be written",
            where=str(target),
            seen=failure.strerror or type(failure).__name__,
            expected="a place that can be written to",
            hint=f"name another with {option}",
        ) from None
    say(f"page: {target}")


def refuse_strange(target: Path, *, option: str) -> None:
    """Raises UsageError for `-` and for a file that is no page of ours; WorldError for one that cannot be read."""
    refuse_unlike(target, _is_ours, option=option, what="page")


def _is_ours(head: bytes) -> bool:
    return head.startswith(_BEGINS) and _TITLE in head[:_TITLE_WITHIN]
