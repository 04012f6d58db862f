"""The body of an OpenAI-format request: chat, completions or responses; its prompt, and what it asks for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from unmoor.traffic.entry import Part, Prompt
from unmoor.traffic.readers.contract import Broken

Tree = Mapping[str, Any]

EXPECTED = '{"model": name, "messages": [{"role": name, "content": text}, ...]}, or "prompt", or "input"'
_SAMPLING = frozenset(
    (
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "n",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "stream",
        "seed",
        "logprobs",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "reasoning_effort",
    )
)
_GUIDED = {
    "guided_json": "json_schema",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "regex": "regex",
    "ebnf": "grammar",
    "json_schema": "json_schema",
}
_HASH_BYTES = 6
_ROLE_AND_CONTENT = 2


def is_body(tree: object) -> bool:
    """Whether this is a request's body: it has a prompt in one of the three forms."""
    if not isinstance(tree, dict):
        return False
    if isinstance(tree.get("messages"), list):
        return all(isinstance(message, dict) for message in tree["messages"])
    return "model" in tree and isinstance(tree.get("prompt", tree.get("input")), str | list)


def prompt_of(body: Tree) -> Prompt:
    """The prompt as text. Raises Broken for one that is no text: token ids, say."""
    offered = body.get("tools") or body.get("functions")
    tools = [tool for tool in offered if isinstance(tool, dict)] if isinstance(offered, list) else []
    messages = body.get("messages")
    if messages is None:
        messages = list(_spoken(body.get("prompt", body.get("input"))))
        if isinstance(body.get("instructions"), str):
            messages.insert(0, {"role": "system", "content": body["instructions"]})
    parts = tuple(Part(role=str(message.get("role", "")), text=_text_of(message)) for message in messages)
    encoded = tuple(msgspec.json.encode(tool).decode() for tool in tools)
    return Prompt(parts=parts, tools=encoded, messages=messages, tool_objects=tools)


def _spoken(said: object) -> Iterator[dict[str, Any]]:
    """A completion's prompt as one message without a role, or a response's items as messages."""
    if isinstance(said, str):
        yield {"role": "", "content": said}
        return
    if not isinstance(said, list) or not all(isinstance(item, str | dict) for item in said):
        raise Broken("a prompt that is no text", seen="token ids, or another kind", expected=EXPECTED)
    for item in said:
        yield {"role": "", "content": item} if isinstance(item, str) else item


def _text_of(message: Tree) -> str:
    """All that a message puts into a prompt: its text, and the calls of tools as the JSON they came as."""
    content = message.get("content")
    if isinstance(content, str) and len(message) == _ROLE_AND_CONTENT:
        return content
    texts = [_content(content)]
    for key in ("tool_calls", "function_call", "arguments", "output"):
        if message.get(key):
            called = message[key]
            texts.append(called if isinstance(called, str) else msgspec.json.encode(called).decode())
    return "\n".join(text for text in texts if text)


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))


def tools_of(body: Tree) -> tuple[str, ...]:
    """The names of the tools that are offered."""
    offered = body.get("tools") or body.get("functions")
    if not isinstance(offered, list):
        return ()
    named = ((tool.get("function") or tool) if isinstance(tool, dict) else {} for tool in offered)
    return tuple(str(tool["name"]) for tool in named if isinstance(tool, dict) and "name" in tool)


def sampling_of(body: Tree) -> dict[str, object]:
    """The sampling parameters that the request set."""
    return {name: body[name] for name in body if name in _SAMPLING and body[name] is not None}


def schema_of(body: Tree) -> str | None:
    """The structured output that is asked for, as its kind and a hash; None for plain text."""
    told = body.get("response_format") or (body.get("text") or {}).get("format") if _maps(body) else None
    if isinstance(told, dict) and told.get("type") in {"json_schema", "json_object"}:
        inner = told.get("json_schema", told)
        return _named(told["type"], inner.get("schema", inner) if isinstance(inner, dict) else inner)
    extra = body.get("structured_outputs") or body.get("extra_body")
    for source in (body, extra if isinstance(extra, dict) else {}):
        for name in source:
            if name in _GUIDED and source[name]:
                return _named(_GUIDED[name], source[name])
    return None


def _maps(body: Tree) -> bool:
    return not isinstance(body.get("text"), str)


def _named(kind: str, schema: object) -> str:
    content = msgspec.json.encode(schema, order="sorted")
    return f"{kind}:{hashlib.blake2b(content, digest_size=_HASH_BYTES).hexdigest()}"


def adapter_of(body: Tree) -> str | None:
    """The adapter that the request names beside its model."""
    for name in ("adapter", "lora_path", "lora"):
        if isinstance(body.get(name), str):
            return str(body[name])
    return None


def answer_bytes_of(answer: Tree) -> int | None:
    """The size of an answer's text in UTF-8; None where there is none."""
    texts: Sequence[object] = [
        (choice.get("message") or {}).get("content") if "message" in choice else choice.get("text")
        for choice in answer.get("choices") or ()
        if isinstance(choice, dict)
    ]
    sizes = [len(text.encode("utf-8", "surrogatepass")) for text in texts if isinstance(text, str)]
    return sum(sizes) if sizes else None
