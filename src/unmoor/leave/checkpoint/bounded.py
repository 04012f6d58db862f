"""Files of others, opened and read with bounds: regular files only, so many bytes, JSON without surprises."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import BinaryIO

from unmoor.leave.checkpoint.checkpoint import Problem

MOST_CONFIG_BYTES = 16_000_000
"""Of a configuration, a tokenizer's settings or a template: many times what real ones have."""

_MOST_SHOWN = 80
_LONG_INTEGER = 19
_POINTER = b"version https://git-lfs"
_MOST_POINTER_BYTES = 1024


class BrokenFileError(Exception):
    """A file that cannot be read on; carries the problem. Readers of this package raise it, `read.py` catches it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.what)
        self.problem = problem


def broken(file: str, what: str, *, seen: str = "", expected: str = "", fatal: bool = True) -> BrokenFileError:
    """The error for one problem of `file`."""
    return BrokenFileError(Problem(file=file, what=what, seen=seen, expected=expected, fatal=fatal))


def shown(text: object) -> str:
    """What a foreign file says, for an error: on one line, without control characters, cut at 80 characters."""
    said = str(text)[: _MOST_SHOWN + 1]
    printable = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in said)
    return printable if len(printable) <= _MOST_SHOWN else f"{printable[:_MOST_SHOWN]}…"


def open_regular(path: Path, name: str) -> tuple[BinaryIO, int]:
    """The file, opened, with its size in bytes. Raises BrokenFileError for a pipe, a device, or no permission."""
    try:
        # Without O_NONBLOCK a named pipe would be waited for, for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as failure:
        raise broken(name, "cannot be opened", seen=failure.strerror or str(failure)) from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
        raise broken(name, "is no ordinary file", seen=kind)
    return os.fdopen(handle, "rb"), status.st_size


def refuse_no_weights(file: BinaryIO, size: int, name: str) -> None:
    """Raises BrokenFileError for an empty file, and for what Git leaves where large files were not brought.

    The pointer's first line as Git LFS writes it (github.com/git-lfs/git-lfs, docs/spec.md, seen 2026-12-01).
    """
    if not size:
        raise broken(name, "is empty", expected="weights")
    if size < _MOST_POINTER_BYTES:
        pointer = file.read(len(_POINTER)) == _POINTER
        file.seek(0)
        if pointer:
            raise broken(
                name,
                "is a pointer of Git LFS",
                seen=f"{size} bytes of text",
                expected="the weights themselves, which git lfs pull brings",
            )


def read_whole(path: Path, name: str, *, most: int = MOST_CONFIG_BYTES) -> bytes:
    """All bytes of a file of at most `most` bytes. Raises BrokenFileError for a longer one."""
    file, size = open_regular(path, name)
    with file:
        if size > most:
            raise broken(name, "is too long for what it is", seen=f"{size} bytes", expected=f"at most {most}")
        try:
            return file.read(most)
        except OSError as failure:
            raise broken(name, "cannot be read", seen=failure.strerror or str(failure)) from None


def json_object(content: bytes, name: str) -> dict[str, object]:
    """The JSON object in `content`. Raises BrokenFileError for anything else, a key that is there twice included."""

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise broken(name, "names a key twice", seen=shown(repeated([key for key, _ in pairs])))
        return found

    try:
        found = json.loads(content, object_pairs_hook=once, parse_int=_integer)
    except RecursionError:
        raise broken(name, "is nested too deeply", expected="a JSON object as engines write them") from None
    except ValueError as failure:
        raise broken(name, "is not JSON", seen=shown(failure), expected="a JSON object") from None
    if not isinstance(found, dict):
        raise broken(name, "is not a JSON object", seen=type(found).__name__, expected="a JSON object")
    return found


def _integer(digits: str) -> int | float:
    """A whole number of 64 bits; a longer one, which nothing here means, as its nearest float, infinity maybe."""
    return int(digits) if len(digits) < _LONG_INTEGER else float(digits)


def repeated(names: list[str]) -> str:
    """The first of `names` that is there twice; empty where none is."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""
