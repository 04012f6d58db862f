"""The body of an OpenAI-format request, chat, completions or responses: its prompts, and what it asks for besides.

Fields are those of the OpenAI API reference, and of vLLM and SGLang, which take the same bodies with more of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import msgspec

from unmoor.traffic.entry import Blocks, Part, Prompt
from unmoor.traffic.readers.contract import Broken
from unmoor.traffic.readers.text_taken_out import is_mark

Tree = Mapping[str, Any]

EXPECTED = '{"model": name, "messages": [{"role": name, "content": text}, ...]}, or "prompt", or "input"'
_SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "n",
    "best_of",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "min_tokens",
    "stop",
    "stream",
    "seed",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "logit_bias",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "ignore_eos",
    "reasoning_effort",
    "priority",
)
_KIND_OF = {
    "guided_json": "json_schema",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "json": "json_schema",
    "json_schema": "json_schema",
    "json_object": "json_object",
    "regex": "regex",
    "choice": "choice",
    "grammar": "grammar",
    "ebnf": "grammar",
    "structural_tag": "structural_tag",
}
"""What constrains an answer, by its name in vLLM (`guided_*`, until 0.11; then in `structured_outputs`) and SGLang."""
_AT_TOP = tuple(name for name in _KIND_OF if name not in {"json", "json_object", "choice", "grammar", "structural_tag"})
_WITHIN = ("response_format", "text", "structured_outputs", "extra_body", *_AT_TOP)
_ADAPTERS = ("adapter", "adapter_id", "lora", "lora_path", "lora_name")
_BESIDE_TEXT = (
    "tool_calls",
    "function_call",
    "tool_call_id",
    "name",
    "arguments",
    "output",
    "call_id",
    "reasoning_content",
)
_WRITTEN = frozenset(("tool_use", "server_tool_use", "tool_result", "thinking"))
"""Pieces of a message that are text in a prompt though they hold none as such, as Anthropic's interface has them."""
_HASH_BYTES = 6
_ROLE_AND_CONTENT = 2
_MOST_SHAPES = 1000


class _Present(NamedTuple):
    """Which of the names that matter are among an object's keys."""

    sampling: tuple[str, ...]
    schema: tuple[str, ...]
    adapter: tuple[str, ...]


class Asked(NamedTuple):
    """What a body asks for besides its prompt."""

    sampling: Mapping[str, object]
    schema: str | None
    adapter: str | None


class Bodies:
    """Reads the bodies of one log. It counts those that hold more than text, and remembers which keys come together."""

    def __init__(self) -> None:
        self.beyond_text = 0
        self._shapes: dict[tuple[str, ...], _Present] = {}

    def prompts_of(self, body: Tree) -> tuple[Prompt | Blocks, ...]:
        """The body's prompts, several where a completion's body holds a list of them. Raises Broken."""
        messages = body.get("messages")
        if messages is not None:
            if isinstance(said := body.get("system"), str | list):  # as Anthropic's interface has it
                messages = [{"role": "system", "content": said}, *messages]
            return (self._prompt(messages, body),)
        said = body.get("prompt", body.get("input"))
        if isinstance(said, list) and said and not isinstance(said[0], dict):
            return tuple(self._listed(said))
        items = list(_spoken(said))
        if isinstance(body.get("instructions"), str):
            items.insert(0, {"role": "system", "content": body["instructions"]})
        return (self._prompt(items, body),)

    def asked_of(self, body: Tree) -> Asked:
        """The sampling parameters that it sets, the structured output that it asks for, and the adapter it names."""
        keys = tuple(body)
        present = self._shapes.get(keys)
        if present is None:
            groups = (_SAMPLING, _WITHIN, _ADAPTERS)
            present = _Present(*(tuple(name for name in names if name in body) for names in groups))
            if len(self._shapes) < _MOST_SHAPES:
                self._shapes[keys] = present
        return Asked(
            sampling={name: _setting(name, value) for name in present.sampling if (value := body[name]) is not None},
            schema=schema_of(body, present.schema) if present.schema else None,
            adapter=_adapter(body, present.adapter) if present.adapter else None,
        )

    def _prompt(self, messages: Sequence[Tree], body: Tree) -> Prompt:
        offered = _offered(body)
        beyond = 0
        parts = []
        for message in messages:
            content = message.get("content")
            if isinstance(content, str) and len(message) == _ROLE_AND_CONTENT:
                parts.append(Part(str(message.get("role", "")), content))
                continue
            text, others = _text_of(message)
            beyond += others
            parts.append(Part(role=str(message.get("role") or message.get("type") or ""), text=text))
        self.beyond_text += beyond > 0
        encoded = tuple(msgspec.json.encode(tool).decode() for tool in offered) if offered else ()
        return Prompt(parts=tuple(parts), tools=encoded, messages=messages, tool_objects=offered, others=beyond)

    def _listed(self, said: Sequence[object]) -> Iterator[Prompt | Blocks]:
        """Each prompt of a list of them: texts or token ids; a list of ids is one prompt."""
        if all(isinstance(item, str) for item in said):
            for item in said:
                yield self._prompt(({"role": "", "content": item},), {})
        elif _are_ids(said):
            yield Blocks(said, 1)
        elif all(_are_ids(item) for item in said):
            yield from (Blocks(item, 1) for item in said if _are_ids(item))
        else:
            raise Broken("a prompt of mixed kinds", seen="a list of several kinds", expected=EXPECTED)


