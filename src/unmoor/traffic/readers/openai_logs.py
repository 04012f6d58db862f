"""Logs of OpenAI-format requests: a body a line, bare or wrapped with its time, answer and owner as gateways do.

The body is the record itself or stands under one of the usual keys, as an object or as JSON text; so does the answer,
of which its usage and the size of its text are kept. A record without text is read for its lengths. Read this way too:
OpenAI's batch input; LiteLLM's two payloads (StandardLoggingPayload and SpendLogsPayload, read in litellm 1.110.2,
types/utils.py and proxy/_types.py); Langfuse's observations (ObservationV2, read in langfuse 5.0.4,
api/commons/types/observation_v2.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Blocks, Content, Entry, Prompt
from unmoor.traffic.log import Grain
from unmoor.traffic.readers.clock import Clock
from unmoor.traffic.readers.contract import Broken, FirstLine, RecordFormat
from unmoor.traffic.readers.json_lines import decoded
from unmoor.traffic.readers.nested_json import list_in, object_in, parsed
from unmoor.traffic.readers.openai_body import EXPECTED, Bodies, answer_bytes_of, is_body, tools_of
from unmoor.traffic.readers.openai_usage import USAGES, usage_of
from unmoor.traffic.readers.text_taken_out import is_counted, is_empty, is_redacted

_BODIES = ("request", "body", "request_body", "requestBody", "proxy_server_request", "input", "kwargs", "params")
_ANSWERS = ("response", "response_body", "responseBody", "output", "completion")
_PARAMETERS = ("model_parameters", "modelParameters", "optional_params")
_TIMES = (
    "timestamp",
    "time",
    "ts",
    "startTime",
    "start_time",
    "created_at",
    "createdAt",
    "created",
    "@timestamp",
    "date",
)
_ENDS = ("endTime", "end_time")
_TOOK = {"duration_s": 1.0, "took_s": 1.0, "latency_s": 1.0, "latency": 1.0, "response_time": 1.0}
_TOOK |= {"duration_ms": 1e-3, "latency_ms": 1e-3, "request_duration_ms": 1e-3}
_WITHOUT_UNIT = ("latency", "response_time")
_SESSIONS = ("session_id", "sessionId", "session", "conversation_id", "conversation", "thread_id", "prompt_cache_key")
_TENANTS = (
    *("tenant", "tenant_id", "team", "team_alias", "team_id", "user_api_key_team_alias", "user_api_key_team_id"),
    *("organization", "organization_id", "user_api_key_org_alias", "user_api_key_org_id"),
    *("project", "user_api_key_project_alias", "user_api_key_project_id", "user_api_key_alias", "user_api_key_hash"),
    *("user", "user_id", "userId", "end_user"),
)
_CALLS = ("call_type", "url")
_STATUSES = ("status_code", "statusCode", "http_status", "response_code", "status")
_THREE_DIGITS = re.compile(r"[1-5][0-9]{2}")
_LEAST_STATUS, _MOST_STATUS = 100, 599
_GENERATES = re.compile(r"completion|response|message|generate_content|pass_through|chat|^$")
_OTHER_ROUTES = re.compile(r"/(embeddings|moderations|audio|images|rerank|score|tokenize|detokenize)\b")
_CUT = "(litellm_truncated skipped "  # LiteLLM leaves out the middle of what it stores
_OTHER_OBSERVATIONS = frozenset(
    ("SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL")
)
_IN_BODIES = ("user", "session_id", "prompt_cache_key", "conversation")
_NOTHING: Mapping[str, Any] = {}
_FAILURES = ("failure", "failed", "error", "ERROR")
_MOST_SHAPES = 1000
_MOST_ANSWERS = 100_000

NAMES = frozenset(
    (*_BODIES, *_ANSWERS, *_PARAMETERS, *_TIMES, *_ENDS, *_TOOK, *_SESSIONS, *_TENANTS, "usage", "metadata")
)
"""The keys that are looked for in a record."""

Tree = Mapping[str, Any]


class _Present(NamedTuple):
    """Which of the names that matter are among a record's keys."""

    answers: tuple[str, ...]
    parameters: tuple[str, ...]
    times: tuple[str, ...]
    ends: tuple[str, ...]
    took: tuple[str, ...]
    usage: tuple[str, ...]
    calls: tuple[str, ...]
    sessions: tuple[str, ...]
    tenants: tuple[str, ...]
    beside: tuple[str, ...]
    statuses: tuple[str, ...]


