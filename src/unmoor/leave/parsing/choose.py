"""Which parsers a side runs: those of its start, else those for the model's family."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import msgspec

from unmoor.engines.surface.surface import Surface
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.launch_flags import LaunchFlags
from unmoor.leave.parsing.parsed import Chosen, Names, SaidBy

MOST_PLAUSIBLE = 3
"""Where more families than this could be meant, none is tried."""

_APART = re.compile(r"[\s_]+")


class Family(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one family of models is known; patterns are regular expressions. `form` is how it writes calls."""

    form: str = ""
    names: str = ""
    architectures: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    needs_tokenizer: bool = False


@cache
def families() -> Mapping[str, Family]:
    """Every family that can be told, by its key in `Surface.parsers`."""
    return msgspec.toml.decode((files("unmoor.leave.parsing") / "families.toml").read_bytes(), type=dict[str, Family])


def of_name(name: str) -> tuple[str, ...]:
    """The families that a model's name says."""
    plain = _APART.sub("-", name.casefold())
    return tuple(family for family, one in families().items() if one.names and re.search(one.names, plain))


def of_model(model: Checkpoint) -> tuple[str, ...]:
    """The families that a checkpoint's files say: its name and folder, its architecture, then its chat template."""
    folder = model.path.rstrip("/").rpartition("/")[2]
    by_architecture = tuple(key for key, one in families().items() if model.architecture in one.architectures)
    return of_name(model.name) or of_name(folder) or by_architecture or of_marks(model.chat_template or "")


def of_marks(text: str) -> tuple[str, ...]:
    """The families whose way of writing calls is in a text."""
    return tuple(key for key, one in families().items() if any(re.search(mark, text) for mark in one.marks))


def of_flags(flags: LaunchFlags, source: Surface) -> tuple[str, ...]:
    """The families for which the source is started."""
    tool, reasoning = flags.concepts.get("tool_parser"), flags.concepts.get("reasoning_parser")
    both = [
        key
        for key, one in source.parsers.items()
        if (tool is None or tool in one.tool) and (reasoning is None or reasoning in one.reasoning)
    ]
    return tuple(both) if tool or reasoning else ()


def choose(
    plausible: Sequence[str], said_by: SaidBy, source: Surface, target: Surface, flags: LaunchFlags | None
) -> tuple[Chosen, ...]:
    """The parsers of both sides for each family that could be meant; families with the same parsers are one."""
    found: dict[tuple[Names, Names], Chosen] = {}
    for family in plausible:
        here, there = source.parsers.get(family), target.parsers.get(family)
        if here is None or there is None:
            continue
        tool = flags.concepts.get("tool_parser") if flags else next(iter(here.tool), None)
        reasoning = flags.concepts.get("reasoning_parser") if flags else next(iter(here.reasoning), None)
        theirs = Names(
            _same(tool, there.tool) if tool else None, _same(reasoning, there.reasoning) if reasoning else None
        )
        others = tuple(name for name in there.tool if tool and name != theirs.tool)
        own = Names(tool, reasoning)
        found.setdefault((own, theirs), Chosen(family, said_by, own, theirs, others, tuple(plausible)))
    return tuple(found.values())


def _same(name: str, names: Sequence[str]) -> str | None:
    """The name that is the same on the other side, else the first that is listed; None where there is none."""
    return name if name in names else next(iter(names), None)
