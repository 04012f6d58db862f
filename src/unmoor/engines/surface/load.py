"""Brings an engine's surface at a version: the known one, the nearest with a caveat, or none where that is asked."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from unmoor.core.errors import UsageError
from unmoor.core.evidence import Caveat
from unmoor.core.nearest import did_you_mean
from unmoor.engines.surface.surface import Surface

_KNOWN = "unmoor.engines.surface.known"
_NUMBER = re.compile(r"\d+", re.ASCII)
_VERSION = re.compile(
    r"[vb]?(?P<public>\d{1,12}(?:\.\d{1,12}){0,7}(?:[._-]?[a-z][a-z0-9]{0,15}(?:[._-]?[a-z0-9]{1,15}){0,4})?)"
    r"(?:[+-][a-z0-9]{1,40}(?:[._-][a-z0-9]{1,40}){0,7})?",
    re.ASCII | re.IGNORECASE,
)
_MOST_SHOWN = 60
"""So much of what was asked for is repeated in an error."""


def known_surfaces() -> dict[str, tuple[str, ...]]:
    """The engines whose surface is known, each with its known versions, the newest last."""
    found: dict[str, list[str]] = {}
    for file in files(_KNOWN).iterdir():
        if file.name.endswith(".toml"):
            engine, _, version = file.name.removesuffix(".toml").partition("@")
            found.setdefault(engine, []).append(version)
    return {engine: tuple(sorted(found[engine], key=_order)) for engine in sorted(found)}


def surface(asked: str, *, where: str | None = None, strict: bool = False) -> Surface:
    """The surface of `asked`, ENGINE or ENGINE@VERSION; without a version the newest known one.

    Versions are equal as PEP 440 has it: 0.32 is 0.32.0, v0.32.0 and the build 0.32.0+cpu (also llama.cpp's b11434).
    A version that is not known gets the nearest below it, else the nearest above, with the caveat "nearest_version".
    Raises UsageError for an unknown engine, for what is no version, and under `strict` for an unknown version.
    """
    engine, at, version = asked.partition("@")
    known = known_surfaces()
    seen = asked if len(asked) <= _MOST_SHOWN else f"{asked[:_MOST_SHOWN]}... ({len(asked)} characters)"
    if engine not in known:
        raise UsageError(
            f"no surface is known of '{seen.partition('@')[0]}'",
            where=where,
            seen=seen,
            expected=f"one of {', '.join(known)}, with @VERSION or without",
            hint=did_you_mean(engine[:_MOST_SHOWN], known),
        )
    versions = known[engine]
    if not at:
        return _read(engine, versions[-1])
    written = _VERSION.fullmatch(version)
    if written is None:
        raise UsageError(
            "a version that cannot be read",
            where=where,
            seen=seen,
            expected=f"{engine}@ and a version such as {versions[-1]}",
            hint=f"known: {', '.join(versions)}",
        )
    version = written["public"]
    same = next((one for one in versions if _order(one) == _order(version)), None)
    if same is not None:
        return _read(engine, same)
    if strict:
        raise UsageError(
            f"the surface of {engine} {version} is not known",
            where=where,
            seen=seen,
            expected=f"one of {', '.join(versions)}",
            hint="without --strict the nearest is taken, with a caveat",
        )
    below = [one for one in versions if _order(one) <= _order(version)]
    nearest = below[-1] if below else versions[0]
    text = f"The surface of {engine} {version} is not known; that of {nearest} stands in for it."
    found = _read(engine, nearest)
    return msgspec.structs.replace(found, caveats=(*found.caveats, Caveat(code="nearest_version", text=text)))


@cache
def _read(engine: str, version: str) -> Surface:
    """The surface in its file; one that names a `base` is that of the base with its own statements put over it."""
    return msgspec.convert(_tree(engine, version), Surface)


def _tree(engine: str, version: str) -> dict[str, Any]:
    folder = files(_KNOWN)
    tree: dict[str, Any] = msgspec.toml.decode((folder / f"{engine}@{version}.toml").read_bytes())
    options = folder / f"{engine}@{version}.options.json"
    if options.is_file():
        tree["options"] = msgspec.json.decode(options.read_bytes())
    base = tree.pop("base", None)
    return tree if base is None else _over(_tree(engine, base), tree)


def _over(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """`base` with what `own` says in its place, statement by statement; an empty text takes a statement away."""
    merged = dict(base)
    for key, value in own.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict) and key != "options":
            merged[key] = {name: one for name, one in {**merged[key], **value}.items() if one != ""}
        else:
            merged[key] = value
    return merged


def _order(version: str) -> tuple[tuple[int, ...], int, str]:
    """How versions follow each other: by their numbers, where 0.32 is 0.32.0; rc, a, b, dev before the release."""
    parted = re.search(r"[._-]?(?=[a-z])|-", version, re.IGNORECASE)
    head, tail = (version[: parted.start()], version[parted.end() :]) if parted else (version, "")
    numbers = [int(number) for number in _NUMBER.findall(head)]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    after = 2 if tail.casefold().startswith("post") else 1
    return tuple(numbers), 0 if tail and after == 1 else after, tail.casefold()
