"""What each engine does with an adapter, trait by trait, by its surface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from unmoor.engines.surface.concepts import ADAPTER
from unmoor.engines.surface.surface import Option, Source, Support, Surface
from unmoor.leave.adapters.adapter import Adapter

Serves = Literal["native", "fallback", "needs_flag", "varies", "ignored", "refused", "unknown"]

_WORST: Mapping[Serves, int] = {
    "native": 0, "varies": 1, "fallback": 2, "needs_flag": 3, "unknown": 4, "ignored": 5, "refused": 6,
}  # fmt: skip
"""What is not known of one trait is worse than what is known to work, another way or when told to."""
_CONTAINERS = ("peft_safetensors", "gguf_adapter")


class TraitVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine does with one trait of an adapter: a key of `concepts.ADAPTER`, and what its files say there.

    "ignored": it is loaded, and the trait disregarded, so that answers differ without a word. "fallback": it works
    another way, after a conversion say. "needs_flag": it works when the server is started with `flag`.
    """

    trait: str
    serves: Serves
    note: str = ""
    flag: str = ""
    source: Source | None = None


class AdapterVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine does with one adapter: the worst of its traits, and each of them.

    `note` says why it is refused whatever the traits: its files are broken, or it does not fit the model.
    """

    adapter: str
    engine: str
    title: str
    version: str
    serves: Serves
    traits: tuple[TraitVerdict, ...] = ()
    note: str = ""


def adapter_verdict(adapter: Adapter, surface: Surface) -> AdapterVerdict:
    """The engine's verdict. An adapter whose container the surface does not know is "unknown"; broken, "refused"."""
    traits = (*(trait_verdict(trait, surface) for trait in _asked(adapter)), *_rank(adapter, surface))
    broken = any(problem.fatal for problem in adapter.problems)
    return AdapterVerdict(
        adapter=adapter.name,
        engine=surface.engine,
        title=surface.title,
        version=surface.version,
        serves="refused" if broken else max((one.serves for one in traits), key=_WORST.__getitem__, default="unknown"),
        traits=traits,
        note="its files are broken" if broken else "",
    )


def refused_for_all(verdict: AdapterVerdict, why: str) -> AdapterVerdict:
    """The verdict on an adapter that no engine can serve here, whatever its traits."""
    return msgspec.structs.replace(verdict, serves="refused", note=verdict.note or why)


def trait_verdict(trait: str, surface: Surface) -> TraitVerdict:
    """What the surface says of one trait."""
    support = surface.adapter.get(trait)
    if support is None:
        return TraitVerdict(trait=trait, serves="unknown")
    return TraitVerdict(trait=trait, serves=_serves(support), note=support.note, source=surface.source_of(support))


def serves_none(surface: Surface) -> bool:
    """Whether the engine is known to serve no adapters at all."""
    return all(one in surface.adapter and surface.adapter[one].value == "refused" for one in _CONTAINERS)


def _asked(adapter: Adapter) -> Iterator[str]:
    """The traits that are looked up: all, and the container where it is not one of them."""
    yield from (trait for trait in adapter.traits if trait in ADAPTER)
    if adapter.container == "gguf":
        yield "gguf_adapter"


def _rank(adapter: Adapter, surface: Surface) -> Iterator[TraitVerdict]:
    """The bound on ranks that the server has unless it is told another; nothing where there is none, or room."""
    flag = surface.flags.get("lora_max_rank")
    rank = adapter.highest_rank
    if flag is None or not flag.names or rank is None or not flag.default.isdecimal() or rank <= int(flag.default):
        return
    source = surface.source_of(flag)
    choices = _choices(surface.options, flag.names)
    enough = min((one for one in choices if one >= rank), default=None) if choices else rank
    if enough is None:
        note = f"rank {rank}; at most {max(choices)}"
        yield TraitVerdict(trait="rank_over_flag", serves="refused", note=note, source=source)
    else:
        parted = ": " if flag.in_file else " "
        yield TraitVerdict(
            trait="rank_over_flag",
            serves="needs_flag",
            note=f"rank {rank}; {flag.default} unless told otherwise",
            flag=f"{flag.names[0]}{parted}{enough}",
            source=source,
        )


def _choices(options: Mapping[str, Option], names: tuple[str, ...]) -> list[int]:
    """The ranks among which the option chooses; none where it takes any."""
    found = next((option for option in options.values() if set(option.flags) & set(names)), None)
    return [int(one) for one in (found.choices or ()) if one.isdecimal()] if found else []


def _serves(support: Support) -> Serves:
    match support.value:
        case "native" | "enforced":
            return "native"
        case "fallback":
            return "fallback"
        case "refused" | "blocks":
            return "refused"
        case "ignored" | "leaks":
            return "ignored"
        case "varies":
            return "varies"
        case _:
            return "unknown"
