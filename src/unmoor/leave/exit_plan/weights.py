"""The weights as files: which there are, how large, and what SHA-256 each has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from unmoor.core.errors import WorldError
from unmoor.leave.checkpoint.bounded import BrokenFileError, open_regular
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.checkpoint.folder import ModelFolder, list_folder
from unmoor.leave.exit_plan.exit_plan import WeightFile, Weights
from unmoor.leave.exit_plan.recorded_hashes import recorded_hashes

_WEIGHTS = (".safetensors", ".gguf")
_BESIDE = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
    "special_tokens_map.json", "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json",
    "hf_quant_config.json", "model.safetensors.index.json",
)  # fmt: skip
"""Files that change what the weights answer, or how they are read: a copy without them is another model."""
_PIECE = 16 << 20
_TOLD_EVERY = 4 << 30
_GB = 1e9
_SHARD = re.compile(r"-\d{5}-of-\d{5}(?=\.\w+$)")


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
    names = _names(folder, path)
    recorded = recorded_hashes(folder)
    sizes = {name: folder.path(name).stat().st_size for name in names if folder.path(name).is_file()}
    progress = Progress(sum(sizes.values()), say)
    found = []
    for name, size in sizes.items():
        told = recorded.get(name)
        found.append(
            WeightFile(
                name=name,
                size_bytes=size,
                sha256=sha256_of(folder.path(name), name, progress.passed) if hash_files else None,
                recorded=told.sha256 if told else None,
                recorded_in=told.where if told else "",
            )
        )
    return tuple(found)


def _names(folder: ModelFolder, path: Path) -> list[str]:
    """The files of weights, then those beside them; of a single file that is one of several shards, all of them."""
    if path.is_dir():
        weights = sorted({*folder.ending(*_WEIGHTS), *folder.pickled_weights})
        return [*weights, *(name for name in _BESIDE if name in folder.names)]
    stem = _SHARD.sub("", path.name)
    return [name for name in folder.ending(path.suffix.lower()) if name == path.name or _SHARD.sub("", name) == stem]


def sha256_of(path: Path, name: str, passed: Callable[[int], None]) -> str:
    """The SHA-256 of the file's bytes, in hexadecimal; `passed` is told how many bytes went through, piece by piece.

    Raises WorldError where it is no ordinary file, or cannot be read to its end.
    """
    sha256 = hashlib.sha256()
    try:
        stream, _ = open_regular(path, name)
        with stream:
            while piece := stream.read(_PIECE):
                sha256.update(piece)
                passed(len(piece))
    except BrokenFileError as error:
        raise _unread(path, error.problem.seen or error.problem.what) from None
    except OSError as failure:
        raise _unread(path, failure.strerror or str(failure)) from None
    return sha256.hexdigest()


def _unread(path: Path, seen: str) -> WorldError:
    return WorldError(
        "a file of weights cannot be read",
        where=str(path),
        seen=seen,
        expected="a file that can be read to its end, to hash it",
        hint="--no-hashes leaves the weights unread",
    )


class Progress:
    """Tells how far hashing is, every four GiB; nothing of what is done at once."""

    def __init__(self, whole_bytes: int, say: Callable[[str], None]) -> None:
        self._whole, self._say = whole_bytes, say
        self._done = self._told = 0
        if whole_bytes > _TOLD_EVERY:
            say(f"hashing {whole_bytes / _GB:,.0f} GB of weights: this takes minutes; --no-hashes leaves it out")

    def passed(self, count: int) -> None:
        """That so many bytes more are done."""
        self._done += count
        if self._done - self._told >= _TOLD_EVERY:
            self._told = self._done
            self._say(f"hashing: {self._done / _GB:,.0f} of {self._whole / _GB:,.0f} GB")


def recorded_only(files: Iterable[WeightFile]) -> bool:
    """Whether no hash was computed, and at least one is recorded."""
    files = tuple(files)
    return all(one.sha256 is None for one in files) and any(one.recorded for one in files)
