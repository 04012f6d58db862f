"""The options that the source engine is started with, as a command line, a manifest or its own file says them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from unmoor.core.errors import UsageError
from unmoor.core.plural import plural
from unmoor.engines.surface.load import known_surfaces
from unmoor.engines.surface.load import surface as surface_of
from unmoor.engines.surface.surface import Start, Surface
from unmoor.leave.starting.options import Taken, take, take_keys
from unmoor.leave.starting.plain_yaml import containers, flat_keys, is_manifest
from unmoor.leave.starting.secrets import hidden
from unmoor.leave.starting.shell import Command, Word, commands, environment

MOST_BYTES = 4 * 1024 * 1024

_IN_DOCKERFILE = re.compile(r"(?m)^(?:CMD|ENTRYPOINT|FROM)\s")


@dataclass(frozen=True, slots=True)
class LaunchFlags:
    """One engine's start, taken apart.

    `given` maps each option as it was spelled ("--max-num-seqs") to its value ("" for a switch), and `lines` to the
    line where it stands; `concepts` maps the concepts of `Surface.flags` that they are to those values ("on" or "off"
    for a switch), and `spelled` to the option that said so. `unknown` are options that the source's surface has not,
    `gone` those that it had once, `prefixes` abbreviations, each with the options that it may be. `env` are variables
    set before the command. `model` is what it serves. `unread` says what else belongs to the start and was not read.
    A key, a token or a password is never in it: `starting.secrets.SECRET` stands in its place.
    """

    where: str
    given: Mapping[str, str]
    concepts: Mapping[str, str]
    unknown: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    spelled: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    prefixes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


def read_launch_flags(path: Path, surface: Surface) -> LaunchFlags:
    """What the file at `path` starts the engine of `surface` with.

    It holds a command as a shell takes it (with comments, variables, `docker run`), a container's manifest in YAML
    (`command` and `args`), a Dockerfile's CMD, or the engine's own configuration in flat YAML.

    Raises UsageError for a file that cannot be read, that starts nothing, another engine, or several servers.
    """
    where = str(path)
    text = _text(path)
    if path.suffix.casefold() in {".yaml", ".yml"} and not is_manifest(text):
        return _flags(where, take_keys(flat_keys(text, where=where), surface), {}, ())
    found = _commands(path, text)
    started = [one for one in (_started(command, surface) for command in found) if one is not None]
    if not started:
        started = [_bare(found, where, surface)]
    if len(started) > 1:
        lines = ", ".join(str(one.words[0].line if one.words else one.line) for one in started[:4])
        raise UsageError(
            f"{len(started)} servers are started here",
            where=where,
            seen=f"on lines {lines}",
            expected="one command that starts one server",
            hint="give one file for each server, and check them one by one",
        )
    return _with_files(_flags(where, take(started[0].words, surface), started[0].env, ()), path, surface)


@dataclass(frozen=True, slots=True)
class _Started:
    """The words after those that start the engine."""

    words: list[Word]
    env: Mapping[str, str]
    line: int


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise UsageError(
                "not a file",
                where=str(path),
                seen="a folder",
                expected="a file with the command that starts the engine",
                hint="name the file itself",
            )
        if path.exists() and not path.is_file():  # opening it could wait for ever
            raise UsageError(
                "not a regular file",
                where=str(path),
                seen="a pipe, a device or a socket",
                expected="a file with the command that starts the engine",
                hint="write the command into a file",
            )
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            "cannot be read",
            where=str(path),
            seen=error.strerror or type(error).__name__,
            expected="a file with the command that starts the engine",
            hint="allow the user who runs this to read it",
        ) from error
    if len(raw) > MOST_BYTES or b"\x00" in raw:
        raise UsageError(
            "no text of a command line",
            where=str(path),
            seen="binary content" if b"\x00" in raw else f"more than {MOST_BYTES:,} bytes",
            expected="a shell command, a container's manifest, or the engine's own configuration",
            hint="write the command into a file of its own",
        )
    return raw.decode("utf-8", errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")


def _commands(path: Path, text: str) -> list[Command]:
    where = str(path)
    if path.suffix.casefold() in {".yaml", ".yml"}:
        return _of_manifest(text, where)
    if _IN_DOCKERFILE.search(text):
        return _of_dockerfile(text, where)
    if path.suffix.casefold() == ".json":
        raise UsageError(
            "JSON is not read here",
            where=where,
            seen=path.name,
            expected="a shell command, or a manifest in YAML",
            hint="write the command line itself into a file: one command, as in a shell",
        )
    return commands(re.sub(r"(?m)^ExecStart=[-@:+!]*", "", text), where=where)


def _of_manifest(text: str, where: str) -> list[Command]:
    found: list[Command] = []
    for one in containers(text, where=where):
        words = [Word(one.image, one.line), *one.words]
        whole = Command(words=[word for word in words if word.text], env=dict(one.env))
        for script in one.script:
            parted = commands(script.text, where=where, line=script.line)
            if len(parted) == 1 or (parted and parted[0].words[0].text.startswith("-")):
                whole.words += [word for one_line in parted for word in one_line.words]  # they follow what came before
                whole.env.update(parted[0].env)
            else:
                found += parted
        if whole.words:
            inner = _shell_within(whole, where)
            found += inner or [whole]
    return found


def _shell_within(command: Command, where: str) -> list[Command]:
    """The commands that a container gives to a shell: ["sh", "-c", "..."]."""
    for at, word in enumerate(command.words[:-1]):
        if re.fullmatch(r"-[a-z]*c", word.text) and at and command.words[at - 1].text.endswith("sh"):
            script = command.words[at + 1]
            inner = commands(script.text, where=where, line=script.line)
            return [Command(words=one.words, env={**command.env, **one.env}) for one in inner]
    return []


def _of_dockerfile(text: str, where: str) -> list[Command]:
    joined = re.sub(r"\\\n", " ", text)
    env: dict[str, str] = {}
    words: list[Word] = []
    for number, line in enumerate(joined.split("\n"), 1):
        verb, _, rest = line.strip().partition(" ")
        if verb == "ENV":
            env.update(environment(rest.split()))
        elif verb == "FROM":
            words = [Word(rest.split()[0], number)] if rest.split() else []
        elif verb in {"CMD", "ENTRYPOINT"}:
            rest = rest.strip()
            if rest.startswith("["):
                words += [Word(item.strip().strip("\"'"), number) for item in rest.strip("[] ").split(",")]
            else:
                words += [word for one in commands(rest, where=where, line=number) for word in one.words]
    return [Command(words=words, env=env)] if words else []


def _started(command: Command, surface: Surface) -> _Started | None:
    """What follows the words that start this engine; None where they are not there."""
    start = surface.start
    if start is None:
        return None
    texts = [word.text for word in command.words]
    for form in sorted((start.command, *start.also), key=len, reverse=True):
        if (end := _after(texts, form.split())) is not None:
            env = {**command.env, **_container_env(texts[:end])}
            return _Started(command.words[end:], env, command.words[max(end - 1, 0)].line)
    for at, text in enumerate(texts):
        if _is_image(text, start):
            env = {**command.env, **_container_env(texts[:at])}
            return _Started(command.words[at + 1 :], env, command.words[at].line)
    return None


def _is_image(text: str, start: Start) -> bool:
    return not text.startswith("-") and any(
        re.search(rf"(?:^|/){re.escape(image)}(?:[:@-]|$)", text) for image in start.images
    )


def _after(texts: Sequence[str], form: Sequence[str]) -> int | None:
    """Where the words after `form` begin; its first word may be a path, and Python may have options and a version."""
    head, *rest = form
    for at, text in enumerate(texts):
        name = text.rpartition("/")[2].removesuffix(".exe")
        if head == "python":
            if not re.fullmatch(r"python[\d.]*", name):
                continue
            tail = at + 1
            while tail < len(texts) and texts[tail].startswith("-") and texts[tail] != rest[0]:
                tail += 1
        elif name == head:
            tail = at + 1
        else:
            continue
        if list(texts[tail : tail + len(rest)]) == rest:
            return tail + len(rest)
    return None


def _container_env(texts: Sequence[str]) -> Mapping[str, str]:
    """Variables that `docker run` is given."""
    pairs = [after for before, after in pairwise(texts) if before in {"-e", "--env"}]
    pairs += [text.partition("=")[2] for text in texts if text.startswith("--env=")]
    return environment(pairs)


def _bare(found: Sequence[Command], where: str, surface: Surface) -> _Started:
    """A file of options alone. Raises UsageError where it is none, naming the engine that it starts instead."""
    words = [word for command in found for word in command.words]
    if words and words[0].text.startswith("--"):
        return _Started(words, dict(pair for one in found for pair in one.env.items()), words[0].line)
    for command in found:
        image, *rest = command.words
        if rest and rest[0].text.startswith("--") and _knows_most(rest, surface):  # an image of the user's own
            return _Started(rest, command.env, image.line)
    for engine in known_surfaces():
        other = surface_of(engine)
        if engine != surface.engine and any(_started(command, other) for command in found):
            raise UsageError(
                f"this starts {other.title}",
                where=where,
                seen=other.start.command if other.start else other.title,
                expected=f"the command that starts {surface.title}, the engine to leave",
                hint=f"is it --from {engine}?",
            )
    raise UsageError(
        "no start of the engine was found",
        where=where,
        seen=plural(len(found), "command") if found else "nothing that is a command",
        expected=f"`{surface.start.command} ...`"
        if surface.start
        else f"the options of {surface.title}, beginning with --",
        hint="a shell command, a container's manifest, or the engine's own configuration in flat YAML",
    )


def _knows_most(words: list[Word], surface: Surface) -> bool:
    """Whether these are this engine's options, by their names."""
    taken = take(words, surface)
    return len(taken.spelled) > len(taken.unknown)


