"""The files of a model's folder, listed with bounds; links that lead out of it are told."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
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
    circles: list[str] = []
    problems: list[Problem] = []
    home = _home(root)
    waiting = [(root, "", 0)]
    while waiting and len(names) < MOST_FILES:
        folder, before, depth = waiting.pop()
        for entry in _entries(folder, before, problems):
            name = f"{before}{entry.name}"
            if entry.is_symlink():
                if _in_circle(Path(entry.path)):
                    circles.append(name)
                elif not _inside(Path(entry.path), home):
                    links.append(name)
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEPTH and not entry.name.startswith("."):
                    waiting.append((Path(entry.path), f"{name}/", depth + 1))
            else:
                names.append(name)
    if len(names) >= MOST_FILES:
        problems.append(Problem(file=str(root), what="holds more files than are looked at", expected=f"{MOST_FILES}"))
    problems += _odd_links(root, sorted(links), sorted(circles))
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
    return link.resolve().is_relative_to(home)


def _in_circle(link: Path) -> bool:
    try:
        link.stat()
    except OSError as failure:
        return failure.errno == errno.ELOOP
    return False


def _odd_links(root: Path, links: list[str], circles: list[str]) -> Iterator[Problem]:
    if links:
        expected = "files in the folder, so that a copy of it is whole"
        yield _told(root, "links lead out of the folder", links, expected)
    if circles:
        yield _told(root, "links lead in a circle", circles, "links that lead to files")


def _told(root: Path, what: str, links: list[str], expected: str) -> Problem:
    more = f", and {len(links) - _MOST_NAMED} more" if len(links) > _MOST_NAMED else ""
    seen = ", ".join(shown(name) for name in links[:_MOST_NAMED]) + more
    return Problem(file=str(root), what=what, seen=seen, expected=expected)
