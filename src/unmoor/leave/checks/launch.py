"""How the engine is started: options by another name or none, shares of other wholes, other defaults, other parsers."""

from __future__ import annotations

from collections.abc import Iterator

from unmoor.engines.surface.surface import Source, Statement, Surface
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.checks import priority
from unmoor.leave.finding import Kind, Severity, threads
from unmoor.leave.launch_flags import LaunchFlags
from unmoor.leave.start_command import Default, differing_defaults, kept, without_concept
from unmoor.leave.starting.options import ON
from unmoor.leave.starting.translate import TUNING, Translated, translate

UNFAIR = Kind(
    id="UM126",
    name="unfair-settings",
    title="A setting that makes figures of the two sides unequal",
    bites="Engines were compared with one of them in eager mode, with less memory, or with keys and values of another "
    "type. Such a figure says nothing of the engines.",
    look="The start is looked through for settings that cost speed or quality on one side alone.",
    mend="Give both sides the same, or take it away from both, before any figure is compared.",
    threads=threads("EleutherAI/lm-evaluation-harness PR#2703", "huggingface/lighteval PR#552"),
)
RENAMED = Kind(
    id="UM141",
    name="flag-renamed",
    title="An option that is spelled otherwise on the other engine",
    bites="An option under the old name does not parse, or, worse, is another option there.",
    look="The concept behind each option of the start is looked up among the target's.",
    mend="Pass the target's option with the value converted; the suggested start command has it.",
)
LOST = Kind(
    id="UM142",
    name="flag-lost",
    title="An option that the other engine has nothing for",
    bites="What the option did is gone after the move, or has to be done outside the engine.",
    look="The concept behind each option of the start is looked up among the target's, and its value among those that "
    "the target takes.",
    mend="Do without it, or do it outside the engine, and know it before the move.",
)
MEMORY = Kind(
    id="UM143",
    name="memory-fraction-differs",
    title="A share of memory that is taken of another whole",
    bites="Three engines take their memory share of three different quantities: of the total, of weights and cache, of "
    "what is free after the weights. Copying the number starves the cache, or the server ends for want of memory.",
    look="The start's share, and of what each side takes it.",
    mend="Convert through bytes, as the finding says, and look at the size of the cache in the target's log.",
)
GONE = Kind(
    id="UM144",
    name="flag-gone",
    title="An option that this version does not take",
    bites="Engines drop and rename options between releases, and an abbreviation that was clear becomes ambiguous with "
    "the next option: the server then does not start.",
    look="Each option is looked up in the engine's own parser at that version.",
    mend="Write whole, current names; the finding says which.",
)
DEFAULT = Kind(
    id="UM145",
    name="default-differs",
    title="A default that matters, left out of the start, and not the same on the other side",
    bites="The same start listens elsewhere, serves no metrics, reports no cached tokens, or samples otherwise: nobody "
    "ever had to say what is the default.",
    look="Of the defaults that differ, those that the start leaves out.",
    mend="Pass them explicitly.",
    threads=threads("noonghunna/club-3090#1297", "gpustack/gpustack#5189"),
)
PARSER = Kind(
    id="UM146",
    name="parser-name",
    title="A parser for tool calls or thinking that has another name, or none",
    bites="With the wrong parser, tool calls stay in the text and thinking leaks into answers. The name differs from "
    "engine to engine for the same family of models.",
    look="The family of models that the parser is for is looked up among the target's parsers.",
    mend="Pass the target's name; without one, parse the text outside the engine.",
    threads=threads("sgl-project/sglang#26790"),
)

_BREAKS = frozenset(("api_key", "lora", "lora_modules", "chat_template", "tool_parser", "served_name"))
_PARSERS = frozenset(("tool_parser", "reasoning_parser"))
_KEPT: dict[str, str] = {
    "host": "Without being told it listens on {here} today, and on {there} there: who reaches it changes.",
    "port": "Without being told it listens on port {here} today; its port there: {there}.",
    "metrics": "Metrics are served today without being asked for, and are not there.",
    "chunked_prefill": "Long prompts are computed in pieces today, and whole there: they hold up running answers.",
    "prefix_caching": "Computed prefixes are kept today, and not there.",
    "cached_tokens": "The usage tells cached tokens today, and does not there: billing and dashboards read none.",
    "max_running": "How many requests run at a time without being told: {here} today, {there} there.",
    "telemetry": "It reports its use to its project there, and does not today.",
    "model_sampling_defaults": "Sampling values that a request leaves out are {here} today (model: those of the "
    "model's generation_config.json; neutral: none), and {there} there.",
}
_NOTABLE = 0.05
"""A share of memory that is less than the default by so much is worth a word."""
_NOTES = frozenset(("telemetry", "prefix_caching", "max_running"))


