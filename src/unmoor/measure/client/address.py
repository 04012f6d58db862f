"""Where a load may go, and the bytes of a request that goes there."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

import msgspec
from msgspec.structs import replace

from unmoor.core.errors import UsageError
from unmoor.engines.wire import chat_body, completion_body, responses_body
from unmoor.measure.client.load import PlannedRequest, Target

_ENDPOINTS = {
    "chat": ("chat/completions", chat_body),
    "completions": ("completions", completion_body),
    "responses": ("responses", responses_body),
}
_LOCAL = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1"}


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where to connect, and what to ask for there."""

    host: str
    port: int
    path: str
    authority: str


def address_of(target: Target) -> Address:
    """The address of a target that is this machine. Raises UsageError for any other."""

    def refuse(expected: str, hint: str) -> UsageError:
        seen = _without_secrets(target.url)
        return UsageError("the load has nowhere to go", where="target", seen=seen, expected=expected, hint=hint)

    try:
        parts = urlsplit(target.url)
        port = parts.port or 80
    except ValueError as error:
        raise refuse("a URL like http://127.0.0.1:8000", str(error)) from error
    if parts.scheme != "http" or not parts.hostname:
        raise refuse("a URL like http://127.0.0.1:8000", "name the engine's address with http:// before it")
    if parts.hostname not in _LOCAL:
        raise refuse(
            "127.0.0.1, localhost or ::1",
            "load is only sent to this machine; against others it will need an explicit acknowledgement",
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise refuse("a URL without user, password, query or fragment", "none of them would be sent")
    endpoint, _ = _ENDPOINTS[target.endpoint]
    prefix = quote(parts.path.rstrip("/").removesuffix("/v1"), safe="/%")
    return Address(
        host=_LOCAL[parts.hostname],
        port=port,
        path=f"{prefix}/v1/{endpoint}",
        authority=parts.netloc.rpartition("@")[2],
    )


def _without_secrets(url: str) -> str:
    """A URL as it may be printed: what stands before its @, or after its ? or #, may be a password or a key."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{re.split('[?#]', rest)[0].rpartition('@')[2]}"


def asked_of(target: Target, request: PlannedRequest) -> PlannedRequest:
    """The request with what it leaves to its target to say: what the answer is to be."""
    return request if request.form is not None else replace(request, form=target.form)


def request_bytes(target: Target, address: Address, request: PlannedRequest) -> bytes:
    """The whole HTTP request, as it will be written in one piece.

    `ignore_eos` is left out where the answer is to have a form: such an answer ends where the form does.
    Raises UsageError for what the endpoint cannot be asked.
    """
    _, encode = _ENDPOINTS[target.endpoint]
    form = target.form if request.form is None else request.form
    body = encode(
        target.served_name if request.model is None else request.model,
        request.prompt,
        request.max_tokens,
        form=form,
        ignore_eos=request.ignore_eos and not form.is_checked,
        seed=request.seed,
    )
    head = (
        f"POST {address.path} HTTP/1.1\r\nHost: {address.authority}\r\nUser-Agent: unmoor\r\n"
        f"Content-Type: application/json\r\nAccept: {'text/event-stream' if form.stream else 'application/json'}\r\n"
        f"Accept-Encoding: identity\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body
