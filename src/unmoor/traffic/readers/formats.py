"""Every format that is read, and which of them a log is in."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from unmoor.core.errors import TrafficError
from unmoor.core.nearest import did_you_mean
from unmoor.traffic.readers import (
    azure,
    bailian,
    burstgpt,
    fingerprint_jsonl,
    lengths_csv,
    mooncake,
    openai_logs,
    sglang_log,
    sharegpt,
    unmoor_jsonl,
    vllm_log,
)
from unmoor.traffic.readers.contract import Broken, FirstLine, RecordFormat
from unmoor.traffic.readers.csv_rows import delimiter_of, fields_of
from unmoor.traffic.readers.lines import cut
from unmoor.traffic.readers.skipped import HINT, INDENT

FORMATS: dict[str, RecordFormat] = {
    module.FORMAT.name: module.FORMAT
    for module in (
        unmoor_jsonl,
        fingerprint_jsonl,
        bailian,
        mooncake,
        azure,
        burstgpt,
        lengths_csv,
        sharegpt,
        openai_logs,
        vllm_log,
        sglang_log,
    )
}
"""Every format that is read, by its name; the first that a record looks like is taken."""

_TEXT_SHOWN = 4000
_NAMES = re.compile(r"\w+")
_LISTS = frozenset(("data", "requests", "results", "observations", "logs", "items", "rows", "records", "traces"))


def named(name: str, *, where: str) -> RecordFormat:
    """The format of that name. Raises TrafficError, with the nearest name."""
    if name not in FORMATS:
        raise TrafficError(
            f"unknown format '{cut(name)}'",
            where=where,
            seen=cut(name),
            expected=f"one of {', '.join(FORMATS)}",
            hint=did_you_mean(name, FORMATS) or HINT,
        )
    return FORMATS[name]


def recognised(records: Sequence[bytes | Broken]) -> RecordFormat | None:
    """The format that the first record is in; where it is in none, the next one is asked: a log may begin cut off."""
    for record in records:
        if isinstance(record, Broken):
            continue
        first = first_line(record)
        for record_format in FORMATS.values():
            if record_format.looks_like(first):
                return record_format
    return None


def no_known_format(record: bytes, *, where: str) -> TrafficError:
    """The error for a log that is in none, with what its first record is: keys only, since values may be a prompt's."""
    first = first_line(record)
    if first.keys:
        seen, hint = f"a JSON object with {_keys_of(first)}", _taken_apart(first) or HINT
    elif first.text.strip() == "{":
        seen, hint = "a JSON object over several lines", "jq -c . LOG | unmoor profile - reads it one object a line"
    else:
        seen, hint = f"no JSON object, and {len(first.columns)} columns in {len(record)} bytes", HINT
    return TrafficError(
        "no known format",
        where=where,
        seen=cut(seen),
        expected=INDENT.join(["one of", *(f"{f.name}: {f.expected}" for f in FORMATS.values())]),
        hint=hint,
    )


def _keys_of(first: FirstLine) -> str:
    """Keys by name where formats have them; of others, which could be somebody's text, how many there are."""
    known = {word for record_format in FORMATS.values() for word in _NAMES.findall(record_format.expected)}
    named = [key for key in first.keys if key in known or key in openai_logs.NAMES]
    others = len(first.keys) - len(named)
    beside = f"{others} {'other ' if named else ''}key{'s' * (others != 1)}"
    return " and ".join([*([f"the keys {', '.join(named)}"] if named else []), *([beside] if others else [])])


def _taken_apart(first: FirstLine) -> str | None:
    """For an object that holds a list of objects, perhaps the log: how to read that."""
    for key, value in first.keys.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            name = key if key in _LISTS else "KEY"
            return f"jq -c '.{name}[]' LOG | unmoor profile - reads what is in {name}, one object a line; {HINT}"
    return None


def first_line(record: bytes) -> FirstLine:
    """The record as formats are told apart by it."""
    text = record[:_TEXT_SHOWN].decode("utf-8", "replace")
    try:
        tree = msgspec.json.decode(record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            columns = fields_of(record[:_TEXT_SHOWN], delimiter_of(text))
        except (Broken, UnicodeDecodeError):
            columns = []
        return FirstLine(columns=tuple(columns), text=text)
    return FirstLine(keys=tree, text=text) if isinstance(tree, dict) else FirstLine(text=text)
