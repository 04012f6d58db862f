"""The hashes of all files of weights, among what is read of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from unmoor.leave.checkpoint.bounded import BrokenFileError
from unmoor.leave.checkpoint.checkpoint import Checkpoint, Problem
from unmoor.leave.checkpoint.folder import ModelFolder, list_folder
from unmoor.leave.checkpoint.weight_files import EverySoManyBytes, sha256_of, weight_files

_GB = 1e9
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


def _hashed(
    folder: ModelFolder, names: Sequence[str], say: Callable[[str], None], told_every_bytes: int
) -> tuple[dict[str, str], list[Problem]]:
    hashes: dict[str, str] = {}
    problems: list[Problem] = []
    for number, name in enumerate(names, 1):
        telling = _Telling(f"{number} of {len(names)}: {name}", say, told_every_bytes)
        try:
            hashes[name] = sha256_of(folder.path(name), name, telling.passed, opened=telling.opened)
        except BrokenFileError as error:
            problems.append(error.problem)
    return hashes, problems


class _Telling:
    """Tells which file is hashed, once it is opened, and how far it is; nothing of its end."""

    def __init__(self, file: str, say: Callable[[str], None], step_bytes: int) -> None:
        self._file, self._say = file, say
        self._size = 0
        self.passed = EverySoManyBytes(step_bytes, self._so_far).passed

    def opened(self, size_bytes: int) -> None:
        self._size = size_bytes
        self._say(f"hashing {self._file} ({size_bytes / _GB:,.2f} GB)")

    def _so_far(self, done: int) -> None:
        if done < self._size:
            self._say(f"hashed {done / _GB:,.2f} of {self._size / _GB:,.2f} GB")
