"""Plans from TOML text, with errors that name the line, the key and the nearest known one."""

from __future__ import annotations

import math
import re
import tomllib
import typing
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from unmoor.core.errors import PlanError
from unmoor.core.nearest import did_you_mean
from unmoor.core.plan import DoneSteps, Plan, SyntheticTraffic

StructT = TypeVar("StructT", bound=msgspec.Struct)


def read_plan(text: str, *, where: str) -> Plan:
    """The plan in `text`; `where` is the file's name for errors.

    Raises PlanError for TOML that does not parse, an unknown key (with the nearest known one), a missing key, a value
    of the wrong type or out of its range, and contradictions (both a traffic file and a description).
    """
    plan = read_struct(text, Plan, where=where)
    _refuse_contradictions(plan, text=text, where=where)
    return plan


def read_description(text: str, *, where: str) -> SyntheticTraffic:
    """The traffic that a TOML file describes with the keys of `[traffic.synthetic]`; `where` is its name for errors.

    Raises PlanError for what `read_plan` does.
    """
    description = read_struct(text, SyntheticTraffic, where=where, reference="docs/reference/traffic.md")
    _refuse_bad_description(description, text=text, where=where, table=())
    return description


def read_struct(text: str, struct: type[StructT], *, where: str, reference: str = "docs/reference/plan.md") -> StructT:
    """The struct that TOML `text` spells; `reference` is the page that lists its keys, for hints.

    Raises PlanError for TOML that does not parse, an unknown key (with the nearest known one), a missing key, and a
    value of the wrong type.
    """
    tree = _tree(text, where=where, reference=reference)
    try:
        _refuse_control_characters(tree, where=where)
        _refuse_unknown_keys(tree, struct, text=text, where=where, path=())
        return msgspec.convert(tree, struct)
    except msgspec.ValidationError as error:
        raise _as_plan_error(error, tree=tree, text=text, where=where, reference=reference) from None
    except RecursionError:
        raise _too_deep(where, reference) from None


def _tree(text: str, *, where: str, reference: str) -> dict[str, Any]:
    hint = f"{reference} has a whole one to start from"
    if len(text) > _LONGEST:
        seen, expected = f"{len(text):,} characters", f"at most {_LONGEST:,}"
        raise PlanError("too long to be a plan", where=where, seen=seen, expected=expected, hint=hint)
    if _MANY_DOTS.search(text):
        raise _too_deep(where, reference)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        at = f"{where}:{line[1]}" if line else where
        raise PlanError("not valid TOML", where=at, seen=str(error), expected="a TOML document", hint=hint) from None
    except RecursionError:
        raise _too_deep(where, reference) from None
    except ValueError:
        seen, expected = "a number of too many digits", "numbers of at most a few thousand digits"
        raise PlanError("not valid TOML", where=where, seen=seen, expected=expected, hint=hint) from None


_LONGEST = 1_000_000
_MANY_DOTS = re.compile(r"(?:[\w-]+[ \t]*\.[ \t]*){100}")  # a key of very many parts takes its parser for ever


def _too_deep(where: str, reference: str) -> PlanError:
    return PlanError(
        "nested too deeply",
        where=where,
        seen="tables or lists in each other by the hundred",
        expected="tables of a few levels",
        hint=f"{reference} lists every key",
    )


def _refuse_control_characters(tree: object, *, where: str) -> None:
    """Escape codes and line ends in a key or a text would reach a terminal, a page and a file's name as they are."""
    if isinstance(tree, str) and any(unicodedata.category(letter) == "Cc" for letter in tree):
        raise PlanError(
            "a control character in a text",
            where=where,
            seen=ascii(tree[:60]),
            expected="letters that can be seen, in one line",
            hint="take the escape out of the text",
        )
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            _refuse_control_characters(key, where=where)
            _refuse_control_characters(value, where=where)
    elif isinstance(tree, list):
        for item in tree:
            _refuse_control_characters(item, where=where)


