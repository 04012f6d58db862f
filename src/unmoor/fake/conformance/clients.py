"""Clients that are known by name, as data: how each is called, and how its result file is read."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path

import msgspec

from unmoor.core.errors import UsageError
from unmoor.core.nearest import did_you_mean
from unmoor.fake.conformance.reading import Reads

PLACES = ("url", "model", "requests", "rate", "tokens", "out", "dir", "seconds")
"""What a command's template may have in braces; `tokenizer` too, where one is given."""


class Client(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a client is called. In `command` and in `files` (name: text, written beside) `{place}` is filled in.

    After it come the words of `chat`, of `completions` for that endpoint, or of `capped`: chat with one request in
    flight at a time; None: it is not called so. `printed` says that its standard output is the result file.
    """

    command: tuple[str, ...]
    reads: Reads
    about: str = ""
    chat: tuple[str, ...] = ()
    completions: tuple[str, ...] | None = None
    capped: tuple[str, ...] | None = None
    random_arrivals: bool = False
    printed: bool = False
    files: dict[str, str] = {}

    @property
    def wants_tokenizer(self) -> bool:
        """Whether a tokenizer must be named."""
        return any("{tokenizer}" in text for text in (*self.command, *self.files.values()))


def known_clients() -> dict[str, Client]:
    """Every client that ships, by name."""
    text = (files(__package__) / "clients.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, Client])


def client_named(name: str) -> Client:
    """The client of this name. Raises UsageError for none."""
    known = known_clients()
    if name not in known:
        raise UsageError(
            "no such client",
            where="CLIENT",
            seen=name,
            expected="the name of a client that is known, or none and --command",
            hint=did_you_mean(name, known),
        )
    return known[name]


def client_from_template(command: str, reads: str) -> Client:
    """A client of the user's own. `reads` names a known client whose result files it writes, or a TOML file.

    Raises UsageError for a template that cannot be filled in, and for a format that cannot be read.
    """
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise _bad_command(command, str(error)) from None
    if not words:
        raise _bad_command(command, "no word")
    if not any("{url}" in word for word in words):
        raise _bad_command(command, "no {url}")
    _fill(words, dict.fromkeys((*PLACES, "tokenizer"), ""))
    return Client(command=words, reads=_reads(reads))


def filled(texts: tuple[str, ...], places: dict[str, str]) -> tuple[str, ...]:
    """The texts with each `{place}` filled in. Raises UsageError for a place that is none."""
    return _fill(texts, places)


def _fill(texts: tuple[str, ...], places: dict[str, str]) -> tuple[str, ...]:
    try:
        return tuple(text.format_map(places) for text in texts)
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        raise _bad_command(" ".join(texts), f"{type(error).__name__} {error}") from None


def _bad_command(command: str, seen: str) -> UsageError:
    return UsageError(
        "the command cannot be used",
        where="--command",
        seen=f"{seen} in: {command[:200]}",
        expected=f"a command with {{url}}, and any of {', '.join('{' + place + '}' for place in PLACES)}",
        hint="mybench --url {url} --requests {requests} --rate {rate} --out {out}; {{ and }} are braces",
    )


def _reads(name: str) -> Reads:
    known = known_clients()
    if name in known:
        return known[name].reads
    path = Path(name)
    if path.suffix != ".toml":
        raise UsageError(
            "no such format",
            where="--reads",
            seen=name,
            expected=f"one of {', '.join(known)}, or a TOML file",
            hint="docs/reference/conformance.md shows what such a file says",
        )
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Reads)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(
            "the format cannot be read",
            where=f"--reads {name}",
            seen=getattr(error, "strerror", None) or str(error),
            expected="a TOML file with `file` and a table for each figure",
            hint="docs/reference/conformance.md shows what such a file says",
        ) from None
