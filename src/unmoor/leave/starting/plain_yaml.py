"""The simple part of YAML that start files are written in: flat keys of a configuration, and containers' command lines.

No general YAML is read: anchors, tags, merge keys and flow mappings are an error that names the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from unmoor.core.errors import UsageError
from unmoor.leave.starting.shell import Word

_KEY = re.compile(r"""(?P<key>"[^"]*"|'[^']*'|[\w./-]+)\s*:(?:\s+(?P<value>.*)|$)""")
_BLOCK = re.compile(r"[|>][-+0-9]*$")
_WORDS_OF = frozenset(("command", "args", "entrypoint"))
_VARIABLES = frozenset(("env", "environment"))


@dataclass(frozen=True, slots=True)
class _Line:
    """A line that says something: its number, how far it is indented, and the rest without a comment."""

    number: int
    indent: int
    text: str


@dataclass(slots=True)
class Container:
    """One container of a manifest: its image, and the words it is started with; texts are for a shell to part."""

    line: int
    image: str = ""
    words: list[Word] = field(default_factory=list)
    script: list[Word] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)


def is_manifest(text: str) -> bool:
    """Whether this is a container's manifest, and no engine's own configuration."""
    return re.search(r"^\s*(?:-\s+)?(?:image|command|args|entrypoint)\s*:", text, re.MULTILINE) is not None


def flat_keys(text: str, *, where: str) -> dict[str, tuple[str, int]]:
    """Each key with its value as text, and its line; keys within keys are joined by dots, lists by spaces.

    Raises UsageError for what is not so simple.
    """
    found: dict[str, tuple[str, int]] = {}
    parents: list[tuple[int, str]] = []
    for line in _lines(text):
        while (
            parents
            and parents[-1][0] >= line.indent
            and not (line.text.startswith("- ") and parents[-1][0] == line.indent)
        ):
            parents.pop()
        if line.text.startswith("- "):
            if not parents or _KEY.match(line.text[2:]):
                raise _too_complex(where, line.number)
            name = ".".join(key for _, key in parents)
            before = found.get(name, ("", 0))[0]
            found[name] = f"{before} {_scalar(line.text[2:].strip(), where, line.number)}".strip(), line.number
            continue
        key = _KEY.fullmatch(line.text)
        if key is None or _BLOCK.match(key["value"] or ""):
            raise _too_complex(where, line.number)
        name = ".".join([*(key for _, key in parents), key["key"].strip("\"'")])
        value = (key["value"] or "").strip()
        if value:
            items = _flow_list(value)
            found[name] = _scalar(value, where, line.number) if items is None else " ".join(items), line.number
        else:
            parents.append((line.indent, key["key"].strip("\"'")))
    return found


def containers(text: str, *, where: str) -> list[Container]:
    """Every container, or service, that names an image or a command line. Raises UsageError for what cannot be read."""
    lines = list(_lines(text))
    found: list[Container] = []
    column = -1  # where the keys of the container stand that is being read
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        column = -1 if line.indent < column else column
        key = _key_of(line)
        if key is None or (key.name in _VARIABLES and column < 0):
            continue
        if column < 0:
            column = key.column
            found.append(Container(line=line.number))
        if key.column != column:
            continue  # deeper: the command of a probe
        end = at
        while end < len(lines) and _belongs(lines[end], column):
            end += 1
        _take(found[-1], key, lines[at - 1 : end], text, where=where)
        at = end
    return found


class _Key(NamedTuple):
    """One of the keys that matter, its value on the same line, and the column where it stands."""

    name: str
    value: str
    column: int


def _key_of(line: _Line) -> _Key | None:
    column, rest = line.indent, line.text
    while rest.startswith("- "):
        inner = rest[2:].lstrip()
        column += len(rest) - len(inner)
        rest = inner
    key = _KEY.fullmatch(rest)
    name = key["key"].strip("\"'") if key else ""
    if key is None or name not in {"image", *_VARIABLES, *_WORDS_OF}:
        return None
    return _Key(name, (key["value"] or "").strip(), column)


def _take(one: Container, key: _Key, lines: Sequence[_Line], text: str, *, where: str) -> None:
    """What a key says; `lines` are its own and those that belong to it."""
    line, *inner = lines
    if key.name == "image":
        one.image = key.value.strip("\"'")
    elif key.name in _VARIABLES:
        one.env.update(_variables(inner))
    else:
        _take_words(one, _Line(line.number, key.column, key.value), inner, text, where)


def _belongs(line: _Line, indent: int) -> bool:
    return line.indent > indent or (line.indent == indent and line.text.startswith("- "))