_GROUPS = (
    _ANSWERS,
    _PARAMETERS,
    _TIMES,
    _ENDS,
    tuple(_TOOK),
    USAGES,
    _CALLS,
    _SESSIONS,
    _TENANTS,
    ("metadata",),
    _STATUSES,
)


def body_in(record: Tree, *, named: bool = True) -> Tree | None:
    """The request's body in a record, at most two levels down; None where there is none.

    Where `named`, a prompt or an input is one only beside the model that it is for.
    """
    own = _written_body(record) or (record if is_body(record, named=named) else None)
    if own is not None:
        return own
    for name in _BODIES:
        if name not in record:
            continue
        inner = object_in(record[name])
        if is_body(inner, named=False):
            return inner
        if inner is not None and is_body(deeper := object_in(inner.get("body")), named=False):
            return deeper
    said = record.get("messages", record.get("input") if _is_generation(record) else None)
    if isinstance(said, dict):
        return said if is_body(said) else None
    if isinstance(said, str | list) and object_in(said) is None:  # LiteLLM writes "{}" for text that it does not keep
        listed = list_in(said)
        key = "messages" if isinstance(listed, list) and listed and isinstance(listed[0], dict) else "prompt"
        taken = {"input", "messages"} if isinstance(said, str) else {"input"}
        told = {name: value for name, value in record.items() if name not in taken} | {key: listed}
        return told if is_body(told, named=False) else None
    return None


def _written_body(record: Tree) -> Tree | None:
    """The body in an input or in messages that are written as JSON text; None where there is no such text."""
    for name in ("input", "messages"):
        said = record.get(name)
        if isinstance(said, str) and said[:1] in {"{", "["} and (held := parsed(said)):
            rest = {key: value for key, value in record.items() if key != name}
            told = {**rest, "messages": held} if isinstance(held, list) else {**rest, **_tree_of(held)}
            return told if is_body(told, named=False) else None
    return None


