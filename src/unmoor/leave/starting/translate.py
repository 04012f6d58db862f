"""Each option of the source's start in the target's words: as it is, spelled otherwise, by hand, or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from unmoor.engines.surface.surface import Flag, Surface
from unmoor.leave.case import Case
from unmoor.leave.finding import Outcome
from unmoor.leave.launch_flags import LaunchFlags
from unmoor.leave.starting import priorities
from unmoor.leave.starting.memory_shares import GIB, rule
from unmoor.leave.starting.options import OFF, ON
from unmoor.leave.starting.parser_names import ParserKind, same_family
from unmoor.leave.starting.secrets import SECRET

_APART = frozenset(("model", "config_file"))
"""Told by the start command itself."""

TUNING = frozenset(
    (
        *(
            "log_requests",
            "load_format",
            "max_logprobs",
            "threads",
            "seed",
            "revision",
            "tokenizer",
            "attention_backend",
        ),
        *("cuda_graph_max", "device", "eager", "telemetry", "kv_block_tokens", "host_kv", "kv_bytes", "pp", "dp", "ep"),
        *("lora_max_rank", "lora_max_active", "lora_max_loaded", "trust_remote_code"),
    )
)
"""Options of how it runs, not of what clients or operators get: nobody loses what they did on the other side."""

_PARSERS: Mapping[str, ParserKind] = {"tool_parser": "tool", "reasoning_parser": "reasoning"}
_BYTES: Mapping[str, int] = {"GiB": GIB, "GB": 10**9, "MiB": 2**20, "bytes": 1}
_TIMES: Mapping[str, int] = {"k": 1000, "K": 1024, "m": 10**6, "M": 2**20}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKmM])")
_FILE = re.compile(r"[/\\]|\.(?:jinja2?|txt|json)$")


@dataclass(frozen=True, slots=True)
class Translated:
    """One option on the other side.

    `spelled` and `value` are the source's; `words` those of the target's command line, `keys` those of its
    configuration file, both empty where nothing is to be passed, or nothing can be. `rule` says how. `by_hand`:
    somebody has to choose the value. `partial`: not all of the value goes over.
    """

    concept: str
    spelled: str
    value: str
    outcome: Outcome
    rule: str
    words: tuple[str, ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    by_hand: bool = False
    partial: bool = False

    @property
    def shown(self) -> str:
        """The option as it was given."""
        separator = " " if self.spelled.startswith("-") else ": "
        return f"{self.spelled}{separator}{self.value}" if self.value not in {"", ON, OFF} else self.spelled

    @property
    def there(self) -> str:
        """The target's words, for a sentence; empty where there are none."""
        return " ".join(self.words) or "; ".join(f"{key}: {value}" for key, value in self.keys)


def translate(case: Case) -> tuple[Translated, ...]:
    """Every option of the source's start that the surfaces have a word for, in the order in which it was given."""
    flags = case.flags
    if flags is None:
        return ()
    return tuple(_each(case, flags))


def _each(case: Case, flags: LaunchFlags) -> Iterator[Translated]:
    for concept, value in flags.concepts.items():
        if concept in _APART or (concept == "max_batch_tokens" and value == "-1"):
            continue
        there = case.target.flags.get(concept)
        if there is None:
            continue
        spelled = flags.spelled[concept]
        here = case.source.flags[concept]
        if case.source.engine == case.target.engine and spelled in there.names:
            yield _as_it_is(concept, spelled, value, there)
        elif concept == "priority_order" and value == ON:
            continue  # told with what switches priorities on
        elif priorities.switched_on(concept, value, spelled, case.source):
            yield _priorities(case, flags, spelled, value)
        elif concept in _PARSERS:
            yield _parser(case, concept, spelled, value)
        elif concept == "memory_fraction":
            yield _memory(case, flags, spelled, value)
        else:
            one = _Pair(concept, spelled, _meant(here, spelled, value), here, there)
            yield _option(one, case, flags)


def _as_it_is(concept: str, spelled: str, value: str, there: Flag) -> Translated:
    """An option that another version of the same engine still has."""
    said = "" if value in {ON, OFF} and there.switch else f"${concept.upper()}" if value == SECRET else value
    if not spelled.startswith("-"):
        shown = {ON: "true", OFF: "false"}.get(value, value)
        return Translated(concept, spelled, value, "same", "", keys=((spelled, shown),))
    words = said.split() if there.several == "words" else [said] if said else []
    return Translated(concept, spelled, value, "same", "", words=(spelled, *words))


