"""Request bodies of the three endpoints: one prompt, greedy sampling, and the form that the answer is to have."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from unmoor.core.errors import UsageError

Endpoint = Literal["chat", "completions", "responses"]

_MODES: Final = frozenset({"auto", "none", "required"})
_NAME: Final = "answer"
"""What a schema is called in a request: the API wants a name, nobody reads it."""


class AnswerForm(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer is to be, whatever the endpoint calls it.

    `stream` asks for events as tokens come, else for the answer in one piece. `n` choices are asked for at a time.
    `schema` is a JSON schema that the answer is to fit, as JSON text. `tools` is a JSON list of tools as the chat
    endpoint writes them ([{"type": "function", "function": {"name", "description", "parameters"}}]); `tool_choice` is
    "auto", "none", "required" or the name of one of them, and None leaves it to the server.
    """

    stream: bool = True
    n: int = 1
    schema: bytes | None = None
    tools: bytes | None = None
    tool_choice: str | None = None

    @property
    def is_checked(self) -> bool:
        """Whether what comes back can be right or wrong in form."""
        return self.schema is not None or self.tools is not None


STREAMED: Final = AnswerForm()


def chat_body(
    model: str,
    prompt: str,
    max_tokens: int,
    *,
    form: AnswerForm = STREAMED,
    ignore_eos: bool = False,
    seed: int | None = None,
) -> bytes:
    """A chat completion request as JSON: one user message, temperature 0 (1 for several choices), usage in a stream.

    `ignore_eos` is a field of vLLM and SGLang, not of OpenAI: it is only there when asked for.
    """
    ask = _ask(model, {"messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens}, form)
    if form.tools is not None:
        ask["tools"] = msgspec.Raw(form.tools)
    if form.tool_choice is not None:
        function = {"type": "function", "function": {"name": form.tool_choice}}
        ask["tool_choice"] = form.tool_choice if form.tool_choice in _MODES else function
    return _encode(ask | _choices(form), ignore_eos=ignore_eos, seed=seed)


def completion_body(
    model: str,
    prompt: str,
    max_tokens: int,
    *,
    form: AnswerForm = STREAMED,
    ignore_eos: bool = False,
    seed: int | None = None,
) -> bytes:
    """A text completion request as JSON, with the same rules as `chat_body`.

    A schema is asked for as in chat: vLLM and SGLang know it here, OpenAI does not. Raises UsageError for tools.
    """
    if form.tools is not None or form.tool_choice is not None:
        raise _cannot("completions", "for tools", "the chat or the responses endpoint")
    ask = _ask(model, {"prompt": prompt, "max_tokens": max_tokens}, form)
    return _encode(ask | _choices(form), ignore_eos=ignore_eos, seed=seed)


def responses_body(
    model: str,
    prompt: str,
    max_tokens: int,
    *,
    form: AnswerForm = STREAMED,
    ignore_eos: bool = False,
    seed: int | None = None,
) -> bytes:
    """A request of the Responses API as JSON, not to be stored; `seed` and `ignore_eos` are vLLM's and SGLang's there.

    Raises UsageError for more than one choice, which that endpoint does not know, and for tools that are no list.
    Source: https://platform.openai.com/docs/api-reference/responses/create (read 2026-12-01)
    """
    if form.n != 1:
        raise _cannot("responses", "for several choices", "the chat or the completions endpoint")
    ask = _ask(model, {"input": prompt, "max_output_tokens": max_tokens, "store": False}, form)
    if form.schema is not None:
        ask["text"] = {"format": {"type": "json_schema", **_schema(form.schema)}}
    if form.tools is not None:
        ask["tools"] = _flat_tools(form.tools)
    if form.tool_choice is not None:
        function = {"type": "function", "name": form.tool_choice}
        ask["tool_choice"] = form.tool_choice if form.tool_choice in _MODES else function
    return _encode(ask, ignore_eos=ignore_eos, seed=seed)


def _ask(model: str, what: dict[str, Any], form: AnswerForm) -> dict[str, Any]:
    stream = {"stream": True} if form.stream else {}
    # Several greedy choices would all be one, and vLLM refuses to make them.
    return {"model": model, **what, "temperature": 0.0 if form.n == 1 else 1.0, **stream}


def _choices(form: AnswerForm) -> dict[str, Any]:
    """What chat and completions have in common."""
    asked: dict[str, Any] = {}
    if form.stream:
        asked["stream_options"] = {"include_usage": True}
    if form.n != 1:
        asked["n"] = form.n
    if form.schema is not None:
        asked["response_format"] = {"type": "json_schema", "json_schema": _schema(form.schema)}
    return asked


def _schema(schema: bytes) -> dict[str, Any]:
    return {"name": _NAME, "schema": msgspec.Raw(schema), "strict": True}


def _flat_tools(tools: bytes) -> list[dict[str, Any]]:
    """Tools as the Responses API writes them: what chat has under "function" stands beside the type."""
    try:
        listed = msgspec.json.decode(tools, type=list[dict[str, Any]])
    except msgspec.MsgspecError as error:
        raise UsageError(
            "tools that are none",
            where="tools",
            seen=str(error),
            expected="a JSON list",
            hint="as chat has it",
        ) from error
    return [_flat(tool) for tool in listed]


def _flat(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    return {"type": "function", **function} if isinstance(function, dict) else tool


def _encode(ask: dict[str, Any], *, ignore_eos: bool, seed: int | None) -> bytes:
    if ignore_eos:
        ask["ignore_eos"] = True
    if seed is not None:
        ask["seed"] = seed
    return msgspec.json.encode(ask)


def _cannot(endpoint: str, what: str, expected: str) -> UsageError:
    return UsageError(
        f"the {endpoint} endpoint cannot be asked {what}",
        where="endpoint",
        seen=endpoint,
        expected=expected,
        hint=f"ask {expected}, or do not ask {what}",
    )
