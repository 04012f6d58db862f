"""The weights as files: which there are, how large, and what SHA-256 each has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from unmoor.core.errors import WorldError
from unmoor.leave.checkpoint.bounded import BrokenFileError
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.checkpoint.folder import list_folder
from unmoor.leave.checkpoint.weight_files import EverySoManyBytes, files_beside, sha256_of, weight_files
from unmoor.leave.exit_plan.exit_plan import WeightFile, Weights
from unmoor.leave.exit_plan.recorded_hashes import recorded_hashes

_TOLD_EVERY_BYTES = 4 << 30
_GB = 1e9


def weights_of(checkpoint: Checkpoint, path: Path, *, hash_files: bool, say: Callable[[str], None]) -> Weights:
    """The checkpoint's weights with their files, at `path` (a folder, or one file); `say` tells how hashing goes on.

    Raises WorldError for a file of weights that cannot be read to its end.
    """
    return Weights(
        scheme=checkpoint.quantisation.scheme,
        said_in=checkpoint.quantisation.said_in or checkpoint.container,
        container=checkpoint.container,
        architecture=checkpoint.architecture,
        dtype=checkpoint.dtype,
        kv_cache=checkpoint.quantisation.kv_cache,
        weight_bytes=checkpoint.weight_bytes,
        files=_files(path, hash_files=hash_files, say=say),
        pickles=checkpoint.pickles,
        remote_code=checkpoint.remote_code,
        problems=checkpoint.problems,
    )


def _files(path: Path, *, hash_files: bool, say: Callable[[str], None]) -> tuple[WeightFile, ...]:
    folder = list_folder(path if path.is_dir() else path.parent)
    names = [*weight_files(folder, path), *(files_beside(folder) if path.is_dir() else ())]
    recorded = recorded_hashes(folder)
    sizes = {name: folder.path(name).stat().st_size for name in names if folder.path(name).is_file()}
    passed = telling(sum(sizes.values()), say)
    found = []
    for name, size in sizes.items():
        told = recorded.get(name)
        found.append(
            WeightFile(
                name=name,
                size_bytes=size,
                sha256=hashed(folder.path(name), name, passed) if hash_files else None,
                recorded=told.sha256 if told else None,
                recorded_in=told.where if told else "",
            )
        )
    return tuple(found)


def hashed(path: Path, name: str, passed: Callable[[int], None]) -> str:
    """The file's SHA-256, in hexadecimal; `passed` is told how many bytes went through, piece by piece.

    Raises WorldError where it is no ordinary file, or cannot be read to its end: a plan with some hashes would be
    taken for one with all.
    """
    try:
        return sha256_of(path, name, passed)
    except BrokenFileError as error:
        raise WorldError(
            "a file of weights cannot be read",
            where=str(path),
            seen=error.problem.seen,
            expected="a file that can be read to its end, to hash it",
            hint="--no-hashes leaves the weights unread",
        ) from None


def telling(whole_bytes: int, say: Callable[[str], None]) -> Callable[[int], None]:
    """What is to be told of bytes as they pass: it says how far hashing is every four GiB, and first that it is long.

    Nothing is said of what is done at once.
    """
    if whole_bytes > _TOLD_EVERY_BYTES:
        say(f"hashing {whole_bytes / _GB:,.0f} GB of weights: this takes minutes; --no-hashes leaves it out")

    def so_far(done: int) -> None:
        say(f"hashing: {done / _GB:,.0f} of {whole_bytes / _GB:,.0f} GB")

    return EverySoManyBytes(_TOLD_EVERY_BYTES, so_far).passed


def recorded_only(files: Iterable[WeightFile]) -> bool:
    """Whether no hash was computed, and at least one is recorded."""
    files = tuple(files)
    return all(one.sha256 is None for one in files) and any(one.recorded for one in files)
