"""The command that would start the target engine as the source is started today."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from unmoor.engines.surface.surface import Flag, Surface
from unmoor.leave.case import Case
from unmoor.leave.finding import Finding
from unmoor.leave.launch_flags import LaunchFlags
from unmoor.leave.starting.needs import Need, needs
from unmoor.leave.starting.options import ON
from unmoor.leave.starting.translate import Translated, translate

CONFIG_FILE = "extra.yaml"


@dataclass(frozen=True, slots=True)
class StartCommand:
    """The words of the command, the text of the configuration file that it names, and what is left to do by hand."""

    words: tuple[str, ...] = ()
    config: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Default:
    """A default of the target that differs from the source's, which the start leaves out, and what keeps today's."""

    concept: str
    here: str
    there: str
    words: tuple[str, ...]
    keys: tuple[tuple[str, str], ...] = ()

    @property
    def passed(self) -> str:
        """What to pass, for a sentence."""
        return " ".join(self.words) or "; ".join(f"{key}: {value}" for key, value in self.keys)


@dataclass(slots=True)
class _Asked:
    """What findings ask the start for, beyond what it says already, and by which kinds of findings."""

    given: dict[Need, list[str]] = field(default_factory=dict)
    left_open: dict[Need, list[str]] = field(default_factory=dict)

    def notes(self) -> Iterator[str]:
        if self.given:
            each = (f"{one.said} ({', '.join(kinds)})" for one, kinds in self.given.items())
            yield f"added because findings ask for it: {', '.join(each)}"
        for one, kinds in self.left_open.items():
            yield f"{one.name}: asked for by {', '.join(kinds)}, with a value that you have to name"


def start_command(case: Case, findings: Sequence[Finding] = ()) -> StartCommand:
    """The target's command; empty where the source's start was not brought, or how the target starts is not known.

    It carries what `findings` need it to be started with. What has no straight translation is left out of it and told
    in `notes`. Secrets are names of variables in it.
    """
    flags, start = case.flags, case.target.start
    if flags is None or start is None:
        return StartCommand()
    told = translate(case)
    words = [*start.command.split(), *_model(flags, case.target)]
    keys: dict[str, str] = {}
    for one in told:
        words += one.words
        keys.update(one.keys)
    words += [word for name in kept(case) for word in _as_given(flags, name)]
    for default in differing_defaults(case):
        words += default.words
        keys.update(default.keys)
    asked = _asked(case.target, findings, words, keys)
    environment = [f"{name}={value}" for need in asked.given if need.variable for name, value in (need.variable,)]
    for need in asked.given:
        words += need.words
        keys.update((need.key,) if need.key else ())
    config = _yaml(keys)
    if config:
        words += [_first(case.target.flags.get("config_file"), "--config"), CONFIG_FILE]
    if environment:
        words = ["env", *environment, *words]
    return StartCommand(tuple(words), config, (*_notes(flags, told, case), *asked.notes()))


def _asked(target: Surface, findings: Sequence[Finding], words: Sequence[str], keys: Mapping[str, str]) -> _Asked:
    asked = _Asked()
    for finding in findings:
        for one in (one for text in finding.needs for one in needs(target, text)):
            if not _is_said(target, one, words, keys):
                kinds = (asked.left_open if one.is_open else asked.given).setdefault(one, [])
                if finding.kind not in kinds:
                    kinds.append(finding.kind)
    return asked


def _is_said(target: Surface, need: Need, words: Sequence[str], keys: Mapping[str, str]) -> bool:
    """Whether the start has it already, by this name or by another of the same option."""
    names = {name for flag in target.flags.values() if need.name in flag.names for name in flag.names} | {need.name}
    return any(word in names for word in words) or any(key.partition(".")[0] in names or key in names for key in keys)


def differing_defaults(case: Case) -> tuple[Default, ...]:
    """Defaults that matter, are not the same on both sides, and are left out of the source's start."""
    return tuple(_defaults(case)) if case.flags is not None else ()


def _defaults(case: Case) -> Iterator[Default]:
    source, target = case.source, case.target
    given = case.flags.concepts if case.flags is not None else {}
    if "host" not in given:
        yield from _address(source, target)
    if "port" not in given:
        yield from _trait_default(source, target, "port", "default_port")
    for concept in ("metrics", "chunked_prefill", "prefix_caching"):
        here, there = source.flags.get(concept), target.flags.get(concept)
        if concept not in given and here is not None and there is not None and _is_on(here) and _is_off(there):
            yield from _switch_on(concept, there)
    if "max_running" not in given:
        yield from _at_a_time(source, target)
    if "cached_tokens" not in given:
        yield from _reported(source, target, "cached_tokens", wanted={"always"}, missing={"needs_flag"})
    if "telemetry" not in given:
        yield from _telemetry(source, target)
    if "model_sampling_defaults" not in given:
        yield from _sampling(source, target)


def _address(source: Surface, target: Surface) -> Iterator[Default]:
    yield from _trait_default(source, target, "host", "default_address", words={"all": "0.0.0.0"})  # noqa: S104 - every address, as the source listens today


