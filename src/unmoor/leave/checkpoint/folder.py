"""The files of a model's folder, listed with bounds; links that lead out of it are told."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from unmoor.leave.checkpoint.bounded import shown
from unmoor.leave.checkpoint.checkpoint import Problem

MOST_FILES = 20_000
_DEPTH = 3
_MOST_NAMED = 3
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_NO_WEIGHTS = ("training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", "optimizer.bin", "scaler.pt")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder's files by their names from the folder on ("original/params.json"), and what is odd about them."""

    root: Path
    names: tuple[str, ...]
    problems: tuple[Problem, ...] = ()
    links: tuple[str, ...] = field(default=())

    def path(self, name: str) -> Path:
        """Where the file is."""
        return self.root / name

    def ending(self, *suffixes: str, top: bool = True) -> list[str]:
        """Names that end so, in order; of the folder itself only, unless not `top`."""
        return [name for name in self.names if name.lower().endswith(suffixes) and not (top and "/" in name)]

    @property
    def pickles(self) -> tuple[str, ...]:
        """Files that run code when they are loaded; among them those that training leaves beside the weights."""
        return tuple(self.ending(*PICKLES, top=False))

    @property
    def pickled_weights(self) -> tuple[str, ...]:
        """Pickles in the folder itself that an engine would take for weights."""
        return tuple(name for name in self.ending(*PICKLES) if name not in _NO_WEIGHTS)


def list_folder(root: Path) -> ModelFolder:
    """The files in `root` and its folders, three deep and 20,000 at most. Raises OSError where it cannot be listed."""
    names: list[str] = []
    links: list[str] = []
    problems: list[Problem] = []
    home = _home(root)
    waiting = [(root, "", 0)]
    while waiting and len(names) < MOST_FILES:
        folder, before, depth = waiting.pop()
        for entry in _entries(folder, before, problems):
            name = f"{before}{entry.name}"
            if entry.is_symlink() and not _inside(Path(entry.path), home):
                links.append(name)
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEPTH and not entry.name.startswith("."):
                    waiting.append((Path(entry.path), f"{name}/", depth + 1))
            else:
                names.append(name)
    if len(names) >= MOST_FILES:
        problems.append(Problem(file=str(root), what="holds more files than are looked at", expected=f"{MOST_FILES}"))
    if links:
        problems.append(_told(root, sorted(links)))
    return ModelFolder(root=root, names=tuple(sorted(names)), problems=tuple(problems), links=tuple(sorted(links)))


def _entries(folder: Path, before: str, problems: list[Problem]) -> list[os.DirEntry[str]]:
    """What is in `folder`; a folder within the model's that cannot be listed is a problem, not an end."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as failure:
        if not before:
            raise
        problems.append(Problem(file=before, what="cannot be listed", seen=failure.strerror or str(failure)))
        return []


def _home(root: Path) -> Path:
    """Within which links may lead: the folder, or the whole model where it is a snapshot in a hub's cache."""
    place = root.resolve()
    cached = place.parent.name == "snapshots" and (place.parent.parent / "blobs").is_dir()
    return place.parent.parent if cached else place


def _inside(link: Path, home: Path) -> bool:
    try:
        return link.resolve().is_relative_to(home)
    except (OSError, RuntimeError):  # a link that leads to itself
        return False


def _told(root: Path, links: list[str]) -> Problem:
    more = f", and {len(links) - _MOST_NAMED} more" if len(links) > _MOST_NAMED else ""
    return Problem(
        file=str(root),
        what="links lead out of the folder",
        seen=", ".join(shown(name) for name in links[:_MOST_NAMED]) + more,
        expected="files in the folder, so that a copy of it is whole",
    )
