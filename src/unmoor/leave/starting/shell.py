"""The words of a shell's commands: as much of the language as start scripts use, and nothing is run.

Read are quotes, escapes, lines joined by a backslash, comments, variables and arrays set in the same file, and `sh -c`
with a command in it; texts given to a command as its input (`<<EOF`) are passed over. A variable that the file does not
set stays as it is written; `$(...)` too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from unmoor.core.errors import UsageError

_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)\+?=")
_HERE_DOCUMENT = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
_ENDS = frozenset(";&|\n")
_MOST_WORDS = 100_000
_MOST_EXPANDED = 4_000_000
_LONG_NAME = 200


@dataclass(frozen=True, slots=True)
class Word:
    """One word, without its quotes, and the line on which it begins."""

    text: str
    line: int


@dataclass(slots=True)
class Command:
    """One command's words, and the variables set before it."""

    words: list[Word]
    env: dict[str, str] = field(default_factory=dict)


def commands(text: str, *, where: str, line: int = 1) -> list[Command]:
    """Every command of a script, in order. Raises UsageError for a quote that is not closed."""
    reader = _Reader(text, where, line)
    found: list[Command] = []
    for words in reader.commands():
        command = _without_assignments(words, reader)
        if command.words:
            found += _within(command, where) or [command]
    return found


def _without_assignments(words: Sequence[Word], reader: _Reader) -> Command:
    """The command behind `export A=b`, `A=b command` and `env A=b command`; what they set is known from there on."""
    at = 0
    own: dict[str, str] = {}
    exported = False
    while at < len(words):
        text = words[at].text
        if assigned := _ASSIGNED.match(text):
            own[assigned[1]] = text[assigned.end() :]
        elif text in {"export", "declare", "local", "readonly", "set", "unset"} and at == 0:
            exported = True
        elif not (exported or (text == "env" and not own)):
            break
        at += 1
    if at == len(words):
        reader.variables.update(own)
        if exported:
            reader.exported.update(own)
    return Command(words=list(words[at:]), env={**reader.exported, **own})


def _within(command: Command, where: str) -> list[Command]:
    """The commands in the text that `sh -c` is given."""
    words = command.words
    for at, word in enumerate(words[:-1]):
        shell = words[at - 1].text.rpartition("/")[2] if at else ""
        if re.fullmatch(r"-[a-z]*c", word.text) and shell in {"sh", "bash", "zsh", "dash", "ash"}:
            inner = commands(words[at + 1].text, where=where, line=words[at + 1].line)
            for one in inner:
                one.env = {**command.env, **one.env}
            return inner
    return []