@dataclass(frozen=True, slots=True)
class _Pair:
    """One concept on both sides, with the value given."""

    concept: str
    spelled: str
    value: str
    here: Flag
    there: Flag

    def told(self, outcome: Outcome, rule: str, *, by_hand: bool = False) -> Translated:
        """With nothing to pass."""
        return Translated(self.concept, self.spelled, self.value, outcome, rule, by_hand=by_hand)

    def passed(self, value: str, rule: str = "", *, name: str = "") -> Translated:
        """With the target's option and `value`."""
        name = name or (self.spelled if self.spelled in self.there.names else self.there.names[0])
        same = name == self.spelled and self.value in {value, SECRET}
        outcome: Outcome = "same" if same else "translated"
        if self.there.in_file and not name.startswith("-"):
            keys = ((name, value),)
            return Translated(self.concept, self.spelled, self.value, outcome, rule, keys=keys)
        words = (name, *(value.split() if self.there.several == "words" else [value])) if value else (name,)
        return Translated(self.concept, self.spelled, self.value, outcome, rule, words=words)


def _meant(here: Flag, spelled: str, value: str) -> str:
    """ON or OFF where the source says so with a whole word of its own; else the value."""
    said = {f"{spelled} {value}", f"{spelled}: {value}"}
    if value in {ON, OFF}:
        return value
    if here.on:
        return ON if any(one in here.on for one in said) else OFF
    if here.off:
        return OFF if any(one in here.off for one in said) else ON
    return value


def _option(one: _Pair, case: Case, flags: LaunchFlags) -> Translated:  # noqa: PLR0911 - one return for each way to say it
    there = one.there
    if not there.names:
        return _without_name(one)
    if one.value in {ON, OFF} and not one.there.by_hand:
        return _switched(one)
    if (one.value == OFF and not _is_on(there)) or (one.value == one.here.default == there.default):
        return one.told("same", "So there without being told.")
    if one.here.by_hand or there.by_hand:
        return one.told("translated", f"By hand: {_names(there)}{_kind(there)}{_note(there)}.", by_hand=True)
    if one.concept == "max_running" and _per_slot(case.target) and not _per_slot(case.source):
        rule = f"By hand: {there.names[0]} divides the context among so many slots: choose the two together."
        return one.told("translated", rule, by_hand=True)
    if one.concept == "context_tokens":
        return _context(one, case, flags)
    return _valued(one, case.target)


def _without_name(one: _Pair) -> Translated:
    """An option that the target has none for."""
    there = one.there
    if one.value == ON and there.default == ON:
        return one.told("same", f"Always so there{_note(there)}.")
    if one.value in {OFF, "auto"} or one.value == one.here.default:
        return one.told("same", f"Nothing to pass there{_note(there)}.")
    if there.elsewhere:
        return one.told("translated", f"No option there: {there.note}.", by_hand=True)
    if one.concept in TUNING:
        return one.told("translated", f"Nothing of the kind there{_note(there)}.", by_hand=True)
    return one.told("lost", f"No such thing there{_note(there)}.")


def _switched(one: _Pair) -> Translated:
    """On or off, by whatever the target has for it."""
    there = one.there
    if (one.value == ON) == _is_on(there):
        return one.told("same", "So without being told there.")
    whole = there.on if one.value == ON else there.off
    if whole:
        key, colon, value = whole.partition(": ")
        if colon:
            return Translated(one.concept, one.spelled, one.value, "translated", "", keys=((key, value),))
        return Translated(one.concept, one.spelled, one.value, "translated", "", words=tuple(whole.split()))
    if there.kind == "true or false":
        return one.passed("true" if one.value == ON else "false", _note(there))
    for name in sorted(there.names, key=lambda name: name != one.spelled) if there.switch else ():
        if name.startswith("--") and name.startswith(("--no-", "--disable-")) == (one.value == OFF):
            outcome: Outcome = "same" if name == one.spelled else "translated"
            return Translated(one.concept, one.spelled, one.value, outcome, "", words=(name,))
    return one.told("translated", f"By hand: {_names(there)}{_kind(there)}{_note(there)}.", by_hand=True)


