"""Lines as Docker's json-file driver keeps them: {"log": text, "stream": name, "time": time}, unwrapped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unmoor.traffic.readers.json_lines import decoded
from unmoor.traffic.readers.records import LONGEST_RECORD_BYTES

_EXPECTED = '{"log": line, "stream": "stdout", "time": time}'
_BEGINS = b'{"log":'


class _Wrapped(msgspec.Struct):
    log: str
    stream: str = ""


class Unwrapper:
    """Takes the lines of one log out of Docker's, which cuts one beyond 16 KiB in pieces; others are as they are."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(_Wrapped)
        self._begun: dict[str, list[str]] = {}
        self._size = 0

    def line(self, record: bytes) -> bytes | None:
        """The line that ends with this record; None where it goes on in the next one. Raises Broken."""
        if not record.startswith(_BEGINS):
            return record
        wrapped = decoded(self._decoder, record, expected=_EXPECTED)
        pieces = self._begun.setdefault(wrapped.stream, [])
        pieces.append(wrapped.log)
        self._size += len(wrapped.log)
        if not wrapped.log.endswith("\n") and self._size <= LONGEST_RECORD_BYTES:
            return None
        del self._begun[wrapped.stream]
        line = "".join(pieces)
        self._size -= len(line)
        return line.encode("utf-8", "surrogatepass")


def in_docker(keys: Mapping[str, Any]) -> str | None:
    """The text that Docker wrapped; None for any other object."""
    log = keys.get("log")
    return log if isinstance(log, str) and "stream" in keys else None
