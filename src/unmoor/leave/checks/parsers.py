"""Tool calls and thinking: what the other engine's parsers make of recorded outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from unmoor.core.evidence import Caveat
from unmoor.core.plural import plural
from unmoor.engines.surface.concepts import FAMILIES
from unmoor.engines.surface.surface import Source, Surface
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import TABLE, Kind, Outcome, Severity, threads
from unmoor.leave.parsing.parsed import Chosen, OutputAnswer, Parsed, Told
from unmoor.leave.parsing.table import sources
from unmoor.leave.sides import listed
from unmoor.leave.uses import Rows

CALLS = Kind(
    id="UM108",
    name="tool-calls-differ",
    title="Tool calls that the other engine's parser does not find, or finds otherwise",
    bites="Parsers of the same name read the same output differently: a call ends up as text in content, call and text "
    "both vanish, or a call appears where there was text. Agents then wait for a call that never comes.",
    look="Recorded outputs, raw or written again from the answers, go through both engines' own parsers where they are "
    "installed, else through a table of what those parsers were seen to do; names, arguments and text are compared.",
    mend="Start the target with the parser that agrees, where one does; else keep prompts from such outputs, or parse "
    "them in a proxy.",
    threads=threads(
        "sgl-project/sglang#17593", "sgl-project/sglang#26790", "vllm-project/vllm#46863", "vllm-project/vllm#39468"
    ),
)
SPLIT = Kind(
    id="UM154",
    name="reasoning-split-differs",
    title="Thinking that leaks into the answer, or an answer that vanishes into the thinking",
    bites="Where an output has no mark of thinking, or only its end, or the request switches thinking off, parsers "
    "differ in what is thinking and what is answer. Users then read thoughts, or get an empty answer.",
    look="Recorded outputs go through both engines' reasoning parsers with the request's chat_template_kwargs, as "
    "their servers would call them; thinking and content are compared.",
    mend="Choose the target's parser for models that always think, say enable_thinking in every request, or strip the "
    "marks in the client.",
    threads=threads("vllm-project/vllm#50624", "vllm-project/vllm#42664"),
)
MISSING = Kind(
    id="UM155",
    name="parser-missing",
    title="A family of models for which the other engine has no parser",
    bites="Without a parser for the family's way of writing, calls and thinking stay in the content as text.",
    look="The model's family is told by the source's flags, its files, its name in the log or marks in the outputs, "
    "and looked up among the target's parsers.",
    mend="Parse calls and thinking in a proxy or in the client; or serve a family that the target has a parser for.",
)


class _Difference(NamedTuple):
    """One way in which the sides differ, for one family and by one authority."""

    chosen: Chosen
    kind: str
    what: str
    by: str
    rebuilt: bool
    switched: bool


class _Fate(NamedTuple):
    """How a way of differing is told."""

    outcome: Outcome
    severity: Severity
    seen: str
    fix: str = ""


_FATES = {
    "refused": _Fate(
        "lost", "error", "{target} gives no answer: its parser fails on the output, or with the tokenizer"
    ),
    "calls lost with text": _Fate("lost", "error", "{target} loses the tool call and the text: the answer is empty"),
    "calls lost": _Fate("lost", "error", "{target} drops the tool call and keeps the rest"),
    "calls as text": _Fate("lost", "error", "{target} finds no tool call: it stays in content as text"),
    "calls otherwise": _Fate("lost", "error", "{target} finds other tool calls: another number, name or arguments"),
    "calls appear": _Fate(
        "translated",
        "warning",
        "{target} finds tool calls where {source} finds none",
        "Let clients take tool calls there.",
    ),
    "text beside calls": _Fate("lost", "warning", "{target} gives another text beside the same tool calls"),
    "thinking leaks": _Fate("lost", "error", "{target} leaves the thinking in content"),
    "answer vanishes": _Fate("lost", "error", "{target} takes the answer for thinking: content is empty"),
    "thinking appears": _Fate(
        "translated",
        "warning",
        "{target} parts as thinking what {source} leaves in content",
        "Let clients read the thinking in its own field.",
    ),
    "split otherwise": _Fate("lost", "warning", "{target} parts thinking and answer in another place"),
}


def _look(case: Case) -> Iterator[Hit]:
    answers = case.outputs
    if answers is None or case.stays:
        return
    for why in answers.not_asked:
        case.skipped(why)
    yield from _missing(case, answers.chosen)
    groups: dict[_Difference, list[OutputAnswer]] = {}
    for answer in answers.outputs:
        here, there = answer.source.parsed, answer.target.parsed
        if here is None or there is None or here.error or not _has_parsers(answer.chosen):
            continue
        for kind, what in _differences(here, there):
            by = _by(answer.source, answer.target)
            key = _Difference(answer.chosen, kind, what, by, answer.rebuilt, answer.switched and kind == SPLIT.id)
            groups.setdefault(key, []).append(answer)
    for difference, several in groups.items():
        yield _told(case, difference, several)
    yield from _worse_names(case, answers.outputs)


def _worse_names(case: Case, outputs: Iterable[OutputAnswer]) -> Iterator[Hit]:
    """Where the parser of the target that is meant agrees, and another of its parsers for the same family does not."""
    worse: dict[tuple[Chosen, str, str], list[OutputAnswer]] = {}
    for one in outputs:
        here, there = one.source.parsed, one.target.parsed
        if here is None or there is None or here.error or any(_differences(here, there)):
            continue
        for name, told in one.others.items():
            if told.parsed is not None and any(_differences(here, told.parsed)):
                worse.setdefault((one.chosen, name, _by(one.source, told)), []).append(one)
    alike: dict[tuple[Chosen, str, tuple[int, ...]], list[str]] = {}
    for (chosen, name, by), several in worse.items():
        lines = tuple(Rows.union(one.rows for one in several))
        alike.setdefault((chosen, by, lines), []).append(name)
    for (chosen, by, lines), names in alike.items():
        rows = Rows(lines)
        yield hit(
            CALLS,
            "translated",
            "warning",
            features=_features(case, rows),
            rows=rows,
            seen=f"{case.target.title} reads outputs of {_family(chosen)} as {case.source.title} does with "
            f"{chosen.target.said()}, and otherwise with {listed(names)}, for the same family.",
            fix=_start_with(case.target, [chosen.target.tool or ""]),
            sources=_sources(case, chosen) if TABLE in by else (),
            by=by,
            caveats=tuple(_assumed(chosen)),
        )


def _has_parsers(chosen: Chosen) -> bool:
    """Whether the target has what the source runs; that it has not is told by itself."""
    return bool(chosen.target.tool or not chosen.source.tool) and bool(
        chosen.target.reasoning or not chosen.source.reasoning
    )


def _differences(here: Parsed, there: Parsed) -> Iterator[tuple[str, str]]:
    """The kind and the way of each difference: none where only spaces around texts differ."""
    if there.error:
        yield CALLS.id if here.calls else SPLIT.id, "refused"
        return
    if [one.meaning for one in here.calls] != [one.meaning for one in there.calls]:
        yield CALLS.id, _calls_differ(here, there)
        return
    (content, thinking), (their_content, their_thinking) = (
        (one.content.strip(), one.reasoning.strip()) for one in (here, there)
    )
    if thinking != their_thinking:
        yield SPLIT.id, _split_differs(content, thinking, their_content, their_thinking)
    elif content != their_content:
        yield (CALLS.id, "text beside calls") if here.calls else (SPLIT.id, "split otherwise")


def _calls_differ(here: Parsed, there: Parsed) -> str:
    if here.calls and there.calls:
        return "calls otherwise"
    if there.calls:
        return "calls appear"
    content, before = there.content.strip(), here.content.strip()
    if content and content != before:
        return "calls as text"
    return "calls lost" if content or there.reasoning.strip() else "calls lost with text"


def _split_differs(content: str, thinking: str, their_content: str, their_thinking: str) -> str:
    if thinking and not their_thinking:
        return "thinking leaks"
    if content and not their_content:
        return "answer vanishes"
    return "thinking appears" if their_thinking and not thinking else "split otherwise"


def _told(case: Case, difference: _Difference, several: Sequence[OutputAnswer]) -> Hit:
    chosen = difference.chosen
    fate = _FATES[difference.what]
    kind = next(one for one in CHECK.kinds if one.id == difference.kind)
    titles = {"source": case.source.title, "target": case.target.title}
    agreeing = _agreeing(several) if kind is CALLS else ()
    rows = Rows.union(one.rows for one in several)
    return hit(
        kind,
        "translated" if agreeing else fate.outcome,
        fate.severity,
        features=_features(case, rows),
        rows=rows,
        seen=f"{plural(len(several), 'distinct output')} of {_family(chosen)}: {fate.seen.format(**titles)} "
        f"({chosen.source.said()} on {case.source.title}, {chosen.target.said()} on {case.target.title}).",
        fix=_start_with(case.target, agreeing) if agreeing else _switch_fix(difference) or fate.fix or kind.mend,
        sources=_sources(case, chosen) if TABLE in difference.by else (),
        by=difference.by,
        caveats=tuple(_caveats(case, difference)),
    )


def _agreeing(several: Sequence[OutputAnswer]) -> tuple[str, ...]:
    """The target's other parsers for tool calls that make of all these outputs what the source makes of them."""
    agreeing = []
    for name in several[0].others:
        told = [(one.source.parsed, one.others[name].parsed) for one in several]
        if all(here and there and not list(_differences(here, there)) for here, there in told):
            agreeing.append(name)
    return tuple(agreeing)