def _context(one: _Pair, case: Case, flags: LaunchFlags) -> Translated:
    """The context of one request; where slots share it, that of all of them."""
    tokens = _number(one.value)
    here, there = (_per_slot(side) for side in (case.source, case.target))
    slots = _number(flags.concepts.get("max_running", ""))
    if tokens is None or here == there:
        return one.passed(one.value if tokens is None else _plain(tokens))
    if slots is None or slots < 1:
        return one.passed(_plain(tokens), "Of one request on one side, of all slots together on the other.")
    if there:
        return one.told("translated", f"By hand: {_shared(one, tokens, slots)}", by_hand=True)
    return one.passed(_plain(tokens // slots), f"{slots:g} slots share it today; there it is that of one request.")


def _shared(one: _Pair, tokens: float, slots: float) -> str:
    """Limits of one side, of which the other makes a reservation: memory for all of it is taken at the start."""
    return (
        f"{one.there.names[0]} is a reservation that slots share, and memory for all of it is taken at the start; "
        f"today {tokens:,.0f} tokens of a request and {slots:g} requests at a time are limits. {slots:g} slots of so "
        f"many would be {tokens * slots:,.0f} tokens of keys and values: choose how many requests run at a time, "
        "and how many tokens each needs, and pass their product."
    )


def _per_slot(side: Surface) -> bool:
    trait = side.traits.get("context_per_slot")
    return trait is not None and trait.value == "yes"


def _valued(one: _Pair, target: Surface) -> Translated:
    there = one.there
    if one.value == SECRET:
        return one.passed(f"${one.concept.upper()}")
    value, rule = one.value, _difference(one)
    if one.here.words and there.words:
        shared = one.here.words.get(value)
        own = next((word for word, meaning in there.words.items() if meaning == shared), None)
        if own is None:
            takes = f"it takes {', '.join(there.words)}"
            is_default = value in {one.here.default, "auto"}
            return one.told("same" if is_default else "lost", f"No such value there: {takes}{_note(there)}.")
        return one.passed(own)
    if one.here.unit and there.unit:
        size = _number(value)
        value = value if size is None else f"{size * _BYTES[one.here.unit] / _BYTES[there.unit]:.0f}"
    elif (number := _number(value)) is not None and _SIZE.fullmatch(value):
        value = _plain(number)
    partial = False
    if one.here.several:
        value, left = _several(value, one.here, there)
        rule, partial = (f"One alone there: {left} is left out.", True) if left else (rule, False)
    name = next((name for name in there.names if name.endswith("-file") and _FILE.search(one.value)), "")
    return replace(_fitting(one, target, value, rule, name), partial=partial)


def _fitting(one: _Pair, target: Surface, value: str, rule: str, name: str) -> Translated:
    """With a value that the target's own parser takes, else what it takes."""
    there = one.there
    if re.fullmatch(r"\d+(?:, \d+)+", there.kind) and value.isdigit():
        steps = [int(step) for step in there.kind.split(", ")]
        above = next((step for step in steps if step >= int(value)), None)
        if above is None:
            return one.told("lost", f"At most {steps[-1]} there.")
        if above != int(value):
            return one.passed(str(above), f"It takes {there.kind} there.", name=name)
    elif (listed := _choices(target, there.names[0])) and value not in listed:
        return one.told("lost", f"`{value}` is no value of {there.names[0]} there: {', '.join(listed[:12])}.")
    return one.passed(value, rule, name=name)


def _choices(target: Surface, name: str) -> tuple[str, ...]:
    """The values that the target's parser lists; none where it takes any."""
    return next((option.choices or () for option in target.options.values() if name in option.flags), ())


def _several(value: str, here: Flag, there: Flag) -> tuple[str, str]:
    """The values as the target takes them, and those that it does not."""
    parts = value.split(",") if here.several == "commas" else value.split()
    if there.several:
        return (" " if there.several == "words" else ",").join(parts), ""
    return parts[0] if parts else value, ", ".join(parts[1:])


def _parser(case: Case, concept: str, spelled: str, value: str) -> Translated:
    """A parser, by the family of models that it is for."""
    target = case.target
    there = target.flags[concept]
    pair = _Pair(concept, spelled, value, case.source.flags[concept], there)
    found = same_family(value, _PARSERS[concept], case.source, target)
    what = "tool calls" if concept == "tool_parser" else "thinking"
    if not there.names and there.elsewhere:
        return pair.told("translated", f"No option there: {there.note}.", by_hand=True)
    if value in {"auto", ""} or not (found.families and found.known):
        takes = f"{_names(there)}{_note(there)}" if there.names else "nothing by name"
        return pair.told("translated", f"By hand: {target.title} has {takes}; `{value}` is in no table.", by_hand=True)
    family = " or ".join(found.families)
    if not found.names:
        return pair.told("lost", f"No parser for the {what} of {family} there.")
    if there.by_hand or " " in found.names[0]:
        return pair.told("same", f"Found by itself there ({family}).")
    others = f", or {', '.join(found.names[1:])}" if found.names[1:] else ""
    return pair.passed(found.names[0], f"`{found.names[0]}`{others}, for {family}.")


def _priorities(case: Case, flags: LaunchFlags, spelled: str, value: str) -> Translated:
    """Priorities, in the same direction where the target can turn them round."""
    target = case.target
    pair = _Pair("scheduling", spelled, value, case.source.flags["scheduling"], target.flags["scheduling"])
    found = priorities.at_the_target(flags.concepts, case.source, target)
    if found is None:
        return pair.told(
            "translated", f"By hand: {_names(pair.there)}{_kind(pair.there)}{_note(pair.there)}.", by_hand=True
        )
    if found.absent:
        return pair.told("lost", "There are no priorities there: requests go in the order of arrival.")
    rule = "Numbers go the other way there: clients have to turn theirs round." if found.turned else ""
    keys = (found.key,) if found.key else ()
    return Translated("scheduling", spelled, value, "translated", rule, found.words, keys, partial=found.turned)


def _memory(case: Case, flags: LaunchFlags, spelled: str, value: str) -> Translated:
    """A share of memory: copied only where both sides take it of the same whole."""
    there = case.target.flags["memory_fraction"]
    pair = _Pair("memory_fraction", spelled, value, case.source.flags["memory_fraction"], there)
    of, to = (_whole(side) for side in (case.source, case.target))
    share = _number(value)
    if of == to and there.names:
        return pair.passed(value)
    how = rule(share, of, to, weight_gib=_weights(case, flags)) if share is not None else ""
    if not there.names:
        return pair.told(
            "translated", f"No share of memory there: {there.note or 'it has no such option'}.", by_hand=True
        )
    return pair.told("translated", f"{how or 'Of another whole there.'} Pass it as {there.names[0]}.", by_hand=True)


def _whole(side: Surface) -> str:
    trait = side.traits.get("memory_fraction_of")
    return str(trait.value) if trait is not None else ""


def _weights(case: Case, flags: LaunchFlags) -> float | None:
    """What the weights take on one device, GiB; None where the model was not brought."""
    if case.model is None or not case.model.weight_bytes:
        return None
    devices = (_number(flags.concepts.get("tp", "")) or 1) * (_number(flags.concepts.get("pp", "")) or 1)
    return case.model.weight_bytes / GIB / max(devices, 1)


def _number(value: str) -> float | None:
    sized = _SIZE.fullmatch(value)
    try:
        return float(sized[1]) * _TIMES[sized[2]] if sized else float(value)
    except (ValueError, OverflowError):
        return None


def _plain(number: float) -> str:
    """Without an exponent; without a fraction where there is none."""
    return f"{number:.0f}" if number.is_integer() else str(number)


def _is_on(flag: Flag) -> bool:
    """Whether it is on without being told."""
    return flag.default in {ON, "true"} or flag.default.endswith(" are on")


def _difference(one: _Pair) -> str:
    """How the two are to be understood, where that differs."""
    kinds = (one.here.kind, one.there.kind)
    if "switch" in kinds or kinds[0] == kinds[1] or not one.there.kind:
        return ""
    today = f" (today: {kinds[0]})" if kinds[0] else ""
    return f"There: {kinds[1]}{today}."


def _names(flag: Flag) -> str:
    return ", ".join(flag.names)


def _kind(flag: Flag) -> str:
    return f" ({flag.kind})" if flag.kind and flag.kind != "switch" else ""


def _note(flag: Flag) -> str:
    return f" ({flag.note})" if flag.note else ""
