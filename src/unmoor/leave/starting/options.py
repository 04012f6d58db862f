"""Words of a command line as options of one engine: spellings, switches, abbreviations, and what is not known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from unmoor.engines.surface.surface import Flag, Option, Surface
from unmoor.leave.starting.secrets import hidden
from unmoor.leave.starting.shell import Word

ON, OFF = "on", "off"

_NUMBER = re.compile(r"-\d+(?:\.\d*)?$")
_VARIABLE = re.compile(r"\$(?:[A-Z_][A-Z0-9_]*|\{[A-Z_][A-Z0-9_]*\})")
"""A variable that the file does not set: its name is no secret, and the target's start reads the same one."""
_ATTACHED = re.compile(r"(-[A-Z])([\d.].*)")


@dataclass(slots=True)
class Taken:
    """Options as they were given: see `LaunchFlags`, which this becomes."""

    given: dict[str, str] = field(default_factory=dict)
    concepts: dict[str, str] = field(default_factory=dict)
    spelled: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    prefixes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    loose: list[str] = field(default_factory=list)


def take(words: Sequence[Word], surface: Surface) -> Taken:
    """The options among `words`; those without a dash that belong to none are `loose`."""
    names = _Names(surface)
    taken = Taken()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.text == "--":
            taken.loose += [one.text for one in words[at:]]
            break
        if not _is_option(word.text):
            taken.loose.append(word.text)
            continue
        name, _, value = word.text.partition("=")
        attached = "=" in word.text
        found = names.found(name)
        if not attached and found is None and (short := _ATTACHED.fullmatch(name)):
            name, value, attached = short[1], short[2], True
            found = names.found(name)
        if not attached and not names.is_switch(name, found):
            count = _values(words[at:], several=names.takes_several(found))
            value = " ".join(one.text for one in words[at : at + count])
            at += count
        _put(taken, names, name, value, word.line)
    return taken


def take_keys(keys: Mapping[str, tuple[str, int]], surface: Surface) -> Taken:
    """The keys of an engine's own configuration file, which are its options without dashes, or keys of its own."""
    names = _Names(surface)
    taken = Taken()
    for key, (value, line) in keys.items():
        if key == "model" and surface.start is not None and surface.start.model_first:
            taken.loose.append(value)
            continue
        name = key if names.concepts(key) else f"--{key}"
        _put(taken, names, name, value, line)
    return taken


def _put(taken: Taken, names: _Names, name: str, value: str, line: int) -> None:
    found = names.found(name)
    name = hidden("", name)
    shown = value if _VARIABLE.fullmatch(value) else hidden(found or name, value)
    taken.given[name] = shown
    taken.lines[name] = line
    if found is None:
        if name in names.surface.gone_flags:
            taken.gone.append(name)
            return
        longer = names.longer(name)
        taken.prefixes.update({name: longer} if longer else {})
        found = longer[0] if len(longer) == 1 else None
    if found is None:
        if name not in taken.prefixes:
            taken.unknown.append(name)
        return
    for concept in names.concepts(found):
        flag = names.surface.flags[concept]
        taken.concepts[concept] = _meaning(flag, found, shown, is_switch=names.is_switch(found, found))
        taken.spelled[concept] = name


def _meaning(flag: Flag, name: str, value: str, *, is_switch: bool) -> str:
    """What a value means: ON or OFF where it can only be that, else the value itself."""
    if is_switch and not flag.switch and flag.on:
        return ON  # a switch beside options with values: it is named for what it does to something else
    if flag.switch or is_switch or flag.kind == "true or false":
        said = value.casefold() not in {"false", "0", "no", OFF}
        return ON if said != _turns_off(name) else OFF
    return value


def _turns_off(name: str) -> bool:
    return name.startswith(("--no-", "--disable-", "--no_", "--disable_"))


def _values(rest: Sequence[Word], *, several: bool) -> int:
    """How many of the words that follow are the option's values."""
    count = 0
    while count < len(rest) and not _is_option(rest[count].text) and (several or count == 0):
        count += 1
    return count


def _is_option(text: str) -> bool:
    return text.startswith("-") and text != "-" and not _NUMBER.match(text)


class _Names:
    """Every spelling that an engine's surface has."""

    def __init__(self, surface: Surface) -> None:
        self.surface = surface
        self._option: dict[str, Option] = {flag: one for one in surface.options.values() for flag in one.flags}
        self._flags: dict[str, list[str]] = {}
        for concept, flag in surface.flags.items():
            for name in flag.names:
                self._flags.setdefault(name, []).append(concept)

    def found(self, name: str) -> str | None:
        """The spelling that is meant, exactly or with dashes for underscores; None for none."""
        for spelled in dict.fromkeys((name, *_respelled(name))):
            if spelled in self._flags or spelled in self._option or spelled.partition(".")[0] in self._option:
                return spelled
        return None

    def concepts(self, name: str) -> Iterable[str]:
        """The concepts that a spelling is; another spelling of the same option is the same."""
        own = self._flags.get(name)
        if own is not None:
            return own
        option = self._option.get(name)
        return list(dict.fromkeys(one for flag in option.flags for one in self._flags.get(flag, ()))) if option else ()

    def longer(self, name: str) -> tuple[str, ...]:
        """One spelling of each option that an abbreviation may be."""
        if not name.startswith("--") or not name[3:]:
            return ()
        starts = {name, *_respelled(name)}
        whole = dict.fromkeys((*self._option, *(one for one in self._flags if one.startswith("--"))))
        found = [one for one in whole if any(one.startswith(start) for start in starts)]
        by_option = {id(self._option.get(one)) if one in self._option else one: one for one in reversed(found)}
        return tuple(sorted(by_option.values()))

    def is_switch(self, name: str, found: str | None) -> bool:
        """Whether an option takes no value; of one that nobody knows: never."""
        if found is None:
            longer = self.longer(name)
            return len(longer) == 1 and self.is_switch(longer[0], longer[0])
        option = self._option.get(found)
        if option is not None:
            return option.choices is None and (
                option.default in {"True", "False"} or any(flag.startswith("--no-") for flag in option.flags)
            )
        return any(self.surface.flags[concept].switch for concept in self._flags.get(found, ()))

    def takes_several(self, found: str | None) -> bool:
        """Whether more words than one may follow."""
        return any(self.surface.flags[one].several == "words" for one in (self.concepts(found) if found else ()))


def _respelled(name: str) -> Iterator[str]:
    if name.startswith("--"):
        head, dot, rest = name[2:].partition(".")
        yield f"--{head.replace('_', '-')}{dot}{rest}"
        yield f"--{head.replace('-', '_')}{dot}{rest}"
