"""Files that verbs write: whole or not there at all, and never over something else without being told to."""

from __future__ import annotations

import filecmp
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from unmoor.core.errors import UsageError

PRIVATE = 0o600
"""For what says something of people: readable by its owner only."""


_HINT = "-o names another file; --force replaces this one"


def write_out(path: Path, chunks: Iterable[bytes], *, force: bool, mode: int = 0o644, hint: str = _HINT) -> bool:
    """Whether `path` was written: not when it holds the same bytes already. `mode` is that of a new file.

    `hint` is what to do about a path that is refused.

    Raises UsageError for a path that holds something else, unless `force`; for a folder or a device; and for a place
    that cannot be written.
    """
    if path.exists() and not path.is_file():  # a device or a folder is never replaced, whoever may
        raise UsageError(
            "is no file", where=str(path), seen="a folder or a device", expected="a file, or no file yet", hint=hint
        )
    try:
        target = path.resolve(strict=path.is_symlink())  # a link stays a link: what it names is written
        part = target.with_name(f".unmoor-{secrets.token_hex(8)}.part")
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.writelines(chunks)
            if path.exists() and filecmp.cmp(part, path, shallow=False):
                return False
            if path.exists() and not force:
                raise UsageError(
                    "will not be overwritten", where=str(path), seen="other content", expected="no file yet", hint=hint
                )
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as failure:
        seen = failure.strerror or type(failure).__name__
        raise UsageError(
            "cannot be written", where=str(path), seen=seen, expected="a file in a folder that exists", hint=hint
        ) from None
    return True
