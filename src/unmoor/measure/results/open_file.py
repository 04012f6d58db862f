"""A result file as JSON documents: one whole, or one a line. It is mapped, so that a large one costs little."""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec

from unmoor.core.errors import UsageError

Kind = TypeVar("Kind")
_SEEN_CHARACTERS = 60
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|-?Infinity|NaN', re.DOTALL)


class Document(msgspec.Struct, frozen=True):
    """One JSON document of a file: its content, the file, and its line where the file has one a line (else None)."""

    content: memoryview | bytes
    path: str
    line: int | None

    @property
    def where(self) -> str:
        """FILE, or FILE:LINE."""
        return self.path if self.line is None else f"{self.path}:{self.line}"

    def read(self, kind: type[Kind]) -> Kind:
        """It as `kind`; keys that `kind` does not name are skipped unread. Raises UsageError, naming the key."""
        try:
            return msgspec.json.decode(self.content, type=kind)
        except msgspec.ValidationError as error:
            raise UsageError(
                "a value is not of the kind that this format has there",
                where=self.where,
                seen=str(error)[:200],
                expected="the file as its tool wrote it",
                hint="was it edited, or is it another tool's? --format names one: unmoor check-results --help",
            ) from error
        except (msgspec.DecodeError, RecursionError) as error:
            _not_json(self.where, error)


class Content(msgspec.Struct, frozen=True):
    """What a file holds. `not_numbers` counts the values that are NaN."""

    documents: tuple[Document, ...]
    not_numbers: int


def open_content(path: Path) -> Content:
    """The documents of a file: its lines where its first line is a whole JSON value, else the file as one.

    Python's `Infinity` is read as the text "inf" and `NaN` as null, which JSON does not know. A last line without its
    end that cannot be read is an error as any. Raises UsageError for a file that is not there, empty or not JSON.
    """
    content = _mapped(path)
    not_numbers = 0
    if content.find(b"Infinity") >= 0 or content.find(b"NaN") >= 0:
        text, not_numbers = _plain_json(content)
        view = memoryview(text)
    else:
        text, view = b"", memoryview(content)
    find: Callable[[bytes, int], int] = text.find if text else content.find
    end = find(b"\n", 0)
    if end < 0 or not _is_whole(view[:end]):
        return Content((Document(view, str(path), None),), not_numbers)
    lines = tuple(Document(view[at:to], str(path), number) for number, at, to in _lines(find, len(view)))
    if len(lines) == 1:
        lines = (Document(lines[0].content, str(path), None),)
    return Content(lines, not_numbers)


def _mapped(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        seen = "an empty file"
    except OSError as error:
        seen = error.strerror or type(error).__name__
    raise UsageError(
        "no results to read",
        where=str(path),
        seen=seen,
        expected="a result file of a benchmark client",
        hint="name the file that the client wrote; unmoor check-results --help lists the formats",
    )


def _plain_json(content: mmap.mmap) -> tuple[bytes, int]:
    found = 0

    def plain(match: re.Match[bytes]) -> bytes:
        nonlocal found
        token = match.group()
        if token == b"NaN":
            found += 1
            return b"null"
        return token if token.startswith(b'"') else b'"inf"'

    return _TOKENS.sub(plain, content), found


def _is_whole(line: memoryview) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _lines(find: Callable[[bytes, int], int], size: int) -> Iterator[tuple[int, int, int]]:
    """The number, start and end of each line that is not empty."""
    at, number = 0, 0
    while at < size:
        end = find(b"\n", at)
        end = size if end < 0 else end
        number += 1
        if end - at > 1:
            yield number, at, end
        at = end + 1


def _not_json(where: str, error: Exception) -> NoReturn:
    cut_short = "truncated" in str(error)
    raise UsageError(
        "the file ends in the middle" if cut_short else "this is not JSON",
        where=where,
        seen=str(error)[:_SEEN_CHARACTERS],
        expected="a JSON document, or one a line",
        hint="was the client stopped while it wrote? take the file of a run that ended"
        if cut_short
        else "name the JSON file that the client wrote, not its log or its CSV",
    ) from error