def _start_with(target: Surface, names: Sequence[str]) -> str:
    flag = target.flags.get("tool_parser")
    option = flag.names[0] if flag and flag.names else "its tool parser"
    return f"Start {target.title} with {option} {' or '.join(names)}, which agrees on these outputs."


def _switch_fix(difference: _Difference) -> str:
    return (
        "Requests switch thinking on or off by chat_template_kwargs: strip the marks in the client, or do not switch."
        if difference.switched
        else ""
    )


def _missing(case: Case, several: Mapping[Chosen, Rows]) -> Iterator[Hit]:
    """Families of which the target says that it has no parser, where the traffic needs one."""
    tools = case.uses.rows("tools", "chat", "responses")
    thoughts = Rows.union(case.uses.rows(f"message.{name}", "answer") for name in ("reasoning", "reasoning_content"))
    for chosen, requests in several.items():
        for what, here, there, needing in (
            ("tool calls", chosen.source.tool, chosen.target.tool, tools),
            ("thinking", chosen.source.reasoning, chosen.target.reasoning, thoughts),
        ):
            rows = requests.both(needing)
            if here and not there and rows:
                yield hit(
                    MISSING,
                    "lost",
                    "error",
                    features=_offered(case, rows) if what == "tool calls" else _features(case, rows),
                    rows=rows,
                    seen=f"{case.target.title} has no parser for the {what} of {_family(chosen)} "
                    f"(`{here}` on {case.source.title}): they stay in content as text.",
                    fix=MISSING.mend,
                    sources=[case.target.source_of(case.target.parsers[chosen.family])],
                    caveats=tuple(_assumed(chosen)),
                )


