"""One page of a server on this machine, whole and in time, or not at all."""

from __future__ import annotations

import http.client
import time

_OK = 200
_MOST_BYTES = 16 << 20
_PIECE_BYTES = 1 << 16


def page_at(host: str, port: int, path: str, *, timeout_s: float) -> bytes | None:
    """The body of a GET; None for an error, one over 16 MiB, and one that takes longer than `timeout_s` in all."""
    status, body = answer_of("GET", host, port, path, timeout_s=timeout_s)
    return body if status == _OK else None


def answer_of(method: str, host: str, port: int, path: str, *, timeout_s: float) -> tuple[int | None, bytes | None]:
    """The status and body of a request without a body; None for what could not be had whole and in time."""
    ends_s = time.monotonic() + timeout_s
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request(method, path, headers={"Accept": "*/*", "Content-Length": "0"} if method != "GET" else {})
        answer = connection.getresponse()
        body = bytearray()
        while piece := answer.read1(_PIECE_BYTES):
            body += piece
            if len(body) > _MOST_BYTES or time.monotonic() > ends_s:
                return answer.status, None
    except (OSError, http.client.HTTPException, ValueError):
        return None, None
    finally:
        connection.close()
    return answer.status, bytes(body)
