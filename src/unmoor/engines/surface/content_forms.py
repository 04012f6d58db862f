"""The same content in the form in which another engine takes it: choices, grammars, structural tags, bounds."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from unmoor.engines.surface.body_paths import root
from unmoor.engines.surface.surface import Domain, Scalar, Spelling

_REGEX_MARKS = re.compile(r"([\\^$.|?*+()\[\]{}/-])")
_UNBOUNDED = 2**31


class CannotBeError(Exception):
    """Why an engine cannot be told something; never with anybody's text."""


def choice_as_regex(choices: object) -> str:
    """A regular expression for one of these texts. Raises CannotBeError."""
    return "(" + "|".join(_REGEX_MARKS.sub(r"\\\1", text) for text in _texts(choices)) + ")"


def choice_as_grammar(choices: object) -> str:
    """A grammar for one of these texts, in GBNF, which xgrammar reads as EBNF. Raises CannotBeError."""
    return "root ::= " + " | ".join(msgspec.json.encode(text).decode() for text in _texts(choices))


def _texts(choices: object) -> list[str]:
    if not isinstance(choices, list) or not choices or not all(isinstance(one, str) and one for one in choices):
        raise CannotBeError("choices that are no texts")
    return choices


def grammar_language(grammar: object) -> str:
    """Of grammars: those that define rules by "::=" are GBNF, others Lark's, which do so by a colon."""
    return "gbnf" if isinstance(grammar, str) and "::=" in grammar else "lark"


def structural_tag(content: object, path: str, here: Spelling, there: Spelling) -> object:
    """A structural tag found at `path`, in the surroundings that the other engine wants. Raises CannotBeError.

    Some take it whole, with its type; others its format alone, which the older form with triggers beside has not.
    """
    tag = decoded(content) if isinstance(content, str) else content
    if not isinstance(tag, dict):
        raise CannotBeError("a structural tag that is no object")
    if path == here.path and here.payload != root(here.path):
        tag = {"format": tag}
    inner = {name: value for name, value in tag.items() if name != "type"}
    if there.payload == root(there.path):
        return {"type": there.value, **inner}
    if set(inner) != {"format"}:
        raise CannotBeError("a structural tag in its older form")
    return inner["format"]


def decoded(text: str) -> Any:  # noqa: ANN401 - any JSON
    """JSON written as a text. Raises CannotBeError."""
    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except msgspec.DecodeError:
        raise CannotBeError("a text that is no JSON") from None


def bound(domain: Domain, value: Scalar) -> float | int | None:
    """The end of the range that a number outside is taken for; None where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    below = domain.low is not None and value < domain.low
    end, is_open = (domain.low, domain.low_open) if below else (domain.high, domain.high_open)
    return None if end is None or is_open else int(end) if float(end).is_integer() else end


def scale(domain: Domain | None) -> tuple[float | None, float | None]:
    """From where to where numbers go; ends that nobody reaches are none."""
    if domain is None:
        return None, None
    low, high = (None if end is None or abs(end) >= _UNBOUNDED else end for end in (domain.low, domain.high))
    return low, high
