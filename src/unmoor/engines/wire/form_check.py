"""Whether an answer has the form that was asked for: a schema's, or that of calls of the tools offered."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from unmoor.core.json_schema import UNKNOWN, Validity
from unmoor.engines.wire.ask import AnswerForm
from unmoor.engines.wire.chunk import Piece
from unmoor.engines.wire.error_text import UNREADABLE

MOST_CHARACTERS = 1 << 20
"""A text longer than this is not checked."""


class Spoken:
    """What was said of each choice, text and calls, as long as the answer is being read and no longer."""

    def __init__(self) -> None:
        self.texts: dict[int, list[str]] = {}
        self.calls: dict[tuple[int, int], tuple[list[str], list[str]]] = {}
        self.thoughts: list[str] = []

    def add(self, piece: Piece) -> None:
        """Takes in what one event brought."""
        texts = self.texts.setdefault(piece.choice, [])
        if piece.text:
            texts.append(piece.text)
        for call in piece.calls:
            names, arguments = self.calls.setdefault((piece.choice, call.place), ([], []))
            names.append(call.name)
            arguments.append(call.arguments)
        if piece.thought:
            self.thoughts.append(piece.thought)

    def all_text(self) -> str:
        """Everything that was said, of all choices: reasoning, answers, and calls with their names."""
        calls = ("".join((*names, *arguments)) for names, arguments in self.calls.values())
        return "".join((*self.thoughts, *("".join(texts) for texts in self.texts.values()), *calls))


class _Asked(NamedTuple):
    """Schemas ready to be asked: of the answer, and of each tool's arguments."""

    schema: Any
    tools: dict[str, Any]


def has_form(form: AnswerForm, spoken: Spoken) -> bool | None:
    """Whether every choice is as asked: JSON that fits the schema, or calls of known tools whose arguments fit theirs.

    False as soon as one is known not to be. None where nothing came that could be checked (no tool was called, and none
    had to be), and where it cannot be told: a schema with what is not known here, or a text too long to look at.
    """
    asked = _asked(form.schema, form.tools)
    if asked is None:
        return None
    found = [_call_fits(asked, names, arguments) for names, arguments in spoken.calls.values()]
    calling = {choice for choice, _ in spoken.calls}
    must_call = form.tools is not None and form.tool_choice not in {None, "auto", "none"}
    for choice, texts in spoken.texts.items():
        if choice in calling:
            continue
        if must_call:
            found.append(False)
        elif form.schema is not None:
            found.append(_text_fits(asked.schema, "".join(texts)))
    if False in found:
        return False
    return None if None in found or not found else True


def _call_fits(asked: _Asked, names: list[str], arguments: list[str]) -> bool | None:
    name = "".join(names)
    return _text_fits(asked.tools[name], "".join(arguments)) if name in asked.tools else False


def _text_fits(schema: object, text: str) -> bool | None:
    if len(text) > MOST_CHARACTERS:
        return None
    try:
        value = msgspec.json.decode(text)
    except (*UNREADABLE, UnicodeEncodeError):
        return False
    try:
        return Validity(schema).fits(schema, value)
    except UNKNOWN:
        return None


@lru_cache(maxsize=256)
def _asked(schema: bytes | None, tools: bytes | None) -> _Asked | None:
    """What was asked for, read once; None where it is not what it should be."""
    try:
        listed = [] if tools is None else msgspec.json.decode(tools)
        functions = [tool["function"] for tool in listed]
        named = {function["name"]: function.get("parameters") or {} for function in functions}
        return _Asked(None if schema is None else msgspec.json.decode(schema), named)
    except (*UNREADABLE, TypeError, KeyError, AttributeError):
        return None