@dataclass(slots=True)
class _Reader:
    """A cursor over the text."""

    text: str
    where: str
    line: int
    at: int = 0
    variables: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, list[str]] = field(default_factory=dict)
    exported: dict[str, str] = field(default_factory=dict)
    here_documents: list[str] = field(default_factory=list)
    taken: int = 0
    expanded: int = 0

    def commands(self) -> Iterator[list[Word]]:
        words: list[Word] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _ENDS:
                self._step()
                if char == "\n":
                    self._skip_here_documents()
                if words:
                    yield words
                words = []
            elif char.isspace():
                self._step()
            elif self.text.startswith(("\\\n", "\\\r\n"), self.at):
                self._step()
                self.at = self.text.index("\n", self.at)
                self._step()
            elif char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif char in "<>":
                self._skip_redirection()
            else:
                words += self._words()
                self._count()
        if words:
            yield words

    def _count(self, expanded: str | list[str] = "") -> None:
        """Bounds what is read: words, and what variables that hold each other grow to."""
        self.taken += 1
        self.expanded += sum(map(len, expanded))
        if self.taken > _MOST_WORDS or self.expanded > _MOST_EXPANDED:
            raise UsageError(
                "too long for a command line",
                where=f"{self.where}:{self.line}",
                seen=f"more than {_MOST_WORDS:,} words, or variables that grow without end",
                expected="the command that starts the engine",
                hint="give the file only the command that starts the engine",
            )

    def _step(self) -> None:
        if self.text[self.at] == "\n":
            self.line += 1
        self.at += 1

    def _skip_redirection(self) -> None:
        here = _HERE_DOCUMENT.match(self.text, self.at)
        if here is not None:
            self.at = here.end()
            self.here_documents.append(here[1])
            return
        while self.at < len(self.text) and self.text[self.at] in "<>& \t":
            self._step()
        if self.at < len(self.text) and self.text[self.at] not in _ENDS:
            self._words()

    def _skip_here_documents(self) -> None:
        """Texts that commands are given as their input, to the line that ends each."""
        for end in self.here_documents:
            while self.at < len(self.text):
                newline = self.text.find("\n", self.at)
                stop = len(self.text) if newline < 0 else newline
                line = self.text[self.at : stop].strip()
                self.at = min(stop + 1, len(self.text))
                self.line += 1
                if line == end:
                    break
        self.here_documents.clear()

    def _words(self) -> list[Word]:
        """The next word; several where a variable or an array is spread into them."""
        line = self.line
        done: list[str] = []
        parts: list[str] = []
        plain = True
        while self.at < len(self.text):
            char = self.text[self.at]
            if char.isspace() or char in _ENDS or char in "<>":
                break
            if char == "(" and plain and 0 < len(parts) < _LONG_NAME and (named := _ASSIGNED.fullmatch("".join(parts))):
                self.arrays[named[1]] = self._array()
                return []
            plain = plain and char not in "'\""
            self._piece(char, done, parts)
        if parts or not plain:
            done.append("".join(parts))
        return [Word(text, line) for text in done]

    def _piece(self, char: str, done: list[str], parts: list[str]) -> None:
        """One quoted text, escape, variable or plain character of a word."""
        if char == "'":
            parts.append(self._single())
        elif char == '"':
            self._double(done, parts)
        elif char == "\\":
            self._step()
            if self.at < len(self.text):
                parts += [] if self.text[self.at] == "\n" else [self.text[self.at]]
                self._step()
        elif char == "$":
            self._spread(
                self._expansion(), done, parts, in_assignment=bool(_ASSIGNED.match("".join(parts[:_LONG_NAME])))
            )
        else:
            parts.append(char)
            self._step()

    def _spread(self, expanded: str | list[str], done: list[str], parts: list[str], *, in_assignment: bool) -> None:
        """Puts what a variable holds into the word; outside quotes it is parted at its spaces."""
        if isinstance(expanded, list):
            pieces = expanded
        elif in_assignment or not expanded.strip() or expanded.startswith("$"):
            parts.append(expanded)
            return
        else:
            pieces = expanded.split()
        if not pieces:
            return
        head = "".join(parts) + pieces[0]
        parts.clear()
        done += [head, *pieces[1:-1]] if len(pieces) > 1 else []
        parts.append(pieces[-1] if len(pieces) > 1 else head)

    def _array(self) -> list[str]:
        """The words between parentheses; the cursor stands on the first."""
        opened = self.line
        self._step()
        found: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == ")":
                self._step()
                return found
            if char.isspace() or char in _ENDS or char in "<>":
                self._step()
            elif char == "\\" and self.text.startswith("\n", self.at + 1):
                self._step()
                self._step()
            elif char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                end_mark = self._array_word()
                found += end_mark
                self._count()
        raise self._unclosed("a parenthesis", opened)

    def _array_word(self) -> list[str]:
        """One word of an array: an unquoted closing parenthesis ends it."""
        close = self.at
        while close < len(self.text) and self.text[close] not in "'\"\\$ \t\r\n)":
            close += 1
        if close < len(self.text) and self.text[close] == ")":
            word = self.text[self.at : close]
            self.at = close
            return [word]
        return [word.text for word in self._words()]

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise self._unclosed("a quote (')", self.line)
        inner = self.text[self.at + 1 : end]
        self.line += inner.count("\n")
        self.at = end + 1
        return inner

    def _double(self, done: list[str], parts: list[str]) -> None:
        opened = self.line
        self._step()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self._step()
                return
            if char == "\\" and self.at + 1 < len(self.text) and self.text[self.at + 1] in '"\\$`\n':
                self._step()
                if self.text[self.at] != "\n":
                    parts.append(self.text[self.at])
                self._step()
            elif char == "$":
                expanded = self._expansion()
                if isinstance(expanded, list):
                    self._spread(expanded, done, parts, in_assignment=False)
                else:
                    parts.append(expanded)
            else:
                parts.append(char)
                self._step()
        raise self._unclosed('a quote (")', opened)

    def _expansion(self) -> str | list[str]:
        expanded = self._expanded()
        self._count(expanded)
        return expanded

    def _expanded(self) -> str | list[str]:
        """What stands for `$NAME`, `${NAME}`, `${NAME:-else}`, `${NAME[@]}`; anything else as it is written."""
        begin = self.at
        self._step()
        rest = self.text[self.at : self.at + 1]
        if rest == "(":
            self._skip_parentheses()
            return self.text[begin : self.at]
        if rest == "{":
            end = self.text.find("}", self.at)
            if end < 0:
                raise self._unclosed("a brace", self.line)
            inner = self.text[self.at + 1 : end]
            self.line += inner.count("\n")
            self.at = end + 1
            return self._braced(inner, self.text[begin : self.at])
        if named := _NAME.match(self.text, self.at):
            self.at = named.end()
            return self.variables.get(named[0], f"${named[0]}")
        return "$"

    def _braced(self, inner: str, written: str) -> str | list[str]:
        named = re.match(r"\w+", inner)
        if named is None:
            return written
        after = inner[named.end() :]
        if after in {"[@]", "[*]"} and named[0] in self.arrays:
            return self.arrays[named[0]]
        if named[0] in self.variables and (not after or after.startswith((":-", "-"))):
            return self.variables[named[0]]
        if after.startswith((":-", "-")):
            return after.removeprefix(":").removeprefix("-").strip("\"'")
        return written

    def _skip_parentheses(self) -> None:
        opened = self.line
        depth = 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "'":
                self._single()
            elif char == '"':
                self._skip_double()
            else:
                depth += {"(": 1, ")": -1}.get(char, 0)
                self._step()
            if depth == 0:
                return
        raise self._unclosed("a parenthesis", opened)

    def _skip_double(self) -> None:
        opened = self.line
        self._step()
        while self.at < len(self.text):
            char = self.text[self.at]
            self._step()
            if char == '"':
                return
            if char == "\\" and self.at < len(self.text):
                self._step()
        raise self._unclosed('a quote (")', opened)

    def _unclosed(self, what: str, line: int) -> UsageError:
        return UsageError(
            f"{what} that is not closed",
            where=f"{self.where}:{line}",
            seen="the end of the file",
            expected="a command line as a shell takes it",
            hint="close it, or leave the line out",
        )


def environment(settings: Sequence[str]) -> Mapping[str, str]:
    """NAME=VALUE texts as a mapping; those without a value are left out."""
    return {
        name: value for one in settings for name, mark, value in [one.partition("=")] if mark and _NAME.fullmatch(name)
    }