def _tree_of(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_generation(record: Tree) -> bool:
    return str(record.get("type", "")).upper() == "GENERATION"


class _Reader:
    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(dict[str, Any])
        self._clock = Clock()
        self._bodies = Bodies()
        self._shapes: dict[tuple[str, ...], _Present] = {}
        self._session_of: dict[str, str] = {}  # of answers that later requests may go on from
        self._unit_assumed = ""
        self._ids = self._other_calls = self._textless = self._failed = self._unknown = 0

    @property
    def grain(self) -> Grain | None:
        """Token ids are exact; of text the cutter decides."""
        return Grain(by="tokens", tokens=1) if self._ids else None

    @property
    def notes(self) -> Sequence[Caveat]:
        counted = (
            (self._other_calls, "other_calls", "{} other than generations (embeddings, spans) were passed over."),
            (self._failed, "failed_requests", "{} of failed requests; their prompts are counted like the others'."),
            (
                self._unknown,
                "failed_left_out",
                "{} of failed requests say neither text nor tokens: they were left out.",
            ),
            (
                self._textless,
                "text_redacted",
                "{} without text, which the gateway did not keep or took out: what these prompts share is unknown.",
            ),
            (
                self._bodies.beyond_text,
                "beyond_text",
                "{} with images, sounds or files: a hash stands for each, and its tokens count only where usage says.",
            ),
        )
        told = (
            Caveat(code=code, text=text.format(f"{count:,} {'record' if count == 1 else 'records'}"))
            for count, code, text in counted
            if count
        )
        if self._unit_assumed:
            note = Caveat(code="clock_unit", text=f"`{self._unit_assumed}` was read as seconds.")
            return (*((self._clock.note,) if self._clock.note else ()), note, *told)
        return (*((self._clock.note,) if self._clock.note else ()), *told)

    def read(self, record: bytes) -> tuple[Entry, ...]:
        tree = decoded(self._decoder, record, expected=EXPECTED)
        present = self._present(tree)
        if (present.calls and any(_is_other(name, tree[name]) for name in present.calls)) or _is_step(tree):
            self._other_calls += 1
            return ()
        body = body_in(tree, named=False)
        if body is None:
            if not is_counted(tree, _answer(tree, present)):
                if _has_failed(tree):
                    self._unknown += 1
                    return ()
                raise Broken("no request's body", seen="an object without one, or its tokens", expected=EXPECTED)
            body = _NOTHING
        for name in present.parameters:
            body = {**(object_in(tree[name]) or {}), **body}
        return self._entries(tree, body, present)

    def _entries(self, tree: Tree, body: Tree, present: _Present) -> tuple[Entry, ...]:
        answer = _answer(tree, present)
        usage = usage_of(tree, answer, present.usage)
        input_tokens = usage.input_tokens
        at = _first(tree, present.times)
        owners = _owners(tree, body, present)
        contents = self._contents(tree, body, input_tokens)
        self._failed += _has_failed(tree)
        alone = len(contents) == 1  # else tokens are counted for all of them together
        output_tokens = usage.output_tokens if alone else None
        asked = self._bodies.asked_of(body)
        entry = Entry(
            at_s=None if at is None else self._clock.seconds(at),
            input_tokens=input_tokens if alone else None,
            output_tokens=output_tokens,
            content=contents[0],
            session=self._session(tree, owners, body, answer, present),
            tenant=_named(tree, present.tenants, owners, _TENANTS),
            adapter=asked.adapter,
            model=_name(body, ("model",)) or _name(tree, ("model",)),
            schema=asked.schema,
            took_s=self._took(tree, at, present),
            tools=tools_of(body),
            sampling=asked.sampling,
            answer_bytes=answer_bytes_of(answer) if alone and output_tokens is None else None,
            body=body or None,
            answer=answer or None,
            http_status=_http_status(tree, present),
        )
        if alone and not isinstance(contents[0], Blocks):
            return (entry,)
        return tuple(_with(entry, content) for content in contents)

    def _contents(self, tree: Tree, body: Tree, input_tokens: int | None) -> Sequence[Content]:
        """The prompts; one of unknown content where the text was taken out."""
        contents = () if not body or is_redacted(body) else self._bodies.prompts_of(body)
        if not contents or (input_tokens and len(contents) == 1 and is_empty(contents[0])):
            self._textless += 1
            return (None,)
        if "call_type" in tree and any(map(_is_cut, contents)):
            raise Broken("a prompt that is cut off", seen="text left out", expected="prompts stored whole")
        self._ids += isinstance(contents[0], Blocks)
        return contents

    def _present(self, tree: Tree) -> _Present:
        keys = tuple(tree)
        present = self._shapes.get(keys)
        if present is None:
            present = _Present(*(tuple(name for name in names if name in tree) for names in _GROUPS))
            if len(self._shapes) < _MOST_SHAPES:
                self._shapes[keys] = present
        return present

    def _session(self, tree: Tree, owners: Sequence[Tree], body: Tree, answer: Tree, present: _Present) -> str | None:
        """The conversation that is named, or the one of the answer that the request goes on from."""
        session = _named(tree, present.sessions, owners, _SESSIONS)
        if session is not None or ("input" not in body and not _is_generation(tree)):
            return session
        if isinstance(going_on := body.get("conversation"), dict):
            return _name(going_on, ("id",))
        before, made = body.get("previous_response_id"), answer.get("id")
        if isinstance(before, str):
            session = self._session_of.get(before, before)
        if isinstance(made, str):
            if len(self._session_of) >= _MOST_ANSWERS:
                del self._session_of[next(iter(self._session_of))]
            session = self._session_of[made] = session or made
        return session or _name(tree, ("traceId",))

    def _took(self, tree: Tree, at: object, present: _Present) -> float | None:
        """From start to end where both are named; else what is said: for a stream perhaps until its first token.

        An end before its start tells nothing.
        """
        end = _first(tree, present.ends)
        if at is not None and end is not None:
            try:
                took_s = self._clock.seconds(end) - self._clock.seconds(at)
            except Broken:  # an end that is no time takes nothing from the rest
                return None
            return took_s if took_s >= 0 else None
        for name in present.took:
            value = tree[name]
            if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
                self._unit_assumed = self._unit_assumed or (name if name in _WITHOUT_UNIT else "")
                return value * _TOOK[name]
        return None


def _answer(tree: Tree, present: _Present) -> Tree:
    answer = next((found for name in present.answers if (found := object_in(tree[name]))), _NOTHING)
    if "usage" not in answer and (inner := object_in(answer.get("body"))) is not None:
        return inner  # an answer over HTTP, as a batch's
    return answer


def _http_status(tree: Tree, present: _Present) -> int | None:
    """The status of the answer over HTTP, as the record or a batch's answer in it says; a word is none."""
    for name in present.statuses:
        if (status := _status(tree[name])) is not None:
            return status
    answers = (tree[name] for name in present.answers)
    told = (_status(answer.get("status_code")) for answer in answers if isinstance(answer, dict))
    return next((status for status in told if status is not None), None)


def _status(value: object) -> int | None:
    number = int(value) if isinstance(value, str) and _THREE_DIGITS.fullmatch(value) else value
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    return number if _LEAST_STATUS <= number <= _MOST_STATUS else None


def _is_other(name: str, kind: object) -> bool:
    """Whether a call is something else than a generation, by its type or its route: embeddings, say."""
    if not isinstance(kind, str):
        return False
    return bool(_OTHER_ROUTES.search(kind)) if name == "url" else not _GENERATES.search(kind.casefold())


def _is_step(tree: Tree) -> bool:
    """Whether this is a step of a trace that is no generation."""
    return "startTime" in tree and isinstance(tree.get("type"), str) and tree["type"] in _OTHER_OBSERVATIONS


def _is_cut(content: Content) -> bool:
    return isinstance(content, Prompt) and any(_CUT in part.text for part in content.parts)


def _owners(tree: Tree, body: Tree, present: _Present) -> Sequence[Tree]:
    """Who is named besides in the record itself: in its metadata, in the body's, and in the body."""
    owners = [owner for name in present.beside if (owner := object_in(tree[name]))]
    if body is not tree:
        if metadata := object_in(body.get("metadata")):
            owners.append(metadata)
        if named := {name: body[name] for name in _IN_BODIES if name in body}:
            owners.append(named)
    return owners


def _named(tree: Tree, present: Sequence[str], owners: Sequence[Tree], names: Sequence[str]) -> str | None:
    if present and (found := _name(tree, present)):
        return found
    return next((name for owner in owners if (name := _name(owner, names)) is not None), None) if owners else None


def _with(entry: Entry, content: Content) -> Entry:
    if content is entry.content and not isinstance(content, Blocks):
        return entry
    tokens = len(content.ids) if isinstance(content, Blocks) else entry.input_tokens
    return msgspec.structs.replace(entry, content=content, input_tokens=tokens)


def _first(tree: Tree, names: Sequence[str]) -> object:
    for name in names:
        if isinstance(value := tree[name], str | int | float):
            return value
    return None


def _name(tree: Tree, names: Sequence[str]) -> str | None:
    for name in names:
        value = tree.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    return None


def _looks_like(first: FirstLine) -> bool:
    return body_in(first.keys) is not None or is_counted(first.keys) or _is_passed_over(first.keys)


def _is_passed_over(record: Tree) -> bool:
    """Whether this is a call or a step that holds no request, as a log may begin with many of them."""
    kind = record.get("call_type")
    return _is_step(record) or (isinstance(kind, str) and (_is_other("call_type", kind) or _has_failed(record)))


def _has_failed(record: Tree) -> bool:
    status = record.get("status")
    return isinstance(status, str) and status in _FAILURES


FORMAT = RecordFormat(name="openai", expected=EXPECTED, looks_like=_looks_like, start=_Reader)
