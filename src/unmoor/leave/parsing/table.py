"""The table of what engines' parsers made of raw outputs: for sides whose parsers cannot be run here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files

import msgspec

from unmoor.engines.surface.surface import Source, Surface
from unmoor.leave.parsing.parsed import Names, Parsed
from unmoor.leave.parsing.written import READERS, THINK, THOUGHT, thinking

_CALL = "<tool_call>"
"""The mark of a call that ends thinking, for the parsers that know it."""


class Thinking(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one reasoning parser does, case by case, while thinking is `on` and while a request switches it `off`.

    `begins`: thinking is on unless a request says otherwise, by one of `switch`. `call_ends`: a call ends it.
    """

    source: str
    begins: bool
    on: Mapping[str, str]
    call_ends: bool = False
    switch: tuple[str, ...] = ()
    off: Mapping[str, str] = {}

    def state(self, kwargs: Mapping[str, object]) -> Mapping[str, str]:
        """The cases that hold for a request with these arguments of the template."""
        told = [kwargs[name] for name in self.switch if isinstance(kwargs.get(name), bool)]
        return self.on if (told[0] if told else self.begins) else self.off


class _Known(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sources: Mapping[str, Source]
    tool: Mapping[str, Mapping[str, Mapping[str, str]]]
    reasoning: Mapping[str, Mapping[str, Thinking]]


@cache
def _known() -> _Known:
    return msgspec.toml.decode((files("unmoor.leave.parsing") / "known.toml").read_bytes(), type=_Known)


def sources(side: Surface, names: Names) -> tuple[Source, ...]:
    """Where the table has what it says of these parsers."""
    known = _known()
    tool = known.tool.get(side.engine, {}).get(names.tool or "")
    reasoning = known.reasoning.get(side.engine, {}).get(names.reasoning or "")
    told = ([tool["source"]] if tool else []) + ([reasoning.source] if reasoning else [])
    return tuple(known.sources[one] for one in dict.fromkeys(told))


def by_table(
    side: Surface, names: Names, text: str, functions: Collection[str], kwargs: Mapping[str, object]
) -> Parsed | None:
    """What the side makes of `text`; None where the table cannot tell. `functions` are those that the request has."""
    tool = _known().tool.get(side.engine, {}).get(names.tool or "")
    if names.tool and tool is None:
        return None
    reasoning = ""
    if names.reasoning:
        told = _known().reasoning.get(side.engine, {}).get(names.reasoning)
        parted = _part(text, told, kwargs) if told else None
        if parted is None:
            return None
        reasoning, text = parted
    if tool is None or not functions:
        return Parsed(content=text, reasoning=reasoning)
    return _calls(text, reasoning, tool, functions)


def _part(text: str, parser: Thinking, kwargs: Mapping[str, object]) -> tuple[str, str] | None:
    """The thinking and the rest."""
    fate = parser.state(kwargs).get(thinking(text))
    if fate == "reasoning":
        thought, call, rest = text.partition(_CALL) if parser.call_ends else (text, "", "")
        return thought.removeprefix(THINK), call + rest
    if fate == "split":
        thought, _, rest = text.partition(THOUGHT)
        return thought.partition(THINK)[2] or thought, rest
    return ("", text) if fate == "content" else None


def _calls(text: str, reasoning: str, tool: Mapping[str, str], functions: Collection[str]) -> Parsed | None:
    written = READERS[tool["form"]](text, functions)
    if written is None:
        return Parsed(content=text, reasoning=reasoning)
    fates = {tool.get(odd) for odd in written.odd}
    if None in fates or (written.odd and written.found > 1) or len(fates) > 1:
        return None  # what one odd call among several does to the others was not tried
    fate = fates.pop() if fates else "call"
    if fate == "text":
        return Parsed(content=text, reasoning=reasoning)
    content = "" if fate == "call_alone" else written.before
    return Parsed(calls=written.calls if fate != "nothing" else (), content=content, reasoning=reasoning)
