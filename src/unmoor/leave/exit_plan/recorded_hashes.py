"""SHA-256 hashes of files that somebody wrote down beside them. They are told as recorded, never as computed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unmoor.leave.checkpoint.bounded import BrokenFileError, read_whole
from unmoor.leave.checkpoint.folder import ModelFolder

_HASH = re.compile(r"[0-9a-f]{64}", re.IGNORECASE)
_LINE = re.compile(r"^\\?(?P<hash>[0-9a-fA-F]{64})(?: [ *](?P<name>.+))?$")
_LISTS = ("sha256sums", "sha256sums.txt", "sha256sum.txt", "checksums.sha256", "sha256.txt")
_MOST_BYTES = 4 << 20
_DOWNLOADED = Path(".cache") / "huggingface" / "download"


class Recorded(NamedTuple):
    """A hash, and the file that says so."""

    sha256: str
    where: str


def recorded_hashes(folder: ModelFolder) -> dict[str, Recorded]:
    """The recorded hash of each of the folder's files that has one.

    From lists as `sha256sum` writes them, from NAME.sha256 beside NAME, from the notes of a hub's download (`.cache`
    of the folder), and from the names in a hub's cache, where a large file is stored under its hash. The first wins.
    """
    found: dict[str, Recorded] = {}
    for name, recorded in (*_listed(folder), *_noted(folder), *_stored(folder)):
        found.setdefault(name, recorded)
    return found


def _listed(folder: ModelFolder) -> Iterator[tuple[str, Recorded]]:
    known = set(folder.names)
    for where in folder.names:
        beside = where.removesuffix(".sha256") if where.lower().endswith(".sha256") else ""
        if not beside and where.lower() not in _LISTS:
            continue
        for line in _lines(folder.path(where), where):
            told = _LINE.match(line)
            name = (told["name"] or beside).removeprefix("./") if told else ""
            if told and name in known:
                yield name, Recorded(told["hash"].lower(), where)


def _noted(folder: ModelFolder) -> Iterator[tuple[str, Recorded]]:
    """A hub's client writes the commit, then the file's tag: of a large file its SHA-256."""
    for name in folder.names:
        note = _DOWNLOADED / f"{name}.metadata"
        lines = _lines(folder.root / note, str(note))
        if len(lines) > 1 and _HASH.fullmatch(lines[1].strip()):
            yield name, Recorded(lines[1].strip().lower(), note.as_posix())


def _stored(folder: ModelFolder) -> Iterator[tuple[str, Recorded]]:
    for name in folder.names:
        path = folder.path(name)
        if path.is_symlink():
            blob = path.readlink().name
            if _HASH.fullmatch(blob):
                yield name, Recorded(blob.lower(), "the name in the hub's cache")


def _lines(path: Path, name: str) -> list[str]:
    """The lines of a small text file; none where it is missing, large or no text: then nothing is recorded."""
    try:
        return read_whole(path, name, most=_MOST_BYTES).decode().splitlines()
    except (OSError, UnicodeDecodeError, BrokenFileError):
        return []