def _flags(where: str, taken: Taken, env: Mapping[str, str], unread: Iterable[str]) -> LaunchFlags:
    model = taken.concepts.get("model") or (taken.loose[0] if taken.loose else "")
    return LaunchFlags(
        where=where,
        given=taken.given,
        concepts=taken.concepts,
        unknown=tuple(taken.unknown),
        env={name: hidden(name, value) for name, value in env.items()},
        model=hidden("", model),
        spelled=taken.spelled,
        gone=tuple(taken.gone),
        prefixes=taken.prefixes,
        lines=taken.lines,
        unread=tuple(unread),
    )


def _with_files(flags: LaunchFlags, path: Path, surface: Surface) -> LaunchFlags:
    """With the configuration file that the command names, where it lies beside it; what the command says wins."""
    named = flags.concepts.get("config_file", "")
    if not named:
        return flags
    file = path.parent / named
    if not named.casefold().endswith((".yaml", ".yml")) or not file.is_file():
        return replace(flags, unread=(*flags.unread, f"{named}: the start names it, and it is not beside {path.name}"))
    keys = _flags(flags.where, take_keys(flat_keys(_text(file), where=str(file)), surface), {}, ())
    return replace(
        flags,
        given={**keys.given, **flags.given},
        concepts={**keys.concepts, **flags.concepts},
        spelled={**keys.spelled, **flags.spelled},
        lines={**keys.lines, **flags.lines},
        unknown=(*flags.unknown, *keys.unknown),
        gone=(*flags.gone, *keys.gone),
        model=flags.model or keys.model,
    )
