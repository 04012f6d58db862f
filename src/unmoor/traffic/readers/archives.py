"""What lies in a log's file: its bytes as they are, or unpacked, told by how it begins whatever its name."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from backports import zstd

from unmoor.core.errors import TrafficError
from unmoor.traffic.readers.contract import LogFile

CHUNK_BYTES = 1024 * 1024
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = tuple(bytes((low, 0x2A, 0x4D, 0x18)) for low in range(0x50, 0x60))
_LONGEST_MARK = 4
_GZIP_WRAPPED = 31  # the largest window, in gzip's wrapping


def unpacked(file: LogFile) -> Iterator[bytes]:
    """The file's content in chunks, none of them empty. gzip and zstd, of one member or several, are unpacked.

    Raises TrafficError for an archive that is damaged or ends early.
    """
    head = _head(file)
    chunks = _chunks(file, head)
    if head.startswith(_GZIP):
        return _members(file.name, chunks, "gzip", _Gzip)
    if head.startswith((_ZSTD, *_ZSTD_SKIPPABLE)):
        return _members(file.name, chunks, "zstd", zstd.ZstdDecompressor)
    return chunks


def _head(file: LogFile) -> bytes:
    """The first bytes; a pipe may give them one by one."""
    head = b""
    while len(head) < _LONGEST_MARK and (more := _read(file)):
        head += more
    return head


def _chunks(file: LogFile, head: bytes) -> Iterator[bytes]:
    if head:
        yield head
    while chunk := _read(file):
        yield chunk


def _read(file: LogFile) -> bytes:
    try:
        return _available(file.stream)
    except OSError as failure:
        raise TrafficError(
            "cannot be read to its end",
            where=file.name,
            seen=failure.strerror or type(failure).__name__,
            expected="a log that can be read",
            hint="copy it to a disk of this machine first",
        ) from None


def _available(stream: BinaryIO) -> bytes:
    """What a buffered stream has or can get with one call, so that a pipe's content is taken as it comes."""
    read1: Callable[[int], bytes] | None = getattr(stream, "read1", None)
    return read1(CHUNK_BYTES) if read1 else stream.read(CHUNK_BYTES)


class _Gzip:
    """zlib's decompression with the manners of zstd's: bounded output, and whether it waits for input."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=_GZIP_WRAPPED)
        self.eof = False
        self.needs_input = True
        self.unused_data = b""

    def decompress(self, packed: bytes, max_length: int) -> bytes:
        found = self._member.decompress(self._member.unconsumed_tail or packed, max_length)
        self.eof, self.unused_data = self._member.eof, self._member.unused_data
        self.needs_input = not self.eof and len(found) < max_length and not self._member.unconsumed_tail
        return found


def _members(
    name: str, chunks: Iterator[bytes], kind: str, start: Callable[[], _Gzip | zstd.ZstdDecompressor]
) -> Iterator[bytes]:
    """One archive after another until the file ends; zeros after the last are padding."""
    member = start()
    read = 0
    for chunk in chunks:
        read += len(chunk)
        packed = chunk
        while packed or not (member.needs_input or member.eof):
            if member.eof:
                if not packed.strip(b"\0"):
                    break
                member = start()
            try:
                found = member.decompress(packed, CHUNK_BYTES)
            except (zlib.error, zstd.ZstdError) as error:
                raise _damaged(name, kind, read, error) from None
            if found:
                yield found
            packed = member.unused_data if member.eof else b""
    if not member.eof:
        raise _early(name, kind, read)


def _damaged(name: str, kind: str, read: int, error: Exception) -> TrafficError:
    return TrafficError(
        f"a damaged {kind} archive",
        where=name,
        seen=f"{str(error).removeprefix('Error ')} (after {read:,} bytes of the archive)",
        expected="an archive that can be unpacked whole",
        hint=f"`{kind} -t FILE` tests it",
    )


def _early(name: str, kind: str, read: int) -> TrafficError:
    return TrafficError(
        f"the {kind} archive ends early",
        where=name,
        seen=f"{read:,} bytes, and no end",
        expected="a whole archive; was the copy cut off, or is it still being written?",
        hint=f"to profile what there is: {kind} -dc FILE | unmoor profile -",
    )