def _look(case: Case) -> Iterator[Hit]:
    flags = case.flags
    if flags is None:
        case.skipped("how the engine is started: --start names a file with its command line")
        return
    yield from _does_not_parse(case, flags)
    if case.stays:
        return
    for one in translate(case):
        if not _is_told_elsewhere(case, one):
            yield from _translated(case, one)
    if case.source.engine != case.target.engine:
        yield from _unfair(case, flags)
    for default in differing_defaults(case):
        yield _default(case, default)
    _not_looked_at(case, flags)


def _is_told_elsewhere(case: Case, one: Translated) -> bool:
    """Priorities with the requests that carry them; the type of keys and values with what makes figures unequal."""
    if one.concept in {"scheduling", "priority_order"}:
        return priority.tells(case)
    return one.concept == "kv_dtype" and one.outcome == "translated" and not one.by_hand and sets_kv_type(case)


def sets_kv_type(case: Case) -> bool:
    """Whether the start gives keys and values a type of their own, and the move is to another engine."""
    here = case.source.flags.get("kv_dtype")
    if case.flags is None or here is None or case.source.engine == case.target.engine:
        return False
    return case.flags.concepts.get("kv_dtype", "auto") not in {"auto", here.default}


def _does_not_parse(case: Case, flags: LaunchFlags) -> Iterator[Hit]:
    """Options that the source at this version does not take, or not safely."""
    source = case.source
    for name in flags.gone:
        yield _gone(
            case, source, name, f"{source.title} {source.version} does not take {name}.", _instead(source, name)
        )
    for name, many in flags.prefixes.items():
        if len(many) == 1:
            seen = f"{name} is taken as an abbreviation of {many[0]}, until another option begins so."
            yield _gone(case, source, name, seen, f"Write {many[0]}.", severity="warning")
        else:
            seen = f"{name} may be {', '.join(many[:4])}{' or others' if len(many) > 4 else ''}: the parser ends there."  # noqa: PLR2004 - so many are told
            yield _gone(case, source, name, seen, "Write the whole name.")
    for name in flags.unknown if source.options else ():
        seen = f"{source.title} {source.version} has no option {name}."
        yield _gone(
            case, source, name, seen, "Is it another version that is started so? Name it: --from ENGINE@VERSION."
        )
    if source.engine == case.target.engine and not case.stays:
        for name in flags.given:
            if name in case.target.gone_flags and name not in flags.gone:
                seen = f"{case.target.title} {case.target.version} does not take {name} any more."
                yield _gone(case, case.target, name, seen, _instead(case.target, name))


def _instead(side: Surface, name: str) -> str:
    text = side.gone_flags[name]
    return f"Use {text}." if text.startswith("--") else f"{text[:1].upper()}{text[1:]}."


def _gone(case: Case, side: Surface, name: str, seen: str, fix: str, *, severity: Severity = "error") -> Hit:
    sources = [source for key, source in side.sources.items() if key == "options"]
    return hit(
        GONE,
        "translated",
        severity,
        features=[f"flag {name}"],
        seen=seen + _placed(case, name),
        fix=fix,
        sources=sources,
    )


def _placed(case: Case, name: str) -> str:
    line = case.flags.lines.get(name) if case.flags is not None else None
    return f" It stands on line {line} of the start." if line else ""


def _translated(case: Case, one: Translated) -> Iterator[Hit]:
    target = case.target
    if one.outcome == "same":
        return
    kind = PARSER if one.concept in _PARSERS else MEMORY if one.concept == "memory_fraction" else RENAMED
    if one.outcome == "lost":
        kind = PARSER if kind is PARSER else LOST
        seen = f"{target.title} {target.version} has nothing for `{one.shown}`."
        yield _told(case, kind, one, seen, f"{one.rule} Do without it, or do it outside the engine.")
    elif one.by_hand:
        yield _told(case, kind, one, f"`{one.shown}` is not to be copied to {target.title}.", one.rule)
    else:
        seen = f"`{one.shown}` is `{one.there}` on {target.title}."
        yield _told(case, kind, one, seen, f"Pass `{one.there}`.{f' {one.rule}' if one.rule else ''}")