def _take_words(one: Container, head: _Line, inner: Sequence[_Line], text: str, where: str) -> None:
    value = head.text
    if _BLOCK.match(value):
        one.script.append(Word(_block(text, head.number, inner, folded=value.startswith(">")), head.number + 1))
    elif value.startswith("["):
        whole = " ".join([value, *(line.text for line in inner)])
        items = _flow_list(whole)
        if items is None:
            raise _too_complex(where, head.number)
        one.words += [Word(item, head.number) for item in items]
    elif value:
        folded = " ".join([value, *(line.text for line in inner)])
        one.script.append(Word(_scalar(folded, where, head.number), head.number))
    else:
        one.words += _items(inner, text, where)


def _items(inner: Sequence[_Line], text: str, where: str) -> Iterator[Word]:
    """The items of a list, one a line; a block of text is one item."""
    at = 0
    while at < len(inner):
        line = inner[at]
        at += 1
        if line.text == "-":
            yield Word("", line.number)
        elif not line.text.startswith("- "):
            raise _too_complex(where, line.number)
        elif _BLOCK.match(item := line.text[2:].strip()):
            begin = at
            while at < len(inner) and inner[at].indent > line.indent:
                at += 1
            yield Word(_block(text, line.number, inner[begin:at], folded=item.startswith(">")), line.number + 1)
        else:
            yield Word(_scalar(item, where, line.number), line.number)


def _block(text: str, head: int, inner: Sequence[_Line], *, folded: bool) -> str:
    """A block of text, as it stands below its key; a folded one is one line."""
    last = inner[-1].number if inner else head
    return (" " if folded else "\n").join(text.splitlines()[head:last])


def _variables(inner: Sequence[_Line]) -> dict[str, str]:
    """`- name: A` with `value: b`, `- A=b`, and `A: b`."""
    found: dict[str, str] = {}
    name = ""
    for line in inner:
        rest = line.text.removeprefix("- ").strip()
        key = _KEY.fullmatch(rest)
        if key is None:
            left, mark, right = rest.strip("\"'").partition("=")
            if mark:
                found[left] = right
        elif key["key"] == "name":
            name = (key["value"] or "").strip("\"' ")
        elif key["key"] == "value" and name:
            found[name] = (key["value"] or "").strip("\"' ")
        elif key["value"] and not line.text.startswith("- ") and re.fullmatch(r"[A-Z_][A-Z0-9_]*", key["key"]):
            found[key["key"]] = key["value"].strip("\"' ")
    return found


def _lines(text: str) -> Iterator[_Line]:
    for number, raw in enumerate(text.splitlines(), 1):
        rest = _without_comment(raw).rstrip()
        stripped = rest.lstrip(" ")
        if stripped and stripped not in {"---", "..."}:
            yield _Line(number, len(rest) - len(stripped), stripped)


def _without_comment(line: str) -> str:
    quote = ""
    for at, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (at == 0 or line[at - 1] in " [,:"):
            quote = char
        elif char == "#" and (at == 0 or line[at - 1] in " \t"):
            return line[:at]
    return line


def _flow_list(value: str) -> list[str] | None:
    """The items of `[a, "b"]`; None for what is no such list."""
    if not (value.startswith("[") and value.rstrip().endswith("]")):
        return None
    try:
        items = json.loads(value)
    except (ValueError, RecursionError):
        inner = value.strip()[1:-1]
        if re.search(r"[\[\]{}&*]", re.sub(r"\"[^\"]*\"|'[^']*'", "", inner)):
            return None
        parts = re.findall(r"\s*(\"[^\"]*\"|'[^']*'|[^,]+)\s*(?:,|$)", inner)
        return [part.strip().strip("\"'") for part in parts if part.strip()]
    if any(isinstance(item, list | dict) for item in items):
        return None
    return [item if isinstance(item, str) else json.dumps(item) for item in items]


def _scalar(value: str, where: str, line: int) -> str:
    if value[1:] and value[0] == value[-1] == '"':
        try:
            text = json.loads(value)
        except ValueError:
            return value[1:-1]
        return text if isinstance(text, str) else value[1:-1]
    if value[1:] and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if value[:1] in {"&", "*", "!", "|", ">"}:
        raise _too_complex(where, line)
    return value


def _too_complex(where: str, line: int) -> UsageError:
    return UsageError(
        "YAML that is not read here",
        where=f"{where}:{line}",
        seen="something other than `key: value`, or a list of plain texts",
        expected="flat keys, or a container's command and args as lists",
        hint="write the command line itself into a file: one command, as in a shell",
    )
