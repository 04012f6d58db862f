"""The edge where plans and logs are read from disk, for every verb that takes one."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from unmoor.cli.scratch_files import ScratchFiles
from unmoor.cli.symbol_file import SymbolFile
from unmoor.core.errors import PlanError, TrafficError, UserError
from unmoor.core.evidence import Caveat
from unmoor.core.plan import Plan
from unmoor.core.plan_text import read_plan
from unmoor.core.traffic import Workload
from unmoor.traffic.conversion import workload_of
from unmoor.traffic.log import Traffic
from unmoor.traffic.readers import Cutter, LogFile, Source, Watch, read_traffic
from unmoor.traffic.synthesis import synthesise
from unmoor.traffic.text.pieces import BytesCutter

STANDARD_INPUT = "-"
_KEY_BYTES = 32
_NAMED = 5
_LOG = "a request log or trace"
_FORMATS = "docs/reference/traffic.md lists the formats"
_HIDDEN = "hidden"
_DOCUMENTATION = re.compile(
    r".*\.(md|markdown|rst|adoc)|(readme|licen[cs]e|notice|changelog|changes|copying)(\.txt)?", re.IGNORECASE
)
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::-(?P<default>[^}]*))?\}|(?P<plain>\w+))")
_PUBLIC_TRACES = {
    "mooncake": (
        "the Mooncake conversation trace (Apache-2.0, 3 MB) is for you to download: "
        "FAST25-release/traces/conversation_trace.jsonl of github.com/kvcache-ai/Mooncake"
    ),
    "azure": (
        "the Azure traces (CC-BY-4.0) are for you to download: "
        "data/AzureLLMInferenceTrace_conv.csv of github.com/Azure/AzurePublicDataset"
    ),
}


def open_plan(path: Path) -> tuple[Plan, str]:
    """The plan in the file `path`, and its text.

    Raises PlanError for a file that is missing, a folder, not readable, not UTF-8, or not a plan.
    """
    text = read_text(path, error=PlanError, expected="a plan in TOML", hint="examples/agents/plan.toml is one")
    return read_plan(text, where=shown(path)), text


def open_workload(plan: Plan, *, base: Path) -> Workload:
    """The plan's traffic, to be replayed: its file's, or what its description stands for. Raises as `plan_log`."""
    if plan.traffic.synthetic is not None:
        return synthesise(plan.traffic.synthetic)
    return workload_of(plan_log(plan, base=base))


def plan_log(plan: Plan, *, base: Path, watch: Watch | None = None) -> Traffic:
    """The log in the plan's file, relative to `base` (the plan's folder); `watch` sees its requests.

    `~`, `$NAME`, `${NAME}` and `${NAME:-default}` in the path are expanded.

    Raises TrafficError for a file that is missing or cannot be read as traffic, and PlanError for a variable that is
    not set and has no default.
    """
    written = plan.traffic.path or ""
    where = f"plan '{plan.name}', traffic.path"
    named = expand(written, where=where)
    path = base / _at_home(named, where=where)
    if not named or not (_is_file(path) or _is_folder(path)):
        raise TrafficError(
            "no such traffic",
            where=where,
            seen=shown(path) if named else "an empty name",
            expected=_LOG,
            hint=_how_to_get(plan),
        )
    return open_traffic(path, format_name=plan.traffic.format, watch=watch)


def _at_home(written: str, *, where: str) -> Path:
    try:
        return Path(written).expanduser()
    except RuntimeError:
        raise TrafficError(
            "no such user's folder",
            where=where,
            seen=written,
            expected="a path; ~ alone is your own folder, ~NAME that of the user NAME",
            hint="write the path without ~, or set a variable",
        ) from None


def _is_file(path: Path) -> bool:
    """Whether there is a file; a path that the system would not even look for is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def shown(path: Path) -> str:
    """The path as text for people and JSON; bytes that are no UTF-8 stand as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def open_traffic(
    path: Path,
    *,
    format_name: str | None = None,
    cutter: Cutter | None = None,
    most_broken: int | None = None,
    watch: Watch | None = None,
) -> Traffic:
    """The log in the file or folder `path`, or from standard input for `-`, streaming; the rest as for `read_traffic`.

    Content as text is told apart by bytes unless `cutter` is given, under a key that is forgotten.

    Of a folder, all files below it are read, in the order of their names. Hidden ones, documentation, links to folders,
    links to nothing and pipes are passed over, and a caveat names them. What is kept of a log larger than memory is in
    temporary files.

    Raises TrafficError for one that is missing or cannot be read as traffic, or has a folder below it that cannot.
    """
    where = "standard input" if str(path) == STANDARD_INPUT else shown(path)
    with _log_files(path) as (source, notes), SymbolFile() as store:
        traffic = read_traffic(
            source,
            where=where,
            format_name=format_name,
            cutter=cutter or BytesCutter(secrets.token_bytes(_KEY_BYTES)),
            most_broken=most_broken,
            watch=watch,
            store=store,
            scratch=ScratchFiles(),
        )
    return replace(traffic, caveats=(*notes, *traffic.caveats)) if notes else traffic


@contextmanager
def _log_files(path: Path) -> Iterator[tuple[Source, tuple[Caveat, ...]]]:
    """What is to be read, and what in a folder is not."""
    if str(path) == STANDARD_INPUT:
        yield _standard_input(), ()
    elif _is_folder(path):
        logs, others = _found_below(path)
        if not logs:
            seen = f"a folder without a file, but with {_listed(others)}" if others else "a folder without a file"
            raise TrafficError("no request in it", where=shown(path), seen=seen, expected=_LOG, hint=_FORMATS)
        yield _files_of(path, logs), _entries_passed_over(others)
    else:
        with _opened(path) as stream:
            yield stream, ()


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise TrafficError(
            "cannot be read",
            where="standard input",
            seen="closed by who started unmoor",
            expected=_LOG,
            hint="pipe the log in, or name its file",
        )
    return sys.stdin.buffer


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _found_below(folder: Path) -> tuple[list[Path], list[str]]:
    """The files below `folder`, relative to it, in the order of their paths; and what else is there, as text.

    Hidden files and folders, and documentation, are left out. No link to a folder is followed: it may lead back. Raises
    TrafficError for a folder that cannot be read.
    """
    logs: list[Path] = []
    others: list[tuple[Path, str]] = []
    folders = [folder]
    while folders:
        at = folders.pop()
        with _told_as(
            TrafficError, at, expected="a folder that can be read", hint="chmod u+rx, or name the files that can"
        ):
            for entry in map(Path, os.scandir(at)):
                name = entry.relative_to(folder)
                if kind := _kind(entry):
                    others.append((name, kind))
                elif entry.is_dir():
                    folders.append(entry)
                else:
                    logs.append(name)
    others.sort(key=lambda other: (other[1] == _HIDDEN, other[0]))
    return sorted(logs), [f"{shown(name)} ({kind})" for name, kind in others]


def _kind(entry: Path) -> str | None:
    """What an entry of a folder is that is not read; None for a log, or a folder to look into."""
    if entry.name.startswith("."):
        return _HIDDEN
    if entry.is_file():
        return "documentation" if _DOCUMENTATION.fullmatch(entry.name) else None
    if not entry.is_symlink():
        return None if entry.is_dir() else "a pipe or a device"
    return "a link to a folder" if entry.is_dir() else "a link to no file"


def _files_of(folder: Path, logs: Sequence[Path]) -> Iterator[LogFile]:
    """The files, opened one after another."""
    for log in logs:
        with _opened(folder / log) as stream:
            yield LogFile(name=shown(folder / log), stream=stream)


def _entries_passed_over(others: Sequence[str]) -> tuple[Caveat, ...]:
    if not others:
        return ()
    text = f"The folder also holds what was passed over: {_listed(others)}."
    return (Caveat(code="entries_passed_over", text=text),)


def _listed(others: Sequence[str]) -> str:
    return ", ".join(others[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with _told_as(TrafficError, path, expected=_LOG, hint=_FORMATS):
        stream = path.open("rb")
    with stream:
        yield stream


def read_text(path: Path, *, error: type[UserError], expected: str, hint: str) -> str:
    """The text of `path`, in UTF-8. Raises `error` for one that is missing, a folder, not readable or not UTF-8."""
    content = read_file(path, error=error, expected=expected, hint=hint)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = content.count(b"\n", 0, failure.start) + 1
        seen = f"byte 0x{content[failure.start]:02x} at offset {failure.start}"
        raise error("not UTF-8", where=f"{shown(path)}:{line}", seen=seen, expected=expected, hint=hint) from None


def read_file(path: Path, *, error: type[UserError], expected: str, hint: str) -> bytes:
    """The bytes of `path`. Raises `error` for one that is missing, a folder or not readable."""
    with _told_as(error, path, expected=expected, hint=hint):
        return path.read_bytes()


@contextmanager
def _told_as(error: type[UserError], path: Path, *, expected: str, hint: str) -> Iterator[None]:
    """What the system says of a path as `error`."""
    try:
        yield
    except OSError as failure:
        seen = {FileNotFoundError: "nothing at this path", IsADirectoryError: "a folder"}.get(type(failure))
        seen = seen or failure.strerror or type(failure).__name__
        raise error("cannot be read", where=shown(path), seen=seen, expected=expected, hint=hint) from None


def expand(text: str, *, where: str) -> str:
    """`text` with `$NAME`, `${NAME}` and `${NAME:-default}` filled from the environment.

    As in a shell, a default also stands for a variable that is set but empty. Raises PlanError for a variable that is
    not set and has no default.
    """

    def value(found: re.Match[str]) -> str:
        name = found["braced"] or found["plain"]
        set_to = os.environ.get(name, "")
        if set_to or found["default"] is not None:
            return set_to or found["default"]
        raise PlanError(
            f"the variable {name} is not set",
            where=where,
            seen=found[0],
            expected=f"{name} in the environment",
            hint=f"export {name}=..., or write ${{{name}:-default}}",
        )

    return _VARIABLE.sub(value, text)


def _how_to_get(plan: Plan) -> str:
    name = f"{plan.traffic.format} {plan.traffic.path}".lower()
    hint = next((hint for trace, hint in _PUBLIC_TRACES.items() if trace in name), None)
    if hint is None:
        return "paths are relative to the plan's folder; `~` and $VARIABLES are expanded"
    return f"{hint}. {_where_to_save(plan.traffic.path or '')}"


def _where_to_save(written: str) -> str:
    """Under which name to save it, and which variable of the path says in which folder."""
    save = f"Save it as {Path(written).name}"
    variable = next((found["braced"] or found["plain"] for found in _VARIABLE.finditer(written)), None)
    return (
        f"{save} and set {variable} to the folder it is in" if variable else f"{save} where traffic.path looks for it"
    )
