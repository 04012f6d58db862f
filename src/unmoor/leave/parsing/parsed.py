"""What a side makes of a raw output, and all that was asked of both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from unmoor.leave.uses import Rows

SaidBy = Literal["flags", "model", "log", "marks"]
"""Who says the family: the source's start, the model's files, its name in the log, or marks in the outputs alone."""


class Call(NamedTuple):
    """A call as clients get it: the function's name, and its arguments as JSON text."""

    name: str
    arguments: str

    @property
    def meaning(self) -> tuple[str, str]:
        """What is compared: spaces and the order of keys do not count."""
        try:
            return self.name, json.dumps(json.loads(self.arguments), sort_keys=True)
        except (ValueError, RecursionError):
            return self.name, self.arguments


@dataclass(frozen=True, slots=True)
class Parsed:
    """An answer as a side gives it; its texts are somebody's and never shown. `error`: it gives none, and why."""

    calls: tuple[Call, ...] = ()
    content: str = ""
    reasoning: str = ""
    error: str = ""

    @property
    def meaning(self) -> tuple[object, ...]:
        """What is compared: spaces around texts do not count."""
        calls = tuple(one.meaning for one in self.calls)
        return calls, self.content.strip(), self.reasoning.strip(), self.error


@dataclass(frozen=True, slots=True)
class Told:
    """What a side makes of one output, and by what that is known; None: it is not known."""

    parsed: Parsed | None
    by: str


@dataclass(frozen=True, slots=True)
class Names:
    """Which parsers a side runs; None: it has none of the kind for the family."""

    tool: str | None
    reasoning: str | None

    def said(self) -> str:
        """For a sentence."""
        return " and ".join(f"`{name}`" for name in dict.fromkeys((self.tool, self.reasoning)) if name) or "no parser"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The parsers of both sides for one family of models. `others` are the target's further ones for tool calls."""

    family: str
    said_by: SaidBy
    source: Names
    target: Names
    others: tuple[str, ...] = ()
    plausible: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputAnswer:
    """One distinct output with the lines that had it, and what both sides make of it, and the target's `others`.

    `rebuilt`: the log holds the answer after its parsers, from which the output was written again.
    """

    chosen: Chosen
    rows: Rows
    source: Told
    target: Told
    others: Mapping[str, Told] = field(default_factory=dict)
    rebuilt: bool = False
    switched: bool = False


@dataclass(frozen=True, slots=True)
class ParserAnswers:
    """All outputs that were asked about, and every family that the traffic may be of, with its requests (`chosen`).

    `not_asked` says in words what could not be asked, and why. `toy` names the engines whose parsers did not have the
    model's own tokenizer behind them.
    """

    outputs: tuple[OutputAnswer, ...] = ()
    chosen: Mapping[Chosen, Rows] = field(default_factory=dict)
    not_asked: tuple[str, ...] = ()
    toy: tuple[str, ...] = ()
