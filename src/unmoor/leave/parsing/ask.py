"""What each side makes of every distinct output: asked of its own parsers where they are here, else of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from unmoor.leave.parsing.choose import families
from unmoor.leave.parsing.collect import Collector, Output
from unmoor.leave.parsing.parsed import Call, Names, OutputAnswer, Parsed, ParserAnswers, Told
from unmoor.leave.parsing.table import by_table
from unmoor.leave.uses import Rows, Uses

_UNTOLD = frozenset(("no_such_parser", "too_slow", "crashed", "not_asked"))


@dataclass(slots=True)
class _Side:
    """One side's words: of its parsers, and of the table."""

    surface: Surface
    replies: Replies | None

    def told(self, output: Output, names: Names, name: str) -> Told:
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
    collected = Collector(source, target, model, flags)
    for name, rows in uses.by_model.items():
        collected.add_model(name, rows)
    for sample in uses.raw_outputs:
        collected.add(sample)
    not_asked = list(collected.left_out())
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
    not_asked += _untold(answers, len(outputs) - len(answers), source)
    toy = tuple(one.surface.title for one in sides if one.replies is not None and one.replies.toy_tokenizer)
    return ParserAnswers(tuple(answers), chosen, tuple(dict.fromkeys(not_asked)), toy)


def _untold(answers: Sequence[OutputAnswer], unfaithful: int, source: Surface) -> Iterator[str]:
    """Of how many outputs nothing is said, and why."""
    if unfaithful:
        yield (
            f"parsers: {plural(unfaithful, 'answer')} of which the log has no raw output, and which {source.title}'s "
            "parsers would not make of the output that was written again"
        )
    if unknown := sum(one.source.parsed is None or one.target.parsed is None for one in answers):
        yield f"parsers: of {plural(unknown, 'output')} neither an installed parser nor the table could tell"
    if failed := sum(one.source.parsed is not None and one.source.parsed.error != "" for one in answers):
        yield (
            f"parsers: {plural(failed, 'output')} on which the parsers of {source.title} fail themselves, or with this "
            "tokenizer"
        )


def _ask(
    side: Surface,
    outputs: Mapping[str, Output],
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


def _questions(name: str, output: Output, *, theirs: bool) -> Iterable[Line]:
    chosen = output.chosen
    if not theirs:
        yield output.question(name, chosen.source)
        return
    yield output.question(name, chosen.target)
    for other in chosen.others:
        yield output.question(f"{name} {other}", Names(other, chosen.target.reasoning))


def _is_faithful(name: str, output: Output, source: _Side) -> bool:
    """Whether the source makes of an output that was written again what the log has of it; of a raw one always."""
    told = source.told(output, output.chosen.source, name).parsed
    return output.recorded is None or (told is not None and told.meaning == output.recorded.meaning)


def _answer(name: str, output: Output, source: _Side, target: _Side) -> OutputAnswer:
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


def _needs_tokenizer(output: Output) -> bool:
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
