"""What recorded traffic really uses of an engine: each distinct use once, with the requests that have it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from unmoor.core.evidence import Caveat
from unmoor.engines.surface.surface import Scalar
from unmoor.traffic.entry import Prompt

Place = Literal["chat", "completions", "responses", "answer"]
"""A request's body by its endpoint, or what came back."""


class Use(NamedTuple):
    """One thing that requests do: a field at `path` (dotted, from the body or the answer) with `value`.

    `value` is a number, a truth value, None or a word that the interfaces define; of anything else its kind, in angle
    brackets ("<text>", "<list of 3>", "<object>"), so that no text of anybody's is in it. `path` of a field that is
    left out although it matters ("max_tokens") has the value ABSENT.
    """

    place: Place
    path: str
    value: Scalar

    @property
    def feature(self) -> str:
        """The name under which it is reported."""
        return f"{self.place}.{self.path}"


ABSENT = "<absent>"


class Rows:
    """Lines of the log, in order, each once."""

    __slots__ = ("_lines",)

    def __init__(self, lines: Iterable[int] = ()) -> None:
        self._lines = array("q", lines)

    def add(self, line: int) -> None:
        """Adds a line that is not below the last."""
        if not self._lines or self._lines[-1] != line:
            self._lines.append(line)

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[int]:
        return iter(self._lines)

    def first(self, count: int) -> tuple[int, ...]:
        """The first `count` of them."""
        return tuple(self._lines[:count])

    def both(self, other: Rows) -> Rows:
        """The lines that are in this and in the other, in order."""
        return Rows(np.intersect1d(self._array(), other._array(), assume_unique=True).tolist())

    def without(self, other: Rows) -> Rows:
        """The lines of this that are not in the other, in order."""
        return Rows(np.setdiff1d(self._array(), other._array(), assume_unique=True).tolist())

    def _array(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.frombuffer(self._lines, dtype=np.int64) if self._lines else np.zeros(0, dtype=np.int64)

    @staticmethod
    def union(several: Iterable[Rows]) -> Rows:
        """Every line that is in one of them, each once, in order."""
        arrays = [rows._array() for rows in several if rows._lines]  # noqa: SLF001 - its own
        return Rows(np.unique(np.concatenate(arrays)).tolist()) if arrays else Rows()


@dataclass(frozen=True, slots=True)
class Constraint:
    """One distinct schema, regex, grammar or list of choices. `content` is somebody's text: it is never shown.

    `key` is a short hash, by which findings name it. `content` is the schema as decoded, or the text.
    """

    key: str
    kind: Literal["json_schema", "regex", "grammar", "choice", "structural_tag"]
    content: object


class ConstraintAt(NamedTuple):
    """One constraint under the field in which a request brings it: engines ignore some fields and obey others."""

    key: str
    place: Place
    path: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One output of a model, or one templated prompt, kept to be run through parsers or a template; never shown.

    `text` is as the model wrote it. Where the source's parsers had been at it (`parsed`) it is the content that they
    left beside `calls` (names and arguments) and `reasoning`. `template_kwargs` are the request's for the template.
    """

    line: int
    text: str
    tools: tuple[object, ...] = ()
    parsed: bool = False
    calls: tuple[tuple[str, str], ...] = ()
    reasoning: str = ""
    template_kwargs: Mapping[str, object] = field(default_factory=dict)
    model: str = ""


@dataclass(frozen=True, slots=True)
class Counted:
    """A chat prompt whose tokens its server counted, kept to be counted again; never shown."""

    line: int
    prompt: Prompt
    input_tokens: int


@dataclass(slots=True)
class Uses:
    """All that a log uses. `by_use` and `by_constraint` name the lines of the requests that have each.

    `bodies` counts the requests whose body the log holds; where it is below `requests` (lengths alone, or an engine's
    own log), the rest could not be looked at. `together` keeps pairs that only matter in one request, under a name that
    the check which reads it defines. `raw_outputs` are a bounded number of answers' texts as the model wrote them;
    `templated` prompts that went to completions as text; `counted` a few chat prompts with their server's count.
    `by_model` names the lines of the first thousand models.
    """

    source: str = ""
    format: str = ""
    requests: int = 0
    bodies: int = 0
    answers: int = 0
    by_use: dict[Use, Rows] = field(default_factory=dict)
    constraints: dict[str, Constraint] = field(default_factory=dict)
    by_constraint: dict[str, Rows] = field(default_factory=dict)
    constraints_at: dict[ConstraintAt, Rows] = field(default_factory=dict)
    together: dict[str, Rows] = field(default_factory=dict)
    tool_schemas: dict[str, Constraint] = field(default_factory=dict)
    by_tool_schema: dict[str, Rows] = field(default_factory=dict)
    raw_outputs: list[Sample] = field(default_factory=list)
    templated: list[Sample] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
    models: Mapping[str, int] = field(default_factory=dict)
    by_model: dict[str, Rows] = field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()

    def add(self, use: Use, line: int) -> None:
        """Counts that the request on `line` does this."""
        rows = self.by_use.get(use)
        if rows is None:
            rows = self.by_use[use] = Rows()
        rows.add(line)

    def of(self, path: str, *places: Place) -> dict[Use, Rows]:
        """Every use of `path`, in any place or in those named."""
        return {
            use: rows for use, rows in self.by_use.items() if use.path == path and (not places or use.place in places)
        }

    def rows(self, path: str, *places: Place) -> Rows:
        """The requests that have `path`, with whatever value but ABSENT."""
        return Rows.union(rows for use, rows in self.of(path, *places).items() if use.value != ABSENT)

    def pair(self, name: str) -> Rows:
        """The requests that have this pair of things together, or this lack; the names are those of `together`."""
        return self.together.get(name, Rows())

    def which(self, path: str, *values: Scalar, places: Sequence[Place] = ()) -> Rows:
        """The requests that have one of `values` at `path`."""
        found = self.of(path, *places)
        return Rows.union(rows for use, rows in found.items() if _is_one(use.value, values))


def _is_one(value: Scalar, values: Sequence[Scalar]) -> bool:
    """Whether `value` is one of `values`; true is not 1, and false not 0."""
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values)
