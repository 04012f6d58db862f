"""Logs of OpenAI-format requests: a body a line, bare or wrapped with its time, answer and owner as gateways do.

The body is the record itself or stands under one of the usual keys, as an object or as JSON text; so does the answer,
of which its usage and the size of its text are kept. LiteLLM's and Langfuse's exports are read this way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Entry
from unmoor.traffic.log import Grain
from unmoor.traffic.readers.clock import Clock
from unmoor.traffic.readers.contract import Broken, FirstLine, RecordFormat
from unmoor.traffic.readers.json_lines import decoded
from unmoor.traffic.readers.openai_body import (
    EXPECTED,
    adapter_of,
    answer_bytes_of,
    is_body,
    prompt_of,
    sampling_of,
    schema_of,
    tools_of,
)

_BODIES = ("request", "body", "request_body", "requestBody", "proxy_server_request", "input", "kwargs", "params")
_ANSWERS = ("response", "response_body", "responseBody", "output", "completion")
_TIMES = ("timestamp", "time", "ts", "startTime", "start_time", "created_at", "created", "@timestamp", "date")
_ENDS = ("endTime", "end_time")
_TOOK = {"duration_s": 1.0, "took_s": 1.0, "latency_s": 1.0, "latency": 1.0, "duration_ms": 1e-3, "latency_ms": 1e-3}
_SESSIONS = ("session_id", "sessionId", "session", "conversation_id", "conversation")
_TENANTS = ("tenant", "tenant_id", "team", "team_id", "team_alias", "organization", "user", "user_id", "userId")
_INPUTS = ("prompt_tokens", "input_tokens", "promptTokens", "input")
_OUTPUTS = ("completion_tokens", "output_tokens", "completionTokens", "output")

Tree = Mapping[str, Any]


def body_in(record: Tree) -> Tree | None:
    """The request's body in a record, at most two levels down; None where there is none."""
    if is_body(record):
        return record
    for name in _BODIES:
        if name not in record:
            continue
        inner = _tree(record[name])
        if is_body(inner):
            return inner
        if inner is not None and is_body(deeper := _tree(inner.get("body"))):
            return deeper
    if isinstance(record.get("messages"), str | list):
        told = {**record, "messages": _list(record["messages"])}
        return told if is_body(told) else None
    return None


def _tree(value: object) -> dict[str, Any] | None:
    """An object, or the object that a text holds as JSON."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _list(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None


class _Reader:
    grain: Grain | None = None

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(dict[str, Any])
        self._clock = Clock()

    @property
    def notes(self) -> Sequence[Caveat]:
        return (self._clock.note,) if self._clock.note else ()

    def read(self, record: bytes) -> tuple[Entry, ...]:
        tree = decoded(self._decoder, record, expected=EXPECTED)
        body = body_in(tree)
        if body is None:
            raise Broken("no request's body", seen="an object without one", expected=EXPECTED)
        answer = next((found for name in _ANSWERS if (found := _tree(tree.get(name)))), {})
        usage = _tree(answer.get("usage")) or _tree(tree.get("usage")) or _tree(tree.get("usageDetails")) or tree
        at = _first(tree, _TIMES)
        owner = tree
        if "metadata" in body or "metadata" in tree:
            owner = {**(_tree(body.get("metadata")) or {}), **(_tree(tree.get("metadata")) or {}), **tree}
        return (
            Entry(
                at_s=None if at is None else self._clock.seconds(at),
                input_tokens=_count(usage, _INPUTS),
                output_tokens=_count(usage, _OUTPUTS),
                content=prompt_of(body),
                session=_name(owner, _SESSIONS),
                tenant=_name(owner, _TENANTS) or _name(body, ("user",)),
                adapter=adapter_of(body),
                model=_name(body, ("model",)) or _name(tree, ("model",)),
                schema=schema_of(body),
                took_s=self._took(tree, at),
                tools=tools_of(body),
                sampling=sampling_of(body),
                answer_bytes=answer_bytes_of(answer),
            ),
        )

    def _took(self, tree: Tree, at: object) -> float | None:
        for name in tree:
            if name not in _TOOK:
                continue
            if isinstance(value := tree[name], int | float) and not isinstance(value, bool) and value >= 0:
                return value * _TOOK[name]
        end = _first(tree, _ENDS)
        if at is None or end is None:
            return None
        if isinstance(at, str) and isinstance(end, str):
            clock = Clock()
            began = clock.seconds(at)
            return max(0.0, clock.seconds(end) - began)
        return None


def _first(tree: Tree, names: Sequence[str]) -> object:
    for name in names:
        if name in tree and isinstance(tree[name], str | int | float):
            return tree[name]
    return None


def _name(tree: Tree, names: Sequence[str]) -> str | None:
    for name in names:
        if name in tree and isinstance(tree[name], str | int) and tree[name] != "":
            return str(tree[name])
    return None


def _count(usage: Tree, names: Sequence[str]) -> int | None:
    """A number of tokens; None where it is not said, or is 0 as for a request that failed before it was read."""
    found = next((usage[name] for name in names if isinstance(usage.get(name), int)), None)
    return None if found is None or isinstance(found, bool) or found < 1 else found


def _looks_like(first: FirstLine) -> bool:
    return body_in(first.keys) is not None


FORMAT = RecordFormat(name="openai", expected=EXPECTED, looks_like=_looks_like, start=_Reader)
