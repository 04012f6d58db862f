"""Files that verbs write: whole or not there at all, and never over something else without being told to."""

from __future__ import annotations

import filecmp
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from unmoor.core.errors import UsageError, WorldError

PRIVATE = 0o600
"""For what says something of people: readable by its owner only."""

_HEAD_BYTES = 1024
_HINT = "-o names another file; --force replaces this one"


def write_out(path: Path, chunks: Iterable[bytes], *, force: bool, mode: int = 0o644, hint: str = _HINT) -> bool:
    """Whether `path` was written: not when it holds the same bytes already. `mode` is that of a new file.

    `hint` is what to do about a path that is refused.

    Raises UsageError for a path that holds something else, unless `force`; for a folder, a device or `-`; and for a
    place that cannot be written.
    """
    refuse_no_file(path, where=str(path), hint=hint)
    try:
        with part_file(path, chunks, mode=mode) as (part, target):
            if path.exists() and filecmp.cmp(part, path, shallow=False):
                return False
            if path.exists() and not force:
                raise not_overwritten(path, where=str(path), hint=hint)
            part.replace(target)
    except OSError as failure:
        raise _not_written(failure.strerror or type(failure).__name__, where=str(path), hint=hint) from None
    return True


@contextmanager
def part_file(path: Path, chunks: Iterable[bytes], *, mode: int) -> Iterator[tuple[Path, Path]]:
    """`chunks` in a hidden file beside `path`, and what to rename it to; it is gone afterwards unless it was renamed.

    A link stays a link: what it names is written. Raises OSError.
    """
    target = path.resolve(strict=path.is_symlink())
    part = target.with_name(f".unmoor-{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.writelines(chunks)
        yield part, target
    finally:
        part.unlink(missing_ok=True)


def check_places(places: Mapping[str, Path | None], *, folders_made: frozenset[str] = frozenset()) -> None:
    """Refuses, before any work is done, places that could not be written after it; `places` goes by option.

    Raises UsageError for two options that name one file, for a folder, a device or `-`, and for a place in a folder
    that is missing or may not be written to. Those in `folders_made` have missing folders made for them.
    """
    taken: dict[Path, str] = {}
    for option, path in places.items():
        if path is None:
            continue
        where = f"{option} {path}"
        try:
            target = path.resolve()
            refuse_no_file(path, where=where, hint=f"name a file with {option}")
            _refuse_folder(target.parent, where=where, option=option, made=option in folders_made)
        except (OSError, RuntimeError) as failure:
            seen = getattr(failure, "strerror", None) or type(failure).__name__
            raise _not_written(seen, where=where, hint=f"name another with {option}") from None
        if target in taken:
            raise UsageError(
                "one file for two things",
                where=where,
                seen=f"the same as {taken[target]}",
                expected="a file for each",
                hint=f"name another with {option}",
            )
        taken[target] = option


def _refuse_folder(folder: Path, *, where: str, option: str, made: bool) -> None:
    while made and folder != folder.parent and not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        seen = "a file where a folder should be" if folder.exists() else "a folder that is not there"
    elif not os.access(folder, os.W_OK | os.X_OK):
        seen = "a folder that may not be written to"
    else:
        return
    raise _not_written(seen, where=where, hint=f"name another with {option}")


def refuse_no_file(path: Path, *, where: str, hint: str) -> None:
    """Raises UsageError for a folder or a device, which is never replaced, whoever may, and for `-`."""
    refuse_standard_output(path, where=where, hint=hint)
    if path.exists() and not path.is_file():
        seen = "a folder" if path.is_dir() else "a device or a pipe"
        raise UsageError("is no file", where=where, seen=seen, expected="a file, or no file yet", hint=hint)


def refuse_standard_output(path: Path, *, where: str, hint: str) -> None:
    """Raises UsageError for `-`: what is written whole or not at all goes to a file."""
    if str(path) == "-":
        seen = "- for standard output, which is for what the verb prints"
        raise UsageError("is no file", where=where, seen=seen, expected="a file", hint=hint)


def refuse_unlike(target: Path, is_ours: Callable[[bytes], bool], *, option: str, what: str) -> None:
    """Refuses a place with anything but an older `what` of ours, which gives way; `is_ours` judges its first bytes.

    Raises UsageError for `-` and for a file that is none of ours; WorldError for one that cannot be read.
    """
    refuse_standard_output(target, where=f"{option} {target}", hint=f"name a file with {option}")
    older = f"no file yet, or an older {what} of unmoor"
    try:
        if not target.exists() or target.is_dir():
            return
        if not target.is_file() or not is_ours(_head(target)):
            hint = f"name another with {option}, or remove this one"
            raise not_overwritten(target, where=str(target), expected=older, hint=hint)
    except OSError as failure:
        raise WorldError(
            f"the {what} cannot be written",
            where=str(target),
            seen=f"what is there cannot be read: {failure.strerror or type(failure).__name__}",
            expected=older,
            hint=f"name another with {option}",
        ) from None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def not_overwritten(path: Path, *, where: str, hint: str, expected: str = "no file yet") -> UsageError:
    """The error for a file that holds something else."""
    seen = "other content" if path.stat().st_size else "an empty file"
    return UsageError("will not be overwritten", where=where, seen=seen, expected=expected, hint=hint)


def _not_written(seen: str, *, where: str, hint: str) -> UsageError:
    return UsageError("cannot be written", where=where, seen=seen, expected="a file in a folder that exists", hint=hint)