def _offered(case: Case, rows: Rows) -> tuple[str, ...]:
    """The features by which these requests offer tools."""
    uses = case.uses.of("tools", "chat", "responses")
    return tuple(sorted({use.feature for use, found in uses.items() if len(rows.both(found))}))


def _features(case: Case, rows: Rows) -> tuple[str, ...]:
    """What the answers on these lines have that parsers made, or would have."""
    names = [f"message.{name}" for name in ("tool_calls", "reasoning", "reasoning_content", "raw")]
    return tuple(f"answer.{name}" for name in names if len(rows.both(case.uses.rows(name, "answer"))))


def _family(chosen: Chosen) -> str:
    return FAMILIES.get(chosen.family, chosen.family)


def _by(here: Told, there: Told) -> str:
    return "; ".join(dict.fromkeys((here.by, there.by)))


def _sources(case: Case, chosen: Chosen) -> tuple[Source, ...]:
    return tuple(dict.fromkeys((*sources(case.source, chosen.source), *sources(case.target, chosen.target))))


def _caveats(case: Case, difference: _Difference) -> Iterator[Caveat]:
    if difference.rebuilt:
        text = "The log holds answers after their parsers; the outputs were written again from them, without oddities."
        yield Caveat(code="output_rebuilt", text=text)
    toy = case.outputs.toy if case.outputs else ()
    if toy and difference.by != TABLE:
        text = f"The parsers of {' and '.join(toy)} had a toy tokenizer behind them, and not the model's own."
        yield Caveat(code="toy_tokenizer", text=text)
    yield from _assumed(difference.chosen)


def _assumed(chosen: Chosen) -> Iterator[Caveat]:
    if chosen.said_by in {"log", "marks"}:
        how = "its name in the log" if chosen.said_by == "log" else "marks in its outputs"
        more = f" It may also be: {', '.join(chosen.plausible)}." if len(chosen.plausible) > 1 else ""
        text = f"The model's family, and so the parsers, are told by {how} alone.{more} --start FILE says them."
        yield Caveat(code="parser_assumed", text=text)


CHECK = Check(kinds=(CALLS, SPLIT, MISSING), look=_look)