def _refuse_unknown_keys(
    tree: Mapping[str, Any],
    struct: type[msgspec.Struct],
    *,
    text: str,
    where: str,
    path: tuple[str, ...],
    place: int = 0,
) -> None:
    hints = typing.get_type_hints(struct)
    for key, value in tree.items():
        if key not in hints:
            table = ".".join(path)
            raise PlanError(
                f"unknown key '{key}' in [{table}]" if table else f"unknown key '{key}'",
                where=f"{where}:{_line_of(key, text, path, place)}",
                seen=key,
                expected=f"one of {', '.join(hints)}",
                hint=did_you_mean(key, hints),
            )
        nested = _struct_in(hints[key])
        if nested is None:
            continue
        for number, item in enumerate(value if isinstance(value, Sequence) else (value,)):
            if isinstance(item, Mapping):
                _refuse_unknown_keys(item, nested, text=text, where=where, path=(*path, key), place=number)


def _struct_in(hint: object) -> type[msgspec.Struct] | None:
    """The msgspec struct inside a type hint, through unions and tuples; None when there is none."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint
    return next((found for arg in typing.get_args(hint) if (found := _struct_in(arg))), None)


def line_of(text: str, *path: str) -> int:
    """The line, from 1, of a plan's text that sets the key at `path` ("hardware", "device"), or opens its table."""
    return _line_of(path[-1], text, path[:-1])


def _line_of(key: str, text: str, path: tuple[str, ...], place: int = 0) -> int:
    """The first line, from 1, that sets `key` or opens it as a table, at or after the table it stands in.

    `place`, from 0, says which of several tables of one name: of the table at `path`, or of `key` itself without one.
    """
    lines = text.splitlines()
    start = 0
    if path:
        opened = re.compile(rf"^\s*\[+\s*{re.escape('.'.join(path))}\s*\]+")
        start = _nth([n for n, line in enumerate(lines) if opened.match(line)], place)
    sets = re.compile(rf"^\s*(\[+\s*([\w.]+\.)?)?{re.escape(key)}\s*([=\].]|$)|[{{,]\s*{re.escape(key)}\s*=")
    found = [n for n, line in enumerate(lines[start:], start) if sets.search(line)] or [start]
    return _nth(found, 0 if path else place) + 1


def _nth(lines: Sequence[int], place: int) -> int:
    return lines[min(place, len(lines) - 1)] if lines else 0


def _as_plan_error(
    error: msgspec.ValidationError, *, tree: Mapping[str, Any], text: str, where: str, reference: str
) -> PlanError:
    message, _, at = str(error).partition(" - at `$.")
    path = tuple(re.sub(r"\[\.*\d*\.*\]", "", at.rstrip("`")).split(".")) if at else ()
    index = re.search(r"\[(\d+)\]", at)
    place = int(index[1]) if index else 0
    missing = re.search(r"missing required field `(\w+)`", message)
    if missing:
        key, table = missing[1], ".".join(path)
        line = _line_of(path[-1], text, path[:-1], place) if path else 1
        return PlanError(
            f"missing key '{key}' in [{table}]" if table else f"missing key or table '{key}'",
            where=f"{where}:{line}",
            seen="nothing",
            expected=f"{key} = ...",
            hint=f"{reference} lists every key",
        )
    wanted = re.match(r"Expected `(.+?)`, got `.+?`", message)
    line = _line_of(path[-1], text, path[:-1], place) if path else 1
    return PlanError(
        f"wrong value for '{'.'.join(path)}'",
        where=f"{where}:{line}",
        seen=_as_written(tree, at) or message,
        expected=_in_words(wanted[1]) if wanted else _DATE if "date" in message else f"see {reference}",
        hint=f"{reference} lists every key with its type",
    )


_DATE = "a date, like 2026-11-30"
_WORDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "a list",
    "object": "a table", "date": _DATE,
}  # fmt: skip


def _in_words(types: str) -> str:
    """The type that was expected, as a user of TOML would say it: "int | float | null" is a number."""
    kinds = [kind for kind in types.split(" | ") if kind != "null"]
    if {"int", "float"} <= set(kinds):
        kinds.remove("int")
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds)


def _as_written(tree: object, at: str) -> str | None:
    """The value at a path like "prices.as_of" or "candidates[0].engine", as TOML says it; None where it is not plain.

    msgspec writes `[...]` for a place in a mapping or a list that it does not name.
    """
    for key, place in re.findall(r"(\w+)|\[(\d+)\]", at.rstrip("`")):
        if isinstance(tree, Mapping) and key in tree:
            tree = tree[key]
        elif isinstance(tree, Sequence) and place and int(place) < len(tree):
            tree = tree[int(place)]
        else:
            return None
    if isinstance(tree, bool):
        return str(tree).lower()
    if isinstance(tree, str):
        return f'"{tree}"'
    if isinstance(tree, Mapping):
        return "a table"
    return "a list" if isinstance(tree, Sequence) else str(tree)


