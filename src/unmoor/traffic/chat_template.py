"""A model's own chat template, in a sandbox: a prompt's messages as the text that the model is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import jinja2
import msgspec
from jinja2.sandbox import ImmutableSandboxedEnvironment

from unmoor.core.errors import UsageError
from unmoor.traffic.entry import Prompt

_ONE_DAY = "01 Jan 2026"
"""What a template that asks for the day is told: the same for every prompt, as within one day of traffic."""


class _Refused(Exception):  # noqa: N818 - a template's own word for messages that it does not take
    """A template refuses the messages."""


class ChatTemplate:
    """Renders prompts by a template as Hugging Face models carry it; it can reach nothing outside itself."""

    def __init__(self, source: str, *, special: Mapping[str, str], where: str) -> None:
        """Raises UsageError for a template that is none. `special` are its named tokens (`bos_token`, ...)."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals.update(raise_exception=_refuse, strftime_now=lambda _format: _ONE_DAY)
        environment.filters["tojson"] = _to_json
        self._special = dict(special)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise UsageError(
                "the chat template cannot be read",
                where=where,
                seen=f"{type(error).__name__} in line {getattr(error, 'lineno', '?')}",
                expected="a chat template in jinja, as models come with",
                hint="name the tokenizer.json alone to count without a template",
            ) from None

    def text(self, prompt: Prompt) -> str | None:
        """The prompt as the model is given it, up to where its answer begins; None where the template refuses it."""
        try:
            return self._template.render(
                messages=_taken(prompt.messages),
                tools=list(prompt.tool_objects) or None,
                add_generation_prompt=True,
                **self._special,
            )
        except (_Refused, jinja2.TemplateError, TypeError, ValueError, AttributeError, RecursionError):
            return None


def _taken(messages: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Messages with text parts as one text: most templates know no other."""
    return [{**message, "content": _plain(message.get("content"))} for message in messages]


def _plain(content: object) -> object:
    if not isinstance(content, list):
        return "" if content is None else content
    return "\n".join(str(part["text"]) for part in content if isinstance(part, dict) and "text" in part)


def _refuse(_message: object = "") -> NoReturn:
    raise _Refused


def _to_json(value: Any, indent: int | None = None, **_: object) -> str:  # noqa: ANN401 - whatever a template passes
    encoded = msgspec.json.encode(value)
    return (msgspec.json.format(encoded, indent=indent) if indent else _spaced(encoded)).decode()


def _spaced(encoded: bytes) -> bytes:
    """One line with a space after commas and colons, as Python's own json writes it and templates expect."""
    return msgspec.json.format(encoded, indent=0)
