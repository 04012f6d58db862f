"""What the target has to be started with so that it does what a finding asks: options, keys of its file, variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from unmoor.engines.surface.surface import Flag, Surface

_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*)=(\S+)")
_SAYS_NOTHING = frozenset(("none", "auto"))


@dataclass(frozen=True, slots=True)
class Need:
    """One option (`words`), key of the configuration file (`key`) or variable of the environment (`variable`).

    `is_open`: it wants a value, and which is the user's to say. `others` are values that would do as well as the one
    that is named.
    """

    name: str
    words: tuple[str, ...] = ()
    key: tuple[str, str] | None = None
    variable: tuple[str, str] | None = None
    is_open: bool = False
    others: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """As it is written, for a sentence."""
        written = " ".join(self.words) or ": ".join(self.key or ()) or "=".join(self.variable or ())
        return f"`{written or self.name}`" + (f" (or {', '.join(self.others)})" if self.others else "")


def needs(target: Surface, asked: str) -> tuple[Need, ...]:
    """What `asked` says, as surfaces write it: "--enable-lora", "key: value, key: value", "VARIABLE=1 --option"."""
    return tuple(_each(target, asked))


def said_needs(target: Surface, asked: str) -> str:
    """The same for a sentence, with the values that it can be given; as it stands where it is no option."""
    return " and ".join(one.said for one in needs(target, asked)) or asked


def _each(target: Surface, asked: str) -> Iterator[Need]:
    for part in asked.split(", "):
        key, colon, value = part.partition(": ")
        if colon:
            yield Need(key, key=(key, value))
        elif " " not in part and not part.startswith("-") and not _VARIABLE.fullmatch(part):
            yield _key(target, part)
        else:
            yield from _words(target, part.split())


def _key(target: Surface, name: str) -> Need:
    value, others = _value(_flag(target, name))
    return Need(name, key=(name, value), others=others) if value else Need(name, is_open=True)


def _words(target: Surface, words: list[str]) -> Iterator[Need]:
    at = 0
    while at < len(words):
        word = words[at]
        after = words[at + 1] if at + 1 < len(words) else "-"
        at += 1
        if variable := _VARIABLE.fullmatch(word):
            yield Need(variable[1], variable=(variable[1], variable[2]))
        elif word.startswith("-") and after.startswith("-"):
            yield _option(target, word)
        elif word.startswith("-"):
            yield Need(word, words=(word, after))
            at += 1


def _option(target: Surface, name: str) -> Need:
    flag = _flag(target, name)
    if flag is None or flag.switch:
        return Need(name, words=(name,))
    value, others = _value(flag)
    return Need(name, words=(name, value), others=others) if value else Need(name, is_open=True)


def _flag(target: Surface, name: str) -> Flag | None:
    return next((flag for flag in target.flags.values() if name in flag.names), None)


def _value(flag: Flag | None) -> tuple[str, tuple[str, ...]]:
    """The first value that switches something on, and the others; none where the user has to say."""
    listed = [word for word in flag.words if word not in _SAYS_NOTHING] if flag is not None else []
    return (listed[0], tuple(listed[1:])) if listed else ("", ())