def _told(case: Case, kind: Kind, one: Translated, seen: str, fix: str) -> Hit:
    severity: Severity = "warning"
    if one.concept in TUNING or (one.outcome == "translated" and not one.by_hand and not one.partial):
        severity = "note"
    if one.outcome == "lost" and (one.concept in _BREAKS or kind is PARSER):
        severity = "error"
    if kind is PARSER and one.outcome == "translated":
        severity = "warning"
    return hit(
        kind,
        one.outcome,
        severity,
        features=[f"flag {one.spelled}"],
        seen=seen + _placed(case, one.spelled),
        fix=fix,
        sources=_sources(case.target, case.target.flags.get(one.concept)),
    )


def _unfair(case: Case, flags: LaunchFlags) -> Iterator[Hit]:
    """Settings that cost the source speed or quality, and that the target would not have by itself."""
    given = flags.concepts
    eager = case.source.flags.get("eager")
    if "eager" in given and (given["eager"] == ON or (eager is not None and given["eager"] in eager.on.split())):
        yield _unequal(case, flags, "eager", "This start runs without CUDA graphs and compilation, which costs speed.")
    fraction = case.source.flags.get("memory_fraction")
    if fraction is not None and _below(given.get("memory_fraction", ""), fraction.default):
        seen = (
            f"This start takes {given['memory_fraction']} of the memory, less than the default of {fraction.default}."
        )
        yield _unequal(case, flags, "memory_fraction", seen)
    if sets_kv_type(case):
        there = next((one.there for one in translate(case) if one.concept == "kv_dtype" and one.there), "")
        seen = f"This start keeps keys and values as {given['kv_dtype']}"
        seen += f" (there: `{there}`)" if there else ""
        seen += ": more fit, and answers may differ."
        yield _unequal(case, flags, "kv_dtype", seen)


def _below(value: str, default: str) -> bool:
    try:
        return float(value) <= float(default) - _NOTABLE
    except ValueError:
        return False


def _unequal(case: Case, flags: LaunchFlags, concept: str, seen: str) -> Hit:
    return hit(
        UNFAIR,
        "translated",
        "warning",
        features=[f"flag {flags.spelled[concept]}"],
        seen=f"{seen} {case.target.title} does not unless it is told to.",
        fix="Give both sides the same, or neither, before any figure of the two is compared.",
        sources=_sources(case.source, case.source.flags.get(concept)),
    )


def _default(case: Case, one: Default) -> Hit:
    environment = dict(one.keys).get("environment")
    passed = f"Set {environment} in the environment." if environment else f"Pass `{one.passed}`."
    if not one.passed:
        passed = f"Pass {case.target.flags[one.concept].names[0]} with a number that you have chosen."
    return hit(
        DEFAULT,
        "translated",
        "note" if one.concept in _NOTES else "warning",
        features=[f"flag {one.concept} (left out)"],
        seen=_KEPT[one.concept].format(here=_spoken(one.here), there=_spoken(one.there)),
        fix=passed if not one.passed else f"{passed} It keeps what is the default today.",
        sources=_sources(case.target, case.target.flags.get(one.concept), case.target.traits.get(one.concept)),
    )


def _spoken(value: str) -> str:
    return "every address" if value == "all" else value


def _not_looked_at(case: Case, flags: LaunchFlags) -> None:
    stays = kept(case)
    alone = [name for name in without_concept(flags) if name not in stays and name not in flags.unknown]
    if alone:
        case.skipped(f"options of the start that no table compares: {', '.join(alone)}")
    if flags.unknown and not case.source.options:
        case.skipped(
            f"options of the start that the table of {case.source.title} does not have: {', '.join(flags.unknown)}"
        )
    for concept, name in flags.spelled.items():
        if concept not in case.target.flags:
            case.skipped(f"{name} on {case.target.title}: its surface says nothing of it")
    for text in flags.unread:
        case.skipped(text)


def _sources(side: Surface, *statements: Statement | None) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(side.source_of(one) for one in statements if one is not None))


CHECK = Check(kinds=(UNFAIR, RENAMED, LOST, MEMORY, GONE, DEFAULT, PARSER), look=_look)
