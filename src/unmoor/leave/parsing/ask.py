"""What each side makes of every distinct output: asked of its own parsers where they are here, else of the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unmoor.core.errors import UnmoorError
from unmoor.core.plural import plural
from unmoor.engines.surface.surface import Surface
from unmoor.launch.output_parsers import Replies, ask_parsers, parsers_environment
from unmoor.launch.probe import Line
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.finding import TABLE
from unmoor.leave.launch_flags import LaunchFlags
from unmoor.leave.parsing.choose import MOST_PLAUSIBLE, choose, families, of_flags, of_marks, of_model, of_name
from unmoor.leave.parsing.parsed import Call, Chosen, Names, OutputAnswer, Parsed, ParserAnswers, SaidBy, Told
from unmoor.leave.parsing.table import by_table
from unmoor.leave.parsing.written import THINK, THOUGHT, write
from unmoor.leave.reading.answers import MOST_SAMPLES
from unmoor.leave.uses import Rows, Sample, Uses

_UNTOLD = frozenset(("no_such_parser", "too_slow", "crashed", "not_asked"))


@dataclass(slots=True)
class _Output:
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
        return {
            "id": name, "tool": names.tool, "reasoning": names.reasoning, "text": self.text,
            "tools": list(self.tools), "template_kwargs": dict(self.kwargs),
        }  # fmt: skip


@dataclass(slots=True)
class _Side:
    """One side's words: of its parsers, and of the table."""

    surface: Surface
    replies: Replies | None

    def told(self, output: _Output, names: Names, name: str) -> Told:
        line = self.replies.answers.get(name) if self.replies else None
        toy = self.replies is not None and self.replies.toy_tokenizer
        if self.replies and line and line.get("error") not in _UNTOLD and not (toy and _needs_tokenizer(output)):
            return Told(_parsed(line), self._by(self.replies.version))
        return Told(by_table(self.surface, names, output.text, output.functions, output.kwargs), TABLE)

    def _by(self, version: str) -> str:
        """Whose word it is; the version that was asked is named beside the one that serves, where they differ."""
        asked = f"the parsers of {self.surface.title} {version}"
        return asked if version == self.surface.version else f"{asked} ({self.surface.version} is meant)"


def ask_outputs(
    uses: Uses,
    source: Surface,
    target: Surface,
    *,
    model: Checkpoint | None = None,
    flags: LaunchFlags | None = None,
    say: Callable[[str], None],
) -> ParserAnswers:
    """What both sides make of the traffic's raw outputs, each distinct one asked once of each side.

    A side's parsers are asked in its own installed environment, or in the one that has its parsers alone; where there
    is neither, the table answers. `say` is told what is asked of whom.
    """
    if (source.engine, source.version) == (target.engine, target.version):
        return ParserAnswers()
    collected = _Collector(source, target, model, flags)
    for name, rows in uses.by_model.items():
        collected.add_model(name, rows)
    for sample in uses.raw_outputs:
        collected.add(sample)
    not_asked = list(collected.left_out())
    if len(uses.raw_outputs) >= MOST_SAMPLES:
        not_asked.append(f"parsers: outputs beyond the first {MOST_SAMPLES:,} that parsers have something to do with")
    outputs = {str(at): one for at, one in enumerate(collected.by_key.values())}
    chosen = {one: Rows.union(several) for one, several in collected.chosen.items()}
    if not outputs:
        return ParserAnswers((), chosen, tuple(dict.fromkeys(not_asked)))
    sides = []
    for side in (source, target):
        if parsers_environment(side.engine) is not None:
            say(f"asking the parsers of {side.title} about {plural(len(outputs), 'output')}")
        sides.append(_ask(side, outputs, model, not_asked, theirs=side is target))
    answers = [_answer(name, one, *sides) for name, one in outputs.items() if _is_faithful(name, one, sides[0])]
    if unfaithful := len(outputs) - len(answers):
        not_asked.append(
            f"parsers: {plural(unfaithful, 'answer')} of which the log has no raw output, and which {source.title}'s "
            "parsers would not make of the output that was written again"
        )
    unknown = sum(one.source.parsed is None or one.target.parsed is None for one in answers)
    if unknown:
        not_asked.append(
            f"parsers: of {plural(unknown, 'output')} neither an installed parser nor the table could tell"
        )
    toy = tuple(one.surface.title for one in sides if one.replies is not None and one.replies.toy_tokenizer)
    return ParserAnswers(tuple(answers), chosen, tuple(dict.fromkeys(not_asked)), toy)


