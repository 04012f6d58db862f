"""The home folder: where engines and models are kept, apart from everything else on the machine.

HOME/engines/NAME/venv/           an isolated environment, one for each engine
HOME/engines/NAME/installed.json  written last; an environment without it is remade
HOME/engines/NAME/install.log     what pip said
HOME/engines/NAME.lock            held while NAME is being installed
HOME/models/NAME/gguf/model.gguf  a model as one file
HOME/models/NAME/hf/              the same model as a Hugging Face folder
HOME/models/NAME.lock             held while NAME is being fetched
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unmoor.core.errors import InstallError


def home() -> Path:
    """`UNMOOR_HOME`, else `unmoor` in the user's data folder (XDG_DATA_HOME, else ~/.local/share). It may not exist."""
    named = os.environ.get("UNMOOR_HOME")
    if named:
        return _expanded(named, of="UNMOOR_HOME").absolute()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else _expanded("~", of="HOME") / ".local" / "share") / "unmoor"


def _expanded(path: str, *, of: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InstallError(
            "the home folder cannot be told",
            where=of,
            seen=path,
            hint="there is no such user here: name a folder by its whole path, UNMOOR_HOME=/a/folder",
        ) from None


def engines_folder() -> Path:
    """Where the engines' environments are."""
    return home() / "engines"


def models_folder() -> Path:
    """Where the models are."""
    return home() / "models"


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """What is done inside writes to `place`. Raises InstallError where the system does not let it."""
    try:
        yield
    except BrokenPipeError:  # who reads our words has gone: nothing is wrong with the place
        raise
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise InstallError(
            "the disk is full" if full else "it cannot be written there",
            where=str(error.filename or place),
            seen=error.strerror or str(error),
            hint="free space on the disk, then ask again: what was brought is kept"
            if full
            else "see what stands there and who may write it, or name another folder in UNMOOR_HOME",
        ) from None


@contextmanager
def held(folder: Path) -> Iterator[int]:
    """Holds `folder` against every other process of ours, and yields the lock's file descriptor.

    A child that inherits the descriptor keeps the lock, so that work outliving a killed parent still excludes others.
    Raises InstallError when somebody holds it, or it cannot be made.
    """
    lock = folder.with_name(folder.name + ".lock")
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InstallError(
            f"another process is working on '{folder.name}'",
            where=str(lock),
            hint="wait until it has ended, then ask again: what it has finished is kept",
        ) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)