def _trait_default(
    source: Surface, target: Surface, concept: str, trait: str, words: Mapping[str, str] | None = None
) -> Iterator[Default]:
    here, there = source.traits.get(trait), target.traits.get(trait)
    option = target.flags.get(concept)
    if here is None or here.value is None or there is None or option is None or not option.names:
        return
    loopback = {"127.0.0.1", "localhost"}
    if here.value == there.value or {here.value, there.value} <= loopback:
        return
    value = (words or {}).get(str(here.value), str(here.value))
    other = "none of its own" if there.value is None else str(there.value)
    yield Default(concept, str(here.value), other, (option.names[0], value))


def _at_a_time(source: Surface, target: Surface) -> Iterator[Default]:
    """How many requests run at a time: in words on both sides, so that the number is the user's."""
    here, there = source.flags.get("max_running"), target.flags.get("max_running")
    if here is not None and there is not None and there.names and "" != here.default != there.default != "":
        yield Default("max_running", here.default, there.default, ())


def _switch_on(concept: str, there: Flag) -> Iterator[Default]:
    if there.on or there.kind == "true or false":
        key, _, value = (there.on or f"{there.names[0]}: true").partition(": ")
        yield Default(concept, "on", "off", () if value else tuple(key.split()), ((key, value),) if value else ())
    elif there.switch:
        yield Default(concept, "on", "off", (there.names[0],))


def _reported(source: Surface, target: Surface, name: str, *, wanted: set[str], missing: set[str]) -> Iterator[Default]:
    here, there = source.traits.get(name), target.traits.get(name)
    if here is not None and there is not None and here.value in wanted and there.value in missing and there.flag:
        yield Default(name, str(here.value), "only with a flag", tuple(there.flag.split()))


def _telemetry(source: Surface, target: Surface) -> Iterator[Default]:
    here, there = source.traits.get("telemetry"), target.traits.get("telemetry")
    if here is not None and there is not None and (here.value, there.value) == ("off", "on") and there.flag:
        words = (there.flag,) if there.flag.startswith("-") else ()
        yield Default("telemetry", "off", "on", words, () if words else (("environment", there.flag),))


def _sampling(source: Surface, target: Surface) -> Iterator[Default]:
    """Whether sampling defaults come from the model, where one side does and the other does not."""
    here, there = (side.traits.get("model_sampling_defaults") for side in (source, target))
    option = target.flags.get("model_sampling_defaults")
    if here is None or there is None or option is None or here.value == there.value:
        return
    meaning = "model" if here.value == "yes" else "neutral"
    own = next((word for word, means in option.words.items() if means == meaning), None)
    if own is not None and option.names:
        yield Default(
            "model_sampling_defaults", meaning, "neutral" if meaning == "model" else "model", (option.names[0], own)
        )


def _is_on(flag: Flag) -> bool:
    return flag.default in {ON, "true"} or flag.default.endswith(" are on")


def _is_off(flag: Flag) -> bool:
    return flag.default in {"off", "false"} and bool(flag.names)


def _model(flags: LaunchFlags, target: Surface) -> Sequence[str]:
    model = flags.model or "MODEL"
    if target.start is not None and target.start.model_first:
        return (model,)
    return (_first(target.flags.get("model"), "--model"), model)


def _first(flag: Flag | None, otherwise: str) -> str:
    return flag.names[0] if flag is not None and flag.names else otherwise


def _notes(flags: LaunchFlags, told: Sequence[Translated], case: Case) -> Iterator[str]:
    model = case.target.flags.get("model")
    if model is not None and "GGUF" in model.kind and not flags.model.endswith(".gguf"):
        yield f"{flags.model or 'the model'}: {model.kind} is wanted there"
    for one in told:
        if one.by_hand or one.outcome == "lost":
            yield f"{one.shown}: {one.rule}"
    stays = kept(case)
    for name in without_concept(flags):
        if name not in stays:
            yield f"{name}: no table says what it is there"
    for default in differing_defaults(case):
        for key, value in default.keys:
            if key == "environment":
                yield f"{value} in its environment keeps {default.concept} {default.here}, as it is today"
    if flags.env:
        yield f"set before the command today, and not carried over: {', '.join(flags.env)}"


def without_concept(flags: LaunchFlags) -> Sequence[str]:
    """Options that no table compares: the source has them, or nobody knows them."""
    told = {
        *flags.spelled.values(),
        *flags.gone,
        *(name for name, several in flags.prefixes.items() if len(several) > 1),
    }
    return [name for name in flags.given if name not in told]


def kept(case: Case) -> Sequence[str]:
    """Options that no table compares and that another version of the same engine still has."""
    flags = case.flags
    if flags is None or case.source.engine != case.target.engine:
        return ()
    there = {name for option in case.target.options.values() for name in option.flags}
    return [name for name in without_concept(flags) if name in there]


def _as_given(flags: LaunchFlags, name: str) -> Sequence[str]:
    value = flags.given[name]
    return (name, value) if value else (name,)


def _yaml(keys: Mapping[str, str]) -> str:
    """Dotted keys as YAML, those of one object together."""
    lines: list[str] = []
    grouped: dict[str, list[str]] = {}
    for key, value in keys.items():
        if key == "environment":
            continue
        head, dot, rest = key.partition(".")
        if dot:
            grouped.setdefault(head, []).append(f"  {rest}: {value}")
        else:
            lines.append(f"{key}: {value}")
    for head, inner in grouped.items():
        lines += [f"{head}:", *inner]
    return "".join(f"{line}\n" for line in lines)