_PLAN_PAGE = "docs/reference/plan.md lists every key with its range"
_TRAFFIC_PAGE = "docs/reference/traffic.md lists every key with its range"


def _refuse_contradictions(plan: Plan, *, text: str, where: str) -> None:
    def refuse(message: str, key: str, seen: object, expected: str, table: tuple[str, ...] = ()) -> None:
        at = f"{where}:{_line_of(key, text, table)}"
        raise PlanError(message, where=at, seen=str(seen), expected=expected, hint=_PLAN_PAGE)

    if (plan.traffic.path is None) == (plan.traffic.synthetic is None):
        both = plan.traffic.path is not None
        refuse(
            "the traffic is named twice" if both else "no traffic is named",
            "traffic",
            "path and synthetic" if both else "neither path nor synthetic",
            "traffic.path = FILE, or a [traffic.synthetic] table",
        )
    if not plan.candidates:
        refuse("no candidate is named", "candidates", "an empty list", "at least one [[candidates]] table")
    names = [(c.engine, c.version) for c in plan.candidates]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        refuse("a candidate is named twice", "candidates", twice[0], "each engine and version once")
    for table, key, word in _texts(plan):
        if word is not None and not word.strip():
            refuse(f"'{'.'.join((*table, key))}' is empty", key, '""', "some text", table)
    _refuse_bad_exit(plan, text=text, where=where)
    if plan.traffic.synthetic:
        _refuse_bad_description(plan.traffic.synthetic, text=text, where=where, table=("traffic", "synthetic"))
    for section, key, value, range_ in _ranges(plan):
        if value is not None and not range_.holds(value):
            refuse(f"'{section}.{key}' is out of range", key, value, range_.words, (section,))


def _refuse_bad_exit(plan: Plan, *, text: str, where: str) -> None:
    """Engines that the exit names must be candidates, and the way out another than the one that serves."""

    def refuse(message: str, key: str, seen: str, expected: str, table: tuple[str, ...]) -> None:
        at = f"{where}:{_line_of(key, text, table)}"
        raise PlanError(message, where=at, seen=seen, expected=expected, hint=_PLAN_PAGE)

    known = sorted({one.engine for one in plan.candidates})
    named = {}
    for table, key, name in _engines_of_exit(plan):
        meant = [one for one in plan.candidates if name is not None and one.is_named(name)]
        if name is not None and not meant:
            refuse(f"'{'.'.join((*table, key))}' is no candidate", key, name, f"one of {', '.join(known)}", table)
        if len(meant) > 1 and table == ("exit",):
            versions = " or ".join(f"{one.engine}@{one.version}" for one in meant)
            refuse(f"'exit.{key}' may be several candidates", key, str(name), versions, table)
        named[(*table, key)] = meant
    serves, leave_to = named["exit", "serves"], named["exit", "leave_to"]
    if serves and serves == leave_to:
        refuse(
            "the way out leads back", "leave_to", str(plan.exit.leave_to), "another candidate than serves", ("exit",)
        )


def _texts(plan: Plan) -> tuple[tuple[tuple[str, ...], str, str | None], ...]:
    """Every text of the plan that must not be empty, by its table and key."""
    return (
        ((), "name", plan.name),
        (("model",), "name", plan.model.name),
        (("model",), "weights", plan.model.weights),
        (("hardware",), "device", plan.hardware.device),
        *((("candidates",), "version", candidate.version) for candidate in plan.candidates),
        *((("exit",), key, getattr(plan.exit, key)) for key in _TEXTS_OF_EXIT),
        *((("exit",), "dashboards", path) for path in plan.exit.dashboards),
        *((("exit", "rehearsals"), "outcome", rehearsal.outcome) for rehearsal in plan.exit.rehearsals),
        *(
            (("exit", "done", key), "where", step.where)
            for key in DoneSteps.__struct_fields__
            if (step := getattr(plan.exit.done, key)) is not None
        ),
    )


