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
        return Path(named).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "unmoor"


def engines_folder() -> Path:
    """Where the engines' environments are."""
    return home() / "engines"


def models_folder() -> Path:
    """Where the models are."""
    return home() / "models"


@contextmanager
def held(folder: Path) -> Iterator[int]:
    """Holds `folder` against every other process of ours, and yields the lock's file descriptor.

    A child that inherits the descriptor keeps the lock, so that work outliving a killed parent still excludes others.
    Raises InstallError when somebody holds it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name(folder.name + ".lock")
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
