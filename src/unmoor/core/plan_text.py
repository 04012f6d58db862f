"""Plans from TOML text, with errors that name the line, the key and the nearest known one."""

from __future__ import annotations

import math
import re
import tomllib
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from unmoor.core.errors import PlanError
from unmoor.core.nearest import did_you_mean
from unmoor.core.plan import Plan, SyntheticTraffic

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
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise PlanError(
            "not valid TOML",
            where=f"{where}:{line[1]}" if line else where,
            seen=str(error),
            expected="a TOML document",
        ) from None
    _refuse_unknown_keys(tree, struct, text=text, where=where, path=())
    try:
        return msgspec.convert(tree, struct)
    except msgspec.ValidationError as error:
        raise _as_plan_error(error, tree=tree, text=text, where=where, reference=reference) from None


def _refuse_unknown_keys(
    tree: Mapping[str, Any], struct: type[msgspec.Struct], *, text: str, where: str, path: tuple[str, ...]
) -> None:
    hints = typing.get_type_hints(struct)
    for key, value in tree.items():
        if key not in hints:
            table = ".".join(path)
            raise PlanError(
                f"unknown key '{key}' in [{table}]" if table else f"unknown key '{key}'",
                where=f"{where}:{_line_of(key, text, path)}",
                seen=key,
                expected=f"one of {', '.join(hints)}",
                hint=did_you_mean(key, hints),
            )
        nested = _struct_in(hints[key])
        if nested is None:
            continue
        for item in value if isinstance(value, Sequence) else (value,):
            if isinstance(item, Mapping):
                _refuse_unknown_keys(item, nested, text=text, where=where, path=(*path, key))


def _struct_in(hint: object) -> type[msgspec.Struct] | None:
    """The msgspec struct inside a type hint, through unions and tuples; None when there is none."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint
    return next((found for arg in typing.get_args(hint) if (found := _struct_in(arg))), None)


def line_of(text: str, *path: str) -> int:
    """The line, from 1, of a plan's text that sets the key at `path` ("hardware", "device"), or opens its table."""
    return _line_of(path[-1], text, path[:-1])


def _line_of(key: str, text: str, path: tuple[str, ...]) -> int:
    """The first line, from 1, that sets `key` or opens it as a table, at or after the table it stands in."""
    lines = text.splitlines()
    start = 0
    if path:
        opened = re.compile(rf"^\s*\[+\s*{re.escape('.'.join(path))}\s*\]+")
        start = next((n for n, line in enumerate(lines) if opened.match(line)), 0)
    sets = re.compile(rf"^\s*(\[+\s*([\w.]+\.)?)?{re.escape(key)}\s*([=\].]|$)|[{{,]\s*{re.escape(key)}\s*=")
    return next((n for n, line in enumerate(lines[start:], start) if sets.search(line)), start) + 1


def _as_plan_error(
    error: msgspec.ValidationError, *, tree: Mapping[str, Any], text: str, where: str, reference: str
) -> PlanError:
    message, _, at = str(error).partition(" - at `$.")
    path = tuple(re.sub(r"\[\.*\d*\.*\]", "", at.rstrip("`")).split(".")) if at else ()
    missing = re.search(r"missing required field `(\w+)`", message)
    if missing:
        key, table = missing[1], ".".join(path)
        line = _line_of(path[-1], text, path[:-1]) if path else 1
        return PlanError(
            f"missing key '{key}' in [{table}]" if table else f"missing key or table '{key}'",
            where=f"{where}:{line}",
            seen="nothing",
            expected=f"{key} = ...",
            hint=f"{reference} lists every key",
        )
    wanted = re.match(r"Expected `(.+?)`, got `.+?`", message)
    line = _line_of(path[-1], text, path[:-1]) if path else 1
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


def _refuse_contradictions(plan: Plan, *, text: str, where: str) -> None:
    def refuse(message: str, key: str, seen: object, expected: str, table: tuple[str, ...] = ()) -> None:
        raise PlanError(message, where=f"{where}:{_line_of(key, text, table)}", seen=str(seen), expected=expected)

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
    if plan.traffic.synthetic:
        _refuse_bad_description(plan.traffic.synthetic, text=text, where=where, table=("traffic", "synthetic"))
    for table, key, value, range_ in _ranges(plan):
        if value is not None and not range_.holds(value):
            refuse(f"'{table}.{key}' is out of range", key, value, range_.words, (table,))


class _Range(msgspec.Struct, frozen=True, kw_only=True):
    """What a number of the plan may be, for the reader and for the check."""

    words: str
    low: float
    below: float = math.inf
    open: bool = False

    def holds(self, value: float) -> bool:
        return (self.low < value if self.open else self.low <= value) and value < self.below


_POSITIVE = _Range(words="a number above 0", low=0, open=True)
_COUNT = _Range(words="a whole number from 1", low=1)
_FROM_NOUGHT = _Range(words="0 or more", low=0)
_SHARE = _Range(words="a share from 0 to below 1, like 0.05", low=0, below=1)
_QUANTILE = _Range(words="a share above 0 and below 1, like 0.95", low=0, below=1, open=True)


def _ranges(plan: Plan) -> tuple[tuple[str, str, float | None, _Range], ...]:
    """Every number of the plan that has a range, by its table and key; those of a description are checked apart."""
    slo, bakeoff = plan.slo, plan.bakeoff
    return (
        ("hardware", "count", plan.hardware.count, _COUNT),
        ("slo", "ttft_s", slo.ttft_s, _POSITIVE),
        ("slo", "tpot_s", slo.tpot_s, _POSITIVE),
        ("slo", "e2e_s", slo.e2e_s, _POSITIVE),
        ("slo", "quantile", slo.quantile, _QUANTILE),
        ("prices", "device_hour", plan.prices.device_hour, _FROM_NOUGHT),
        ("bakeoff", "settings", bakeoff.settings, _COUNT),
        ("bakeoff", "blocks", bakeoff.blocks, _COUNT),
        ("bakeoff", "warmup_requests", bakeoff.warmup_requests, _FROM_NOUGHT),
        ("bakeoff", "equivalence_margin", bakeoff.equivalence_margin, _SHARE),
    )


def _refuse_bad_description(description: SyntheticTraffic, *, text: str, where: str, table: tuple[str, ...]) -> None:
    def refuse(message: str, key: str, expected: str) -> None:
        seen = str(getattr(description, key))
        raise PlanError(message, where=f"{where}:{_line_of(key, text, table)}", seen=seen, expected=expected)

    for key in ("requests", "rate_rps", "input_tokens", "output_tokens", "groups", "burstiness"):
        if not 0 < getattr(description, key) < math.inf:
            refuse(f"'{'.'.join((*table, key))}' is out of range", key, "a number above 0")
    if not 0 <= description.spread <= 1:
        refuse(f"'{'.'.join((*table, 'spread'))}' is out of range", "spread", "a share from 0 to 1")
    if description.shared_prefix_tokens < 0:
        name = ".".join((*table, "shared_prefix_tokens"))
        refuse(f"'{name}' is out of range", "shared_prefix_tokens", "0 or more")
    if description.shared_prefix_tokens > description.input_tokens:
        expected = f"at most input_tokens = {description.input_tokens}"
        refuse("the shared prefix is longer than the prompt", "shared_prefix_tokens", expected)