def is_body(tree: object, *, named: bool = True) -> bool:
    """Whether this is a request's body: messages, or a prompt or an input together with a model where `named`."""
    if not isinstance(tree, dict):
        return False
    if isinstance(tree.get("messages"), list):
        return all(isinstance(message, dict) for message in tree["messages"])
    return ("model" in tree or not named) and isinstance(tree.get("prompt", tree.get("input")), str | list)


def _adapter(body: Tree, names: Sequence[str]) -> str | None:
    return next((str(body[name]) for name in names if isinstance(body[name], str)), None)


def _are_ids(said: object) -> TypeGuard[list[int]]:
    return isinstance(said, list) and bool(said) and all(type(item) is int for item in said)  # a bool is no token


def _spoken(said: object) -> Iterator[dict[str, Any]]:
    """A completion's prompt as one message without a role, or a response's items as messages."""
    if isinstance(said, str):
        yield {"role": "", "content": said}
    elif isinstance(said, list) and all(isinstance(item, dict) for item in said):
        yield from said
    else:
        raise Broken("a prompt that is no text", seen="another kind", expected=EXPECTED)


def _offered(body: Tree) -> list[Any]:
    offered = body.get("tools") or body.get("functions")
    return [tool for tool in offered if isinstance(tool, dict)] if isinstance(offered, list) else []


def tools_of(body: Tree) -> tuple[str, ...]:
    """The names of the tools that are offered."""
    if not (offered := _offered(body)):
        return ()
    named = (tool.get("function") or tool for tool in offered)
    return tuple(str(tool["name"]) for tool in named if isinstance(tool, dict) and "name" in tool)


def _text_of(message: Tree) -> tuple[str, int]:
    """All that a message puts into a prompt, and how many pieces of it are no text.

    Its text, the calls of tools as the JSON they came as, and for an image, a sound or a file a hash of it, so that
    prompts with different ones are different.
    """
    text, others = _content(message.get("content"))
    beside = (found for key in _BESIDE_TEXT if (found := message.get(key)))
    written = (found if isinstance(found, str) else msgspec.json.encode(found).decode() for found in beside)
    return "\n".join(text for text in (text, *written) if text), others


def _content(content: object) -> tuple[str, int]:
    if isinstance(content, str):
        return content, 0
    if not isinstance(content, list):
        return "", 0
    texts, others = [], 0
    for piece in content:
        text, beyond = _piece(piece)
        texts.append(text)
        others += beyond
    return "\n".join(texts), others


def _piece(piece: object) -> tuple[str, int]:
    text = piece if isinstance(piece, str) else piece.get("text") if isinstance(piece, dict) else None
    if isinstance(text, str):
        return text, 0
    if isinstance(piece, dict) and piece.get("type") in _WRITTEN:
        text, others = _content(piece.get("content"))
        rest = {name: value for name, value in piece.items() if name != "content"}
        return f"{msgspec.json.encode(rest).decode()}{text}", others
    return f"\ufffc{_hash_of(piece)}", 1  # Unicode's own character for an object among text


def _setting(name: str, value: object) -> object:
    """A parameter as it is counted: of stop strings only how many, since they are somebody's text."""
    return [value] if name == "stop" and isinstance(value, str) else value


def schema_of(body: Tree, names: Sequence[str] = _WITHIN) -> str | None:
    """The structured output that is asked for, as its kind and a hash; None for plain text."""
    for name in names:
        value = body.get(name)
        if name in _KIND_OF:
            found = _constraint(_KIND_OF[name], value)
        elif name == "extra_body":
            found = schema_of(value) if isinstance(value, dict) else None
        elif name == "structured_outputs":
            found = _first_constraint(value)
        else:
            found = _format(value.get("format") if name == "text" and isinstance(value, dict) else value)
        if found:
            return found
    return None


def _first_constraint(value: object) -> str | None:
    if not isinstance(value, dict):
        return None
    named = (_constraint(_KIND_OF[name], value[name]) for name in value if name in _KIND_OF)
    return next((found for found in named if found), None)


def _constraint(kind: str, value: object) -> str | None:
    return f"{kind}:{_hash_of(value)}" if value else None


def _format(told: object) -> str | None:
    """What `response_format` says, or `text.format` of a response."""
    kind = told.get("type") if isinstance(told, dict) else None
    if not isinstance(told, dict) or not isinstance(kind, str) or kind not in _KIND_OF:
        return None
    inner = told.get("json_schema", told)
    return f"{kind}:{_hash_of(inner.get('schema', inner) if isinstance(inner, dict) else inner)}"


def _hash_of(value: object) -> str:
    return hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=_HASH_BYTES).hexdigest()


def answer_bytes_of(answer: Tree) -> int | None:
    """The size of an answer's text in UTF-8; None where there is none, or a gateway took it out."""
    texts: list[object] = [answer.get("output_text")]
    choices = answer.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            message = choice.get("message")
            texts.append(message.get("content") if isinstance(message, dict) else choice.get("text"))
    if any(map(is_mark, texts)):
        return None
    sizes = [len(text.encode("utf-8", "surrogatepass")) for text in texts if isinstance(text, str)]
    return sum(sizes) if sizes else None
