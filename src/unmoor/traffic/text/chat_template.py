"""A model's own chat template, in a sandbox: a prompt's messages as the text that the model is given."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import date
from typing import Any, NoReturn

import jinja2
import msgspec
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from unmoor.core.errors import UsageError
from unmoor.traffic.entry import Prompt

ONE_DAY = date(2026, 1, 1)
"""What a template that asks for the day is told: the same for every prompt, as within one day of traffic."""


_OBJECT = "\ufffc"  # Unicode's own character for an object among text


class _Refused(Exception):  # noqa: N818 - a template's own word for messages that it does not take
    """A template refuses the messages."""


class _Generation(Extension):
    """`{% generation %}` marks what a model says itself, for training; what it holds is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 - jinja's own class attribute

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class ChatTemplate:
    """Renders prompts by a template as Hugging Face models carry it; it can reach nothing outside itself."""

    def __init__(
        self, source: str, *, special: Mapping[str, str], where: str, with_tools: str | None = None, day: date = ONE_DAY
    ) -> None:
        """Raises UsageError for a template that is none. `special` are its named tokens (`bos_token`, ...).

        `with_tools` is the model's other template, for prompts that offer tools; `day` is what the clock shows, and
        `told_the_day` whether a prompt was rendered with it.
        """
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
        )
        environment.globals.update(raise_exception=_refuse, strftime_now=self._day_as)
        self._day = day
        self.told_the_day = False
        environment.filters["tojson"] = _to_json
        self._special = dict(special)
        self.writes_tools = "tools" in (source if with_tools is None else with_tools)
        self._template = _read(environment, source, where)
        self._with_tools = self._template if with_tools is None else _read(environment, with_tools, where)

    def _day_as(self, form: str) -> str:
        self.told_the_day = True
        return self._day.strftime(form)

    def text(self, prompt: Prompt) -> str | None:
        """The prompt as the model is given it, up to where its answer begins; None where the template refuses it."""
        tools = list(prompt.tool_objects)
        try:
            return (self._with_tools if tools else self._template).render(
                messages=[_taken(message) for message in prompt.messages],
                tools=tools or None,
                documents=None,
                add_generation_prompt=True,
                **self._special,
            )
        except Exception:  # noqa: BLE001 - a template is a program of its own: it fails on a prompt in any way
            return None


def _read(environment: jinja2.Environment, source: str, where: str) -> jinja2.Template:
    try:
        return environment.from_string(source)
    except jinja2.TemplateError as error:
        raise UsageError(
            "the chat template cannot be read",
            where=where,
            seen=f"{type(error).__name__} in line {getattr(error, 'lineno', '?')}",
            expected="a chat template in jinja, as models come with",
            hint="name the tokenizer.json alone to count without a template",
        ) from None


def _taken(message: Mapping[str, object]) -> dict[str, object]:
    """A message as engines hand it to a template: text parts as one text, and the arguments of calls as objects."""
    taken = {**message, "content": _plain(message.get("content"))}
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        taken["tool_calls"] = [_called(call) for call in calls]
    return taken


def _plain(content: object) -> object:
    if not isinstance(content, list):
        return "" if content is None else content
    return "\n".join(_piece(part) for part in content)


def _piece(part: object) -> str:
    """A part's text; of an image, a sound or a file a hash, so that prompts with different ones are different."""
    text = part.get("text") if isinstance(part, dict) else part
    if isinstance(text, str):
        return text
    return f"{_OBJECT}{hashlib.blake2b(msgspec.json.encode(part), digest_size=6).hexdigest()}"


def _called(call: object) -> object:
    """A call with its arguments decoded: clients send them as JSON in a string, templates write them as JSON."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = msgspec.json.decode(function["arguments"] or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return call
    return {**call, "function": {**function, "arguments": arguments}}


def _refuse(_message: object = "") -> NoReturn:
    raise _Refused


def _to_json(
    value: Any,  # noqa: ANN401 - whatever a template passes
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - a filter's own argument
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 - a filter's own argument
) -> str:
    """JSON as Python's own json writes it, which is what models were trained on: jinja's own would escape HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