_TEXTS_OF_EXIT = (
    "model", "evals", "routing", "metering", "orchestration", "start", "adapters", "schemas", "risk_owner",
)  # fmt: skip


def _engines_of_exit(plan: Plan) -> tuple[tuple[tuple[str, ...], str, str | None], ...]:
    """Every engine that the exit names, by its table and key."""
    return (
        (("exit",), "serves", plan.exit.serves),
        (("exit",), "leave_to", plan.exit.leave_to),
        *((("exit", "rehearsals"), "to", rehearsal.to) for rehearsal in plan.exit.rehearsals),
    )


class _Range(msgspec.Struct, frozen=True, kw_only=True):
    """What a number of the plan may be, for the reader and for the check."""

    words: str
    low: float
    below: float = math.inf
    most: float = math.inf
    open: bool = False

    def holds(self, value: float) -> bool:
        above = self.low < value if self.open else self.low <= value
        return above and value < self.below and value <= self.most


def _up_to(most: int, low: int = 1) -> _Range:
    return _Range(words=f"a whole number from {low} to {most:,}", low=low, most=most)


_POSITIVE = _Range(words="a number above 0", low=0, open=True)
_FROM_NOUGHT = _Range(words="0 or more", low=0)
_SHARE = _Range(words="a share from 0 to below 1, like 0.05", low=0, below=1)
_QUANTILE = _Range(words="a share above 0 and below 1, like 0.95", low=0, below=1, open=True)
_MOST_DEVICES = 1024
_MOST_REQUESTS = 1_000_000
_MOST_TOKENS = 10_000_000
_DESCRIBED = {
    "requests": _up_to(_MOST_REQUESTS),
    "rate_rps": _Range(words="a number from 0.000001 to 1,000,000", low=1e-6, most=1e6),
    "input_tokens": _up_to(_MOST_TOKENS),
    "output_tokens": _up_to(_MOST_TOKENS),
    "groups": _up_to(_MOST_REQUESTS),
    "burstiness": _Range(words="a number from 0.01 to 100", low=0.01, most=100),
    "spread": _Range(words="a share from 0 to 1", low=0, most=1),
    "shared_prefix_tokens": _FROM_NOUGHT,
}
"""The ranges of a description: so wide that any real traffic fits, and narrow enough that it can be made."""


def _ranges(plan: Plan) -> tuple[tuple[str, str, float | None, _Range], ...]:
    """Every number of the plan that has a range, by its table and key; those of a description are checked apart."""
    slo, bakeoff = plan.slo, plan.bakeoff
    return (
        ("hardware", "count", plan.hardware.count, _up_to(_MOST_DEVICES)),
        ("slo", "ttft_s", slo.ttft_s, _POSITIVE),
        ("slo", "tpot_s", slo.tpot_s, _POSITIVE),
        ("slo", "e2e_s", slo.e2e_s, _POSITIVE),
        ("slo", "quantile", slo.quantile, _QUANTILE),
        ("prices", "device_hour", plan.prices.device_hour, _FROM_NOUGHT),
        ("bakeoff", "settings", bakeoff.settings, _up_to(1000)),
        ("bakeoff", "blocks", bakeoff.blocks, _up_to(1000)),
        ("bakeoff", "warmup_requests", bakeoff.warmup_requests, _up_to(_MOST_REQUESTS, 0)),
        ("bakeoff", "equivalence_margin", bakeoff.equivalence_margin, _SHARE),
    )


def _refuse_bad_description(description: SyntheticTraffic, *, text: str, where: str, table: tuple[str, ...]) -> None:
    def refuse(message: str, key: str, expected: str) -> None:
        seen, at = str(getattr(description, key)), f"{where}:{_line_of(key, text, table)}"
        raise PlanError(message, where=at, seen=seen, expected=expected, hint=_TRAFFIC_PAGE)

    for key, range_ in _DESCRIBED.items():
        if not range_.holds(getattr(description, key)):
            refuse(f"'{'.'.join((*table, key))}' is out of range", key, range_.words)
    if description.shared_prefix_tokens > description.input_tokens:
        expected = f"at most input_tokens = {description.input_tokens}"
        refuse("the shared prefix is longer than the prompt", "shared_prefix_tokens", expected)
