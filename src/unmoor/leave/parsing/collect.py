"""The distinct outputs of the traffic, each with the parsers that both sides would run over it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from unmoor.core.plural import plural
from unmoor.engines.surface.surface import Surface
from unmoor.launch.probe import Line
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.launch_flags import LaunchFlags
from unmoor.leave.parsing.choose import MOST_PLAUSIBLE, choose, families, of_flags, of_marks, of_model, of_name
from unmoor.leave.parsing.parsed import Call, Chosen, Names, Parsed, SaidBy
from unmoor.leave.parsing.written import THINK, THOUGHT, write
from unmoor.leave.reading.answers import MOST_SAMPLES
from unmoor.leave.uses import Rows, Sample


@dataclass(slots=True)
class Output:
    """One distinct output, and what will be asked about it."""

    chosen: Chosen
    text: str
    tools: tuple[Any, ...]
    kwargs: Mapping[str, object]
    recorded: Parsed | None
    lines: list[int] = field(default_factory=list)

    @property
    def functions(self) -> frozenset[str]:
        """The names of the functions that the request has."""
        inner = [tool.get("function", tool) for tool in self.tools if isinstance(tool, dict)]
        return frozenset(str(one.get("name")) for one in inner if isinstance(one, dict))

    def question(self, name: str, names: Names) -> Line:
        """What a probe is asked about it."""
        return {
            "id": name, "tool": names.tool, "reasoning": names.reasoning, "text": self.text,
            "tools": list(self.tools), "template_kwargs": dict(self.kwargs),
        }  # fmt: skip


@dataclass(slots=True)
class Collector:
    """Brings together every distinct output, and every family that the traffic may be of; counts what it leaves out."""

    source: Surface
    target: Surface
    model: Checkpoint | None
    flags: LaunchFlags | None
    by_key: dict[str, Output] = field(default_factory=dict)
    chosen: dict[Chosen, list[Rows]] = field(default_factory=dict)
    seen: int = 0
    untold: int = 0
    unwritten: int = 0
    silent: set[str] = field(default_factory=set)

    def add_model(self, name: str, rows: Rows) -> None:
        """A model's name in the log, with its requests: the family may be told by it although no output is there."""
        plausible, said_by = self._plausible(name, "")
        if len(plausible) <= MOST_PLAUSIBLE:
            for one in choose(plausible, said_by, self.source, self.target, self.flags):
                self.chosen.setdefault(one, []).append(rows)

    def add(self, sample: Sample) -> None:
        """One recorded output; several are kept of it where several families could be meant."""
        self.seen += 1
        plausible, said_by = self._plausible(sample.model, sample.text)
        if not plausible or len(plausible) > MOST_PLAUSIBLE:
            self.untold += 1
            return
        several = choose(plausible, said_by, self.source, self.target, self.flags)
        self.silent |= set() if several else set(plausible)
        for one in several:
            self.chosen.setdefault(one, []).append(Rows([sample.line]))
            if one.source.tool is None and one.source.reasoning is None:
                continue
            if sample.reasoning and one.source.reasoning is None:  # so it is of another family
                self.untold += 1
                continue
            output = _prepared(sample, one)
            if output is None:
                self.unwritten += 1
                continue
            asked = [repr(one), sample.parsed, output.text, output.tools, output.kwargs]
            key = json.dumps(asked, sort_keys=True, default=str)
            self.by_key.setdefault(key, output).lines.append(sample.line)

    def left_out(self) -> Iterator[str]:
        """What was not asked, in words."""
        if self.seen >= MOST_SAMPLES:
            yield f"parsers: outputs beyond the first {MOST_SAMPLES:,} that parsers have something to do with"
        if self.untold:
            yield (
                f"parsers: nothing says of which family the model of {plural(self.untold, 'output')} is "
                "(--model DIR or --start FILE says it)"
            )
        if self.silent:
            both = f"{self.source.title} or {self.target.title}"
            yield f"parsers: what {both} has for {', '.join(sorted(self.silent))} is not known"
        if self.unwritten:
            yield (
                f"parsers: {plural(self.unwritten, 'answer')} with calls: the log has them parsed, and how their model "
                "writes calls is not known"
            )

    def _plausible(self, name: str, text: str) -> tuple[tuple[str, ...], SaidBy]:
        """The families that could be meant, by the first that says any.

        How a model writes is stronger than its name: a model trained further may write as another family does.
        """
        said, marked = of_model(self.model) if self.model else (), of_marks(text)
        if self.flags is not None and (by_flags := of_flags(self.flags, self.source)):
            both = tuple(one for one in by_flags if one in said or one in of_name(name))
            return both or by_flags, "flags"
        if said:
            return said, "model"
        by_name = of_name(name)
        if both := tuple(one for one in by_name if one in marked):
            return both, "log"
        return (marked, "marks") if marked else (by_name, "log")


def _prepared(sample: Sample, chosen: Chosen) -> Output | None:
    """The output as the model wrote it, or written again from what its parsers made of it."""
    kwargs = {key: value for key, value in sample.template_kwargs.items() if isinstance(value, bool | str)}
    if not sample.parsed:
        return Output(chosen, sample.text, sample.tools, kwargs, None)
    calls = tuple(Call(*one) for one in sample.calls)
    text = write(families()[chosen.family].form, sample.reasoning, sample.text, calls)
    if text is not None and chosen.source.reasoning and not sample.reasoning and False not in kwargs.values():
        text = f"{THINK}\n\n{THOUGHT}\n\n{text}"  # so models write that did not think
    recorded = Parsed(calls, sample.text, sample.reasoning)
    return None if text is None else Output(chosen, text, sample.tools, kwargs, recorded)
