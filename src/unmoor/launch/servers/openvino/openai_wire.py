"""OpenAI's requests to what the engine needs, and what the engine says to OpenAI's answers. No I/O."""

from __future__ import annotations

import json
import re
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from http_wire import Refusal
from schemas import fault_of

# OpenAI's own default for completions; chat has none there, and takes what the context leaves.
COMPLETION_MAX_TOKENS = 16

_HALF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")

# Fields that would change the answer, and that this server cannot honour: refused, never silently dropped.
# Each with the values that ask for nothing.
CANNOT: dict[str, tuple[Any, ...]] = {
    "n": (None, 1),
    "best_of": (None, 1),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "echo": (None, False),
    "suffix": (None, ""),
    "logit_bias": (None, {}),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "functions": (None, []),
    "prompt_logprobs": (None,),
    "structured_outputs": (None,),
    "guided_json": (None,),
    "guided_regex": (None,),
    "lora_path": (None,),
}


@dataclass(frozen=True, slots=True)
class Number:
    """A field that is a number, between two bounds."""

    name: str
    default: float | None
    least: float
    most: float
    whole: bool = False


NUMBERS = (
    Number("temperature", 1.0, 0.0, 2.0),
    Number("top_p", 1.0, 1e-6, 1.0),
    Number("top_k", None, -1, 1_000_000, whole=True),
    Number("min_p", None, 0.0, 1.0),
    Number("presence_penalty", 0.0, -2.0, 2.0),
    Number("frequency_penalty", 0.0, -2.0, 2.0),
    Number("repetition_penalty", 1.0, 1e-6, 100.0),
    Number("seed", None, -(2**63), 2**63 - 1, whole=True),
    Number("min_tokens", 0, 0, 1_000_000, whole=True),
)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request asks for. `prompt` is text; `messages` are a chat's; one of the two is there."""

    model: str | None
    prompt: str | None
    messages: list[dict[str, str]] | None
    max_tokens: int | None
    numbers: dict[str, float | None]
    stop: tuple[str, ...]
    ignore_eos: bool
    json_schema: str | None
    stream: bool
    include_usage: bool

    @property
    def chat(self) -> bool:
        """Whether it came as a chat."""
        return self.messages is not None


