"""The key of a fingerprint: fresh and forgotten, or kept in a file that only its owner can read."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from unmoor.core.errors import UsageError

_KEY_BYTES = 32
_OTHERS = 0o077
_LINE = re.compile(rf"[0-9a-f]{{{2 * _KEY_BYTES}}}\n?", re.ASCII)


def key_from(path: Path | None) -> bytes:
    """32 random bytes: fresh ones that are written nowhere, or those in the file `path`, made if it is not there.

    The file holds them as 64 hexadecimal digits and is created with mode 0600. Raises UsageError for a file that others
    can read, that holds no key, or that cannot be read or made; no error shows what is in it.
    """
    fresh = secrets.token_bytes(_KEY_BYTES)
    if path is None:
        return fresh
    try:
        if not path.exists():
            _make(path, fresh)
            return fresh
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(2 * _KEY_BYTES + 2).decode("ascii", "replace")
    except OSError as failure:
        raise _no_key(path, failure.strerror or type(failure).__name__, "name another file") from None
    if mode & _OTHERS:
        raise _no_key(path, f"a file that others can use (mode {mode & 0o777:04o})", f"chmod 600 {path}")
    if not _LINE.fullmatch(text):
        raise _no_key(path, "a file with something else in it", "name a file that is not there yet, and one is made")
    return bytes.fromhex(text)


def _make(path: Path, key: bytes) -> None:
    """The file, whole or not at all. Raises OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(key.hex() + "\n")
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _no_key(path: Path, seen: str, hint: str) -> UsageError:
    expected = f"{2 * _KEY_BYTES} hexadecimal digits in a file of mode 0600, or no file yet"
    return UsageError("no key to hash names with", where=f"--key-file {path}", seen=seen, expected=expected, hint=hint)
