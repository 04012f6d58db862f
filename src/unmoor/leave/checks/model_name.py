"""The name that requests ask for: models, aliases and adapters, and what becomes of one that is not served."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from unmoor.engines.surface.surface import Source, Spelling, Surface
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind
from unmoor.leave.sides import Sides, listed, said, sides
from unmoor.leave.uses import Rows

NAME = Kind(
    id="UM131",
    name="unknown-model",
    title="Names of models and adapters that the other engine treats otherwise",
    bites="One engine answers 404 for a model that it does not serve, others answer with whatever model they have. "
    "Aliases fail, or an adapter's name is taken for nothing and the base model answers, without an error. Adapters "
    "are chosen by the model's name, by a field, or by base:adapter.",
    look="The names in the traffic are counted, compared with the adapters that were brought, and with how each engine "
    "chooses models and adapters.",
    mend="Serve every name that is asked for; translate the choice of an adapter.",
)

_FEATURE = "model name"


def _look(case: Case) -> Iterator[Hit]:
    names = case.uses.by_model
    if not names or case.stays:
        return
    known = {one.name for one in case.adapters} | _started_adapters(case)
    adapters = {name: rows for name, rows in names.items() if name in known}
    yield from _adapters(case, adapters)
    after_colon = _after_colon(case)
    yield from _colons(case, after_colon)
    adapters |= after_colon
    both = sides(case, "unknown_model", "models that are not served")
    if both is None or not both.differ:
        return
    others = {name: rows for name, rows in names.items() if name not in adapters}
    if both.there.value == "refused":
        served = _served(case)
        if unserved := {name: rows for name, rows in others.items() if name not in served}:
            yield _refused(both, unserved)
    elif len(others) > 1:
        yield _accepted(both, others)


_NAMED_IN_JSON = re.compile(r'"(?:lora_)?name"\s*:\s*"([^"]+)"')


def _started_adapters(case: Case) -> frozenset[str]:
    """The names that the source's start gives adapters: NAME=PATH, with commas or as further words, or in JSON."""
    given = case.flags.concepts.get("lora_modules", "") if case.flags is not None else ""
    if named := _NAMED_IN_JSON.findall(given):
        return frozenset(named)
    return frozenset(word.partition("=")[0] for word in given.replace(",", " ").split() if "=" in word)


def _served(case: Case) -> frozenset[str]:
    """The names that the source's start gives its model, where it was brought: the target's start gives the same."""
    if case.flags is None:
        return frozenset()
    return frozenset((case.flags.model, *case.flags.concepts.get("served_name", "").split()))


def _refused(both: Sides, names: Mapping[str, Rows]) -> Hit:
    flag = both.target.flags.get("served_name")
    by_flag = f" ({flag.names[0]})" if flag and flag.names else ""
    return hit(
        NAME,
        "translated",
        "error",
        features=[_FEATURE],
        rows=Rows.union(names.values()),
        seen=f"{both.source.title} answers whatever the name is; {both.target.title} refuses one that it does not serve"
        f"{said(both.there)}: asked for are {listed(names)}.",
        fix=f"Serve {'this name' if len(names) == 1 else 'all of these names'}{by_flag}.",
        sources=both.sources,
    )


def _accepted(both: Sides, names: Mapping[str, Rows]) -> Hit:
    """Names beside the most frequent one, which is taken for the model that the target serves."""
    first, *others = sorted(names, key=lambda name: -len(names[name]))
    return hit(
        NAME,
        "translated",
        "warning",
        features=[_FEATURE],
        rows=Rows.union(names[name] for name in others),
        seen=f"{both.target.title} does not look at the name{said(both.there)}: the model that answers "
        f"{listed([first])} would answer {listed(others)} too.",
        fix="Route by the name in front of the engine, and refuse there what is not served.",
        sources=both.sources,
    )


def _adapters(case: Case, adapters: Mapping[str, Rows]) -> Iterator[Hit]:
    """Adapters that are chosen by the model's name, on a target that wants it said otherwise."""
    here, there = case.source.spellings.get("adapter"), case.target.spellings.get("adapter")
    if not adapters or here is None or here.path != "model":
        return
    if there is None:
        case.skipped(f"adapters by name: how {case.target.title} chooses them is not known")
        return
    if there.path == "model":
        return
    yield hit(
        NAME,
        "lost" if there.absent else "translated",
        "error",
        features=[f"adapter {name}" for name in adapters],
        rows=Rows.union(adapters.values()),
        seen=f"{listed(adapters)} chosen as the model: {case.target.title} "
        + ("serves no adapters." if there.absent else _taken_for(case.target)),
        fix="Merge the adapters into models of their own."
        if there.absent
        else f"Name the adapter in `{there.path}`{_noted(there)}.",
        sources=_cited(case.target, there),
    )


def _after_colon(case: Case) -> dict[str, Rows]:
    """Names such as base:adapter, where the source chooses an adapter by them."""
    trait, names = case.source.traits.get("adapter_after_colon"), case.uses.by_model
    if trait is None or trait.value != "yes":
        return {}
    brought = {one.name for one in case.adapters}
    return {
        name: rows
        for name, rows in names.items()
        if ":" in name and (name.partition(":")[0] in names or name.partition(":")[2] in brought)
    }


def _colons(case: Case, names: Mapping[str, Rows]) -> Iterator[Hit]:
    """Adapters chosen as base:adapter, on a target that does not part the name."""
    if (
        not names
        or (both := sides(case, "adapter_after_colon", "base:adapter as the model")) is None
        or not both.differ
    ):
        return
    there = case.target.spellings.get("adapter")
    known = there is not None and not there.absent
    yield hit(
        NAME,
        "translated" if known else "lost",
        "error",
        features=[f"adapter {name.partition(':')[2]}" for name in names],
        rows=Rows.union(names.values()),
        seen=f"{listed(names)} choose an adapter after the colon; {both.target.title} does not part the name.",
        fix=f"Name the adapter alone, in `{there.path}`{_noted(there)}."
        if there is not None and known
        else "Merge the adapters into models of their own.",
        sources=both.sources,
    )


def _taken_for(target: Surface) -> str:
    refuses = (trait := target.traits.get("unknown_model")) is not None and trait.value == "refused"
    return "refuses the name." if refuses else "answers with the base model, without an error."


def _noted(spelling: Spelling) -> str:
    return f" ({spelling.note})" if spelling.note else ""


def _cited(one: Surface, spelling: Spelling) -> tuple[Source, ...]:
    trait = one.traits.get("unknown_model")
    return tuple(dict.fromkeys((one.source_of(spelling), *((one.source_of(trait),) if trait else ()))))


CHECK = Check(kinds=(NAME,), look=_look)
