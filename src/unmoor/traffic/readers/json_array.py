"""A JSON array taken apart into its elements as it streams by, without decoding them or holding it whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

from unmoor.traffic.readers.contract import Broken

# Outside of strings these matter, commas only between elements.
_BETWEEN = re.compile(rb'["{}\[\],]')
_WITHIN = re.compile(rb'["{}\[\]]')
_QUOTE, _COMMA, _BACKSLASH = ord('"'), ord(","), ord("\\")
_OPEN = frozenset(b"{[")


def elements(chunks: Iterator[bytes], *, longest: int) -> Iterator[bytes | int | Broken]:
    """Each element of the array that begins in the first chunk, stripped; of one longer than `longest`, its size.

    What stands after the array's end, and an element that has none, come as broken.
    """
    splitter = _Splitter(longest)
    for chunk in chunks:
        yield from splitter.feed(chunk)
    yield from splitter.end()


class _Splitter:
    """Where the text is: how deep in brackets, and whether within a string."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._held = bytearray()  # the element so far, unless it is too long
        self._size = 0  # its size, held or not
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the chunk before ended in a backslash
        self._over = False

    def feed(self, chunk: bytes) -> Iterator[bytes | int | Broken]:
        place = start = 0
        while place < len(chunk):
            if self._in_string:
                place = self._through_string(chunk, place)
                continue
            found = (_BETWEEN if self._depth == 1 else _WITHIN).search(chunk, place)
            if found is None:
                break
            at, mark = found.start(), chunk[found.start()]
            place = at + 1
            if mark == _QUOTE:
                self._in_string = True
            elif mark in _OPEN:
                self._depth += 1
                if self._depth == 1 and not self._over:
                    self._forget()
                    start = place
            elif mark == _COMMA:
                yield from self._element(chunk[start:at])
                start = place
            else:
                self._depth -= 1
                if self._depth == 0 and not self._over:
                    yield from self._element(chunk[start:at], last=True)
                    start, self._over = place, True
        self._keep(chunk[start:])

    def end(self) -> Iterator[Broken]:
        if not self._over:
            yield Broken("the array ends early", seen="no ] at its end", expected="a whole JSON array")
        elif self._size:
            yield Broken("text after the array", seen=f"{self._size:,} bytes", expected="nothing but the array")

    def _through_string(self, chunk: bytes, place: int) -> int:
        """The place after the string's end, or the chunk's."""
        if self._escaped:
            self._escaped = False
            place += 1
        while (end := chunk.find(b'"', place)) >= 0:
            if not _backslashes_before(chunk, end, place) % 2:
                self._in_string = False
                return end + 1
            place = end + 1
        self._escaped = _backslashes_before(chunk, len(chunk), place) % 2 == 1
        return len(chunk)

    def _element(self, rest: bytes, *, last: bool = False) -> Iterator[bytes | int]:
        self._keep(rest)
        if self._size > self._longest:
            yield self._size
        elif (found := bytes(self._held).strip()) or not last:
            yield found
        self._forget()

    def _keep(self, part: bytes) -> None:
        if self._over:
            part = part.strip()
        self._size += len(part)
        if self._size > self._longest:
            self._held.clear()
        else:
            self._held += part

    def _forget(self) -> None:
        self._held = bytearray()
        self._size = 0


def _backslashes_before(chunk: bytes, end: int, start: int) -> int:
    place = end
    while place > start and chunk[place - 1] == _BACKSLASH:
        place -= 1
    return end - place
