"""A model's files of weights and those beside them, by name; and the SHA-256 of a file, to know it by later."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from unmoor.leave.checkpoint.bounded import BrokenFileError, broken, open_regular
from unmoor.leave.checkpoint.folder import ModelFolder

_WEIGHTS = (".safetensors", ".gguf")
_BESIDE = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
    "special_tokens_map.json", "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json",
    "hf_quant_config.json", "model.safetensors.index.json",
)  # fmt: skip
_SHARD = re.compile(r"-\d{5}-of-\d{5}(?=\.\w+$)")
_PIECE_BYTES = 4 << 20


def weight_files(folder: ModelFolder, path: Path) -> list[str]:
    """The files of weights by name, pickles among them; of a single file that is one of several shards, all of them."""
    if path.is_dir():
        return sorted({*folder.ending(*_WEIGHTS), *folder.pickled_weights})
    stem = _SHARD.sub("", path.name)
    return [name for name in folder.ending(path.suffix.lower()) if name == path.name or _SHARD.sub("", name) == stem]


def files_beside(folder: ModelFolder) -> list[str]:
    """The files that change what the weights answer, or how they are read: a copy without them is another model."""
    return [name for name in _BESIDE if name in folder.names]


def sha256_of(
    path: Path, name: str, passed: Callable[[int], None], *, opened: Callable[[int], None] = lambda _: None
) -> str:
    """The SHA-256 of the file's bytes, in hexadecimal.

    `opened` is told the file's size in bytes before any is read, `passed` how many bytes went through, piece by piece.
    Raises BrokenFileError, with `name` in its problem, for what is no ordinary file or cannot be read to its end.
    """
    sha256 = hashlib.sha256()
    try:
        file, size = open_regular(path, name)
        with file:
            opened(size)
            while piece := file.read(_PIECE_BYTES):
                sha256.update(piece)
                passed(len(piece))
    except BrokenFileError as error:
        raise _unhashed(name, error.problem.seen or error.problem.what) from None
    except OSError as failure:
        raise _unhashed(name, failure.strerror or str(failure)) from None
    return sha256.hexdigest()


def _unhashed(name: str, seen: str) -> BrokenFileError:
    return broken(name, "was not hashed", seen=seen, expected="a file that can be read to its end", fatal=False)


class EverySoManyBytes:
    """Adds up the bytes that passed, and tells `say` the sum each time that `step_bytes` more have."""

    def __init__(self, step_bytes: int, say: Callable[[int], None]) -> None:
        self._step, self._say = step_bytes, say
        self._done = self._told = 0

    def passed(self, count: int) -> None:
        """That so many bytes more have passed."""
        self._done += count
        if self._done - self._told >= self._step:
            self._told = self._done
            self._say(self._done)
