"""Reads JSON schemas from files: each a constraint with a key of its content."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import msgspec

from unmoor.core.errors import UsageError
from unmoor.core.plural import plural
from unmoor.leave.uses import Constraint

MOST_FILE_BYTES = 16 << 20
_MOST_NAMED = 5
_KEY_BYTES = 8
_HINT = "a file for each schema, as it stands in response_format.json_schema"


@dataclass(frozen=True, slots=True)
class SchemaFiles:
    """The schemas that were read, each once; `skipped` says of each other file why it was not."""

    constraints: tuple[Constraint, ...] = ()
    skipped: tuple[str, ...] = ()


def read_schemas(folder: Path) -> SchemaFiles:
    """A constraint for each `*.json` in `folder` and below, or for one file; its key is of its content.

    OpenAI's wrapping ({"name", "schema"}) is taken off. A file that is no JSON schema is skipped, and told. Raises
    UsageError where none is one, and for a single file that is none.
    """
    paths = sorted(folder.rglob("*.json")) if folder.is_dir() else [folder]
    if not paths:
        raise UsageError(
            "no schema is there",
            where=str(folder),
            seen="no file that ends in .json",
            expected="JSON schemas",
            hint="a file for each schema, as it stands in response_format.json_schema",
        )
    found: dict[str, Constraint] = {}
    faults: list[UsageError] = []
    for path in paths:
        try:
            one = _read_schema(path)
        except UsageError as fault:
            faults.append(fault)
        else:
            found[one.key] = one
    if not found:
        raise faults[0]
    told = [f"{fault.where}: {fault.message}, so it is no schema here" for fault in faults[:_MOST_NAMED]]
    if (more := len(faults) - _MOST_NAMED) > 0:
        told.append(f"{folder}: {plural(more, 'more file')} that {'is' if more == 1 else 'are'} no schema")
    return SchemaFiles(tuple(found.values()), tuple(told))


def _read_schema(path: Path) -> Constraint:
    content = _decoded(path, _bytes(path))
    if isinstance(content, dict) and isinstance(content.get("schema"), dict):
        content = content["schema"]
    if not isinstance(content, dict | bool):
        raise UsageError(
            "no JSON schema", where=str(path), seen=type(content).__name__, expected="a JSON object", hint=_HINT
        )
    key = blake2b(msgspec.json.encode(["json_schema", content]), digest_size=_KEY_BYTES).hexdigest()
    return Constraint(key, "json_schema", content)


def _bytes(path: Path) -> bytes:
    """All of the file, within the bound. A pipe or a device is not opened: it could wait, or go on, for ever."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(
                "not a regular file", where=str(path), seen="a pipe, a device, a socket or a folder", hint=_HINT
            )
        with path.open("rb") as file:
            raw = file.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError("it cannot be read", where=str(path), seen=error.strerror, hint=_HINT) from None
    if len(raw) > MOST_FILE_BYTES:
        raise UsageError(
            "too large for a schema",
            where=str(path),
            seen=f"more than {MOST_FILE_BYTES} bytes",
            expected=f"at most {MOST_FILE_BYTES}",
            hint=_HINT,
        )
    return raw


class _TwiceError(Exception):
    """An object has one key twice."""


def _decoded(path: Path, raw: bytes) -> object:
    try:
        content = msgspec.json.decode(raw)
        json.loads(raw, object_pairs_hook=_once)  # readers differ in which of two values they keep
    except _TwiceError:
        raise UsageError(
            "a key stands twice in one object",
            where=str(path),
            seen="JSON whose readers differ",
            expected="each key once",
            hint="leave one of the two out: libraries keep the first, the last, or refuse it",
        ) from None
    except (ValueError, RecursionError) as error:
        raise UsageError("not JSON", where=str(path), seen=str(error), expected="a JSON schema", hint=_HINT) from None
    return content


def _once(pairs: list[tuple[str, object]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        raise _TwiceError
