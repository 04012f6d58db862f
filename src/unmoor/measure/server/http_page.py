"""One page of a server on this machine, whole and in time, or not at all."""

from __future__ import annotations

import http.client
import socket
import threading
from contextlib import suppress
from typing import NamedTuple

_OK = 200
_MOST_BYTES = 16 << 20
_PIECE_BYTES = 1 << 16


def page_at(host: str, port: int, path: str, *, timeout_s: float) -> bytes | None:
    """The body of a GET; None for an error, one over 16 MiB, and one that takes longer than `timeout_s` in all."""
    answer = answer_of("GET", host, port, path, timeout_s=timeout_s)
    return answer.body if answer.status == _OK else None


class PageAnswer(NamedTuple):
    """The status and body of an answer; each None where it could not be had whole and in time: `why` says it then."""

    status: int | None
    body: bytes | None
    why: str = ""


def answer_of(method: str, host: str, port: int, path: str, *, timeout_s: float) -> PageAnswer:
    """The answer to a request without a body."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    # Its own timeout is for each read: a server that drips a byte at a time would hold it for ever.
    deadline = threading.Timer(timeout_s, _break_off, [connection])
    deadline.daemon = True
    deadline.start()
    try:
        connection.request(method, path, headers={"Accept": "*/*", "Content-Length": "0"} if method != "GET" else {})
        answer = connection.getresponse()
        body = bytearray()
        while piece := answer.read1(_PIECE_BYTES):
            body += piece
            if len(body) > _MOST_BYTES:
                return PageAnswer(answer.status, None, f"more than {_MOST_BYTES >> 20} MiB")
        if answer.length:
            return PageAnswer(answer.status, None, "an answer that broke off")
    except (OSError, http.client.HTTPException, ValueError) as failure:
        late = f"nothing whole within {timeout_s:g} s" if not deadline.is_alive() else ""
        why = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
        return PageAnswer(None, None, late or why)
    finally:
        overdue = not deadline.is_alive()
        deadline.cancel()
        connection.close()
    if overdue:
        return PageAnswer(answer.status, None, f"nothing whole within {timeout_s:g} s")
    return PageAnswer(answer.status, bytes(body))


def _break_off(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)
