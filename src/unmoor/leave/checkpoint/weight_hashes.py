"""The SHA-256 of every file of weights: what says later that these were the ones."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from unmoor.leave.checkpoint.bounded import BrokenFileError, open_regular
from unmoor.leave.checkpoint.checkpoint import Checkpoint, Problem
from unmoor.leave.checkpoint.folder import ModelFolder, list_folder

_WEIGHTS = (".safetensors", ".gguf")
_SHARD = re.compile(r"-\d{5}-of-\d{5}(?=\.\w+$)")
_GB = 1e9
_PIECE_BYTES = 4 << 20
TOLD_EVERY_BYTES = 8_000_000_000
"""So often it is said how far a file is: every few seconds, as disks and SHA-256 go."""


def with_weight_hashes(
    checkpoint: Checkpoint, path: Path, say: Callable[[str], None], *, told_every_bytes: int = TOLD_EVERY_BYTES
) -> Checkpoint:
    """The checkpoint that was read at `path`, with the hashes of its files of weights among `hashes`.

    Every byte is read; `say` is told of each file before it is, and of how far a long one is. One that cannot be read
    to its end is a problem.
    """
    folder = list_folder(path if path.is_dir() else path.parent)
    told = {problem.file for problem in checkpoint.problems if problem.fatal}
    hashes, unread = _hashed(folder, weight_files(folder, path), say, told_every_bytes)
    problems = [problem for problem in unread if problem.file not in told]
    return msgspec.structs.replace(
        checkpoint,
        hashes=dict(sorted({**checkpoint.hashes, **hashes}.items())),
        problems=(*checkpoint.problems, *problems),
    )


def weight_files(folder: ModelFolder, path: Path) -> list[str]:
    """The files of weights by name, pickles among them; of a single file that is one of several shards, all of them."""
    if path.is_dir():
        return sorted({*folder.ending(*_WEIGHTS), *folder.pickled_weights})
    stem = _SHARD.sub("", path.name)
    return [name for name in folder.ending(path.suffix.lower()) if name == path.name or _SHARD.sub("", name) == stem]


def _hashed(
    folder: ModelFolder, names: Sequence[str], say: Callable[[str], None], told_every_bytes: int
) -> tuple[dict[str, str], Iterable[Problem]]:
    hashes: dict[str, str] = {}
    problems: list[Problem] = []
    for number, name in enumerate(names, 1):
        try:
            file, size = open_regular(folder.path(name), name)
            with file:
                say(f"hashing {number} of {len(names)}: {name} ({size / _GB:,.2f} GB)")
                hashes[name] = _sha256(file, size, say, told_every_bytes)
        except BrokenFileError as error:
            problems.append(_unhashed(name, error.problem.seen or error.problem.what))
        except OSError as failure:
            problems.append(_unhashed(name, failure.strerror or str(failure)))
    return hashes, problems


def _sha256(file: BinaryIO, size: int, say: Callable[[str], None], told_every_bytes: int) -> str:
    sha256 = hashlib.sha256()
    done = told = 0
    while piece := file.read(_PIECE_BYTES):
        sha256.update(piece)
        done += len(piece)
        if done - told >= told_every_bytes and done < size:
            told = done
            say(f"hashed {done / _GB:,.2f} of {size / _GB:,.2f} GB")
    return sha256.hexdigest()


def _unhashed(name: str, seen: str) -> Problem:
    return Problem(file=name, what="was not hashed", seen=seen, expected="a file that can be read to its end")