@dataclass(slots=True)
class Usage:
    """Token counts. What the engine serves from its prefix cache it does not tell, so no cached count is claimed."""

    prompt_tokens: int
    completion_tokens: int = 0

    def body(self) -> dict[str, int]:
        """The counts in OpenAI's shape."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


def parse(body: bytes, *, chat: bool) -> Ask:
    """What the body asks for. Raises Refusal (400), naming the field, for what cannot be read or honoured."""
    asked = _object(body)
    for name, harmless in CANNOT.items():
        # 0 == False and 1 == True in Python, and `logprobs: 0` does ask for something.
        if name in asked and not any(type(asked[name]) is type(one) and asked[name] == one for one in harmless):
            raise Refusal(400, f"'{name}' is not supported by this server", param=name)
    max_tokens = _max_tokens(asked)
    return Ask(
        model=_of(asked, "model", str),
        prompt=None if chat else _prompt(asked.get("prompt")),
        messages=_messages(asked.get("messages")) if chat else None,
        max_tokens=max_tokens if chat or max_tokens is not None else COMPLETION_MAX_TOKENS,
        numbers={number.name: _number(asked, number) for number in NUMBERS},
        stop=_stop(asked.get("stop")),
        ignore_eos=bool(_of(asked, "ignore_eos", bool)),
        json_schema=_schema(asked.get("response_format")),
        stream=bool(_of(asked, "stream", bool)),
        include_usage=bool(_of(_of(asked, "stream_options", dict) or {}, "include_usage", bool)),
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        # Decoded here: json would let through bytes of half a surrogate pair.
        said = body.decode("utf-8-sig")
        asked = json.loads(said)
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not JSON in UTF-8") from None
    if not isinstance(asked, dict):
        raise Refusal(400, "the body is not a JSON object")
    if _HALF_A_PAIR.search(said):
        _refuse_half_pairs(asked)
    return asked


def _refuse_half_pairs(asked: dict[str, Any]) -> None:
    """An escape of half a surrogate pair is no text: the engine raises on it, with the whole text in its message."""
    for name, value in asked.items():
        try:
            json.dumps({name: value}, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            field = name.encode("ascii", "replace").decode()
            raise Refusal(400, f"'{field}' holds half a surrogate pair, which is no text", param=field) from None
        except RecursionError:
            raise Refusal(400, "the body is nested too deeply") from None


def _of(asked: dict[str, Any], name: str, kind: type) -> Any:
    value = asked.get(name)
    if value is not None and not isinstance(value, kind):
        raise Refusal(400, f"'{name}' must be of type {kind.__name__}", param=name)
    return value


def _number(asked: dict[str, Any], number: Number) -> float | None:
    name, value = number.name, asked.get(number.name)
    if value is None:
        return number.default
    if isinstance(value, bool) or not isinstance(value, int if number.whole else (int, float)):
        raise Refusal(400, f"'{name}' must be a {'whole ' if number.whole else ''}number", param=name)
    if not number.least <= value <= number.most:
        raise Refusal(400, f"'{name}' must be between {number.least} and {number.most}", param=name)
    return value


def _max_tokens(asked: dict[str, Any]) -> int | None:
    names = [name for name in ("max_completion_tokens", "max_tokens") if asked.get(name) is not None]
    if not names:
        return None
    value = _number(asked, Number(names[0], None, 1, 1_000_000_000, whole=True))
    return None if value is None else int(value)


def _prompt(prompt: Any) -> str:
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str) or not prompt:
        raise Refusal(400, "'prompt' must be one text that is not empty", param="prompt")
    return prompt


def _messages(messages: Any) -> list[dict[str, str]]:
    if not isinstance(messages, list) or not messages:
        raise Refusal(400, "'messages' must be a list with at least one message", param="messages")
    return [_message(message, f"messages[{at}]") for at, message in enumerate(messages)]


def _message(message: Any, where: str) -> dict[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise Refusal(400, f"'{where}' must be an object with a role", param=where)
    if message.get("tool_calls"):
        raise Refusal(400, "tool calls are not supported by this server", param=where)
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(_text_part(part, where) for part in content)
    if content is not None and not isinstance(content, str):
        raise Refusal(400, f"the content of '{where}' must be text", param=where)
    return {"role": message["role"], "content": content or ""}


def _text_part(part: Any, where: str) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    raise Refusal(400, f"only parts of type text are supported, in '{where}'", param=where)


def _stop(stop: Any) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or not all(isinstance(one, str) and one for one in stops):
        raise Refusal(400, "'stop' must be a text or a list of texts", param="stop")
    return tuple(stops)


def _schema(form: Any) -> str | None:
    where = "response_format"
    if form is None or (isinstance(form, dict) and form.get("type") == "text"):
        return None
    kind = form.get("type") if isinstance(form, dict) else None
    if kind == "json_object":
        return '{"type": "object"}'
    if kind != "json_schema":
        raise Refusal(400, "'response_format' must be text, json_object or json_schema", param=where)
    named = form.get("json_schema")
    schema = named.get("schema") if isinstance(named, dict) else None
    if not isinstance(schema, dict):
        raise Refusal(400, "'response_format.json_schema.schema' must be a JSON schema", param=where)
    fault = fault_of(schema)
    if fault is not None:
        raise Refusal(400, f"this schema cannot be used: {fault}", param=where)
    return json.dumps(schema)


@dataclass(frozen=True, slots=True)
class Shape:
    """One answer's shape: a chat's or a completion's, whole or in pieces."""

    model: str
    chat: bool
    created: int = field(default_factory=lambda: int(time.time()))
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def _envelope(self, kind: str) -> dict[str, Any]:
        prefix = "chatcmpl" if self.chat else "cmpl"
        return {"id": f"{prefix}-{self.id}", "object": kind, "created": self.created, "model": self.model}

    def whole(self, text: str, finish_reason: str, usage: Usage) -> dict[str, Any]:
        """The answer to a request that does not stream."""
        said = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish_reason}
        kind = "chat.completion" if self.chat else "text_completion"
        return {**self._envelope(kind), "choices": [choice], "usage": usage.body()}

    def piece(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        """One event of a stream."""
        said = {"delta": {"content": text} if text else {}} if self.chat else {"text": text}
        return self._event([{"index": 0, **said, "logprobs": None, "finish_reason": finish_reason}])

    def role(self) -> dict[str, Any]:
        """The first event of a chat's stream: who speaks, and nothing said yet."""
        delta = {"role": "assistant", "content": ""}
        return self._event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}])

    def last(self, usage: Usage) -> dict[str, Any]:
        """The event with the usage, which has no choices."""
        return {**self._event([]), "usage": usage.body()}

    def _event(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._envelope("chat.completion.chunk" if self.chat else "text_completion"), "choices": choices}