@dataclass(slots=True)
class _Collector:
    """Brings together every distinct output, and every family that the traffic may be of; counts what it leaves out."""

    source: Surface
    target: Surface
    model: Checkpoint | None
    flags: LaunchFlags | None
    by_key: dict[str, _Output] = field(default_factory=dict)
    chosen: dict[Chosen, list[Rows]] = field(default_factory=dict)
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


def _prepared(sample: Sample, chosen: Chosen) -> _Output | None:
    """The output as the model wrote it, or written again from what its parsers made of it."""
    kwargs = {key: value for key, value in sample.template_kwargs.items() if isinstance(value, bool | str)}
    if not sample.parsed:
        return _Output(chosen, sample.text, sample.tools, kwargs, None)
    calls = tuple(Call(*one) for one in sample.calls)
    text = write(families()[chosen.family].form, sample.reasoning, sample.text, calls)
    if text is not None and chosen.source.reasoning and not sample.reasoning and False not in kwargs.values():
        text = f"{THINK}\n\n{THOUGHT}\n\n{text}"  # so models write that did not think
    recorded = Parsed(calls, sample.text, sample.reasoning)
    return None if text is None else _Output(chosen, text, sample.tools, kwargs, recorded)


def _ask(
    side: Surface,
    outputs: Mapping[str, _Output],
    model: Checkpoint | None,
    not_asked: list[str],
    *,
    theirs: bool,
) -> _Side:
    questions = [one for name, output in outputs.items() for one in _questions(name, output, theirs=theirs)]
    if not questions:
        return _Side(side, None)
    tokenizer = Path(model.path) if model and model.has_tokenizer and Path(model.path).is_dir() else None
    try:
        replies = ask_parsers(
            side.engine, questions, tokenizer=tokenizer, template=model.chat_template if model else None
        )
    except UnmoorError as error:
        not_asked.append(f"parsers, of {side.title}: {error.message}; the table answered")
        return _Side(side, None)
    if replies is None:
        not_asked.append(f"parsers, of {side.title}: they are not installed here, the table answered")
    elif replies.toy_tokenizer and any(_needs_tokenizer(one) for one in outputs.values()):
        not_asked.append(
            f"parsers, of {side.title}: some ask the model's own tokenizer (--model DIR); the table answered"
        )
    return _Side(side, replies)


def _questions(name: str, output: _Output, *, theirs: bool) -> Iterable[Line]:
    chosen = output.chosen
    if not theirs:
        yield output.question(name, chosen.source)
        return
    yield output.question(name, chosen.target)
    for other in chosen.others:
        yield output.question(f"{name} {other}", Names(other, chosen.target.reasoning))


def _is_faithful(name: str, output: _Output, source: _Side) -> bool:
    """Whether the source makes of an output that was written again what the log has of it; of a raw one always."""
    told = source.told(output, output.chosen.source, name).parsed
    return output.recorded is None or (told is not None and told.meaning == output.recorded.meaning)


def _answer(name: str, output: _Output, source: _Side, target: _Side) -> OutputAnswer:
    chosen = output.chosen
    others = {
        other: target.told(output, Names(other, chosen.target.reasoning), f"{name} {other}") for other in chosen.others
    }
    return OutputAnswer(
        chosen=chosen,
        rows=Rows(sorted(set(output.lines))),
        source=source.told(output, chosen.source, name),
        target=target.told(output, chosen.target, name),
        others=others,
        rebuilt=output.recorded is not None,
        switched=any(isinstance(value, bool) for value in output.kwargs.values()),
    )


def _needs_tokenizer(output: _Output) -> bool:
    return families()[output.chosen.family].needs_tokenizer


def _parsed(line: Mapping[str, Any]) -> Parsed:
    if error := line.get("error"):
        return Parsed(error=str(error))
    calls: Sequence[Mapping[str, Any]] = line["calls"]
    return Parsed(
        calls=tuple(Call(str(one["name"]), str(one["arguments"])) for one in calls),
        content=line["content"] or "",
        reasoning=line["reasoning"] or "",
    )
