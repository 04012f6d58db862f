"""The names of an engine's metrics and routes that dashboards, alerts, autoscalers, probes and clients rely on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

from unmoor.core.errors import UsageError
from unmoor.core.plural import plural
from unmoor.engines.surface.load import known_surfaces
from unmoor.engines.surface.load import surface as surface_of
from unmoor.engines.surface.surface import Surface

MOST_BYTES = 8 * 1024 * 1024
MOST_FILES = 20_000
MOST_TOTAL = 512 * 1024 * 1024
MOST_PLACES = 100
"""Files above a size, and files and places beyond a number, are left out, and said so."""

_NOT_REGULAR = "a pipe, a device or a socket, not a regular file"
_MOST_WORDS = 200_000
_LABELS = 500
_BEFORE = 300

Shape = Literal["nested", "flat"]

_SUFFIXES = ("_bucket", "_sum", "_count", "_created")
_NAME = re.compile(r"[A-Za-z_][\w:.]{0,200}")
_BOUND = re.compile(r"""\ble\s*=~?\s*\\?["']([\d.|eE+-]+|\+?Inf)""")
_ROUTE = re.compile(r"/[A-Za-z][\w./-]*")
_NESTED = re.compile(
    r"""\[\s*["']error["']\s*\]\s*\[\s*["'](?:message|type|code|param)["']|\berror\?*\.(?:message|type|code|param)\b|"""
    r"""\.get\(\s*["']error["'][^)]{0,40}\)\s*\.get\(\s*["'](?:message|type|code|param)["']"""
)
_FLAT = re.compile(r"""["']object["']\s*(?:\]|\))?\s*(?:==|===|:)\s*["']error["']""")
_SKIPPED_FOLDERS = frozenset((".git", "node_modules", "__pycache__", ".venv", "venv"))


@dataclass(frozen=True, slots=True)
class NamesUsed:
    """Names found in files of the user's: each with the places ("dashboard.json:14") where it stands.

    `metrics` are under the name that the surfaces have, without a histogram's suffix; one that begins as the source's
    do and is in no surface is there as it is written. `routes` are paths. `buckets` are metrics read as histograms, by
    their buckets; `bounds` the bounds asked of them (le). `error_shapes` are the shapes of an error that code takes
    apart. `skipped` says which files were not looked at, `paths` where a file lies by the name that places give it.
    """

    metrics: Mapping[str, tuple[str, ...]]
    routes: Mapping[str, tuple[str, ...]]
    buckets: Mapping[str, tuple[str, ...]]
    files: int = 0
    bounds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    error_shapes: Mapping[Shape, tuple[str, ...]] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    paths: Mapping[str, str] = field(default_factory=dict)


def find_names(paths: Sequence[Path], surface: Surface) -> NamesUsed:
    """Every name of a metric or a route of any known engine in the files, and in those of the folders.

    What is no regular file is skipped, and told. Raises UsageError for a path that does not exist.
    """
    search = _Search(surface)
    for path in paths:
        for file in _files(path, search):
            search.paths.setdefault(_shown(file, path), str(file))
            search.look(file, _shown(file, path))
    return search.found()


def _files(path: Path, search: _Search) -> Iterator[Path]:
    if not path.exists():
        raise UsageError(
            "does not exist",
            where=str(path),
            seen="nothing",
            expected="a file or a folder with dashboards, alerts, probes or clients' code",
            hint="look for a slip in the path",
        )
    if path.is_file():
        yield path
        return
    if not path.is_dir():
        search.skip(f"{path}: {_NOT_REGULAR}")
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(one for one in folders if one not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            file = Path(folder) / name
            if search.files >= MOST_FILES:
                search.skip(f"{path}: files beyond the first {MOST_FILES:,}")
                return
            if file.is_file():
                yield file
            else:
                search.skip(f"{_shown(file, path)}: {_NOT_REGULAR if file.exists() else 'a link to nothing'}")


def _shown(file: Path, asked: Path) -> str:
    return file.name if file == asked else str(file.relative_to(asked))


class _Search:
    """What was found so far."""

    def __init__(self, surface: Surface) -> None:
        everyone = [surface, *(surface_of(engine) for engine in known_surfaces() if engine != surface.engine)]
        self._metrics = _spellings(everyone)
        self._prefixes = metric_prefixes(surface)
        self._routes = {
            route.path.partition("?")[0] for one in everyone for route in one.routes.values() if route.path
        } | _in_notes(everyone)
        self._places: dict[str, dict[str, dict[str, None]]] = {}
        self._bounds: dict[str, dict[str, None]] = {}
        self._seen: dict[str, tuple[str | None, bool]] = {}
        self._skipped: dict[str, None] = {}
        self._bytes = 0
        self.files = 0
        self.paths: dict[str, str] = {}

    def skip(self, what: str) -> None:
        """Says that something was not looked at."""
        self._skipped[what] = None

    def look(self, file: Path, shown: str) -> None:
        """Looks through one file."""
        try:
            size = file.stat().st_size
            if size > MOST_BYTES:
                self.skip(f"{shown}: larger than {MOST_BYTES // 1024**2} MiB")
                return
            if self._bytes + size > MOST_TOTAL:
                self.skip(f"{shown}: beyond the first {MOST_TOTAL // 1024**2} MiB")
                return
            self._bytes += size
            raw = file.read_bytes()
        except OSError as error:
            self.skip(f"{shown}: {error.strerror or 'cannot be read'}")
            return
        if b"\x00" in raw[:8192]:
            self.skip(f"{shown}: not a text")
            return
        self.files += 1
        for number, line in enumerate(raw.decode("utf-8", errors="replace").splitlines(), 1):
            self._line(line, f"{shown}:{number}")

    def _line(self, line: str, place: str) -> None:
        for token in _NAME.finditer(line):
            name, is_bucket = self._metric(token[0])
            if name is None:
                continue
            self._put("metrics", name, place)
            if is_bucket:
                self._put("buckets", name, place)
                self._take_bounds(name, line[token.end() : token.end() + _LABELS])
        for match in _ROUTE.finditer(line):
            if route := self._route(match[0], line[max(0, match.start() - _BEFORE) : match.start()]):
                self._put("routes", route, place)
        if _NESTED.search(line):
            self._put("errors", "nested", place)
        if _FLAT.search(line):
            self._put("errors", "flat", place)

    def _take_bounds(self, name: str, after: str) -> None:
        """The bounds in the labels that follow a bucket's name."""
        if after.startswith("{"):
            for bounds in _BOUND.findall(after.partition("}")[0]):
                for bound in bounds.split("|"):
                    self._bounds.setdefault(name, {})[bound] = None

    def _metric(self, token: str) -> tuple[str | None, bool]:
        """The metric that a token is, and whether it is read by its buckets; None for any other word."""
        found = self._seen.get(token)
        if found is None:
            found = self._looked_up(token)
            if len(self._seen) < _MOST_WORDS:
                self._seen[token] = found
        return found

    def _looked_up(self, token: str) -> tuple[str | None, bool]:
        for candidate in _candidates(token.rstrip(".:")):
            base = candidate
            for suffix in _SUFFIXES:
                if candidate not in self._metrics and candidate.endswith(suffix):
                    base = candidate.removesuffix(suffix)
            name = self._metrics.get(base) or self._metrics.get(f"{base}_total")
            if name is not None:
                return name, candidate.endswith("_bucket")
        if any(token.startswith(prefix) and token[len(prefix) + 2 :] for prefix in self._prefixes):
            return _base(token), False
        return None, False

    def _route(self, written: str, before: str) -> str | None:
        """The route that a path is, where it is a path of a URL and not of a file."""
        path = written.rstrip("./")
        if path in self._routes:
            is_url = (
                not before
                or not re.search(r"[\w.)-]$", before)
                or re.search(r":(?:\d+|\$\w+)$|//[\w.-]+$|\$\w+$", before)
            )
            return path if is_url else None
        if before.endswith("/"):  # https://host/path: the host belongs to the match
            _, mark, rest = path[1:].partition("/")
            return f"/{rest}" if mark and f"/{rest}" in self._routes else None
        return None

    def _put(self, kind: str, name: str, place: str) -> None:
        places = self._places.setdefault(kind, {}).setdefault(name, {})
        if len(places) < MOST_PLACES:
            places[place] = None

    def found(self) -> NamesUsed:
        """All of it."""
        told = {kind: {name: tuple(places) for name, places in names.items()} for kind, names in self._places.items()}
        shapes: dict[Shape, tuple[str, ...]] = {}
        for shape in ("nested", "flat"):
            if shape in told.get("errors", {}):
                shapes[shape] = told["errors"][shape]
        return NamesUsed(
            metrics=told.get("metrics", {}),
            routes=told.get("routes", {}),
            buckets=told.get("buckets", {}),
            files=self.files,
            bounds={name: tuple(bounds) for name, bounds in self._bounds.items()},
            error_shapes=shapes,
            skipped=_few(tuple(self._skipped)),
            paths=self.paths,
        )


def _few(skipped: tuple[str, ...], most: int = 5) -> tuple[str, ...]:
    more = len(skipped) - most
    return (*skipped[:most], f"and {plural(more, 'more file')}") if more > 0 else skipped


def _spellings(everyone: Sequence[Surface]) -> dict[str, str]:
    """Each way to write a metric's name to the name; a colon may have become an underscore or a dot on its way."""
    found: dict[str, str] = {}
    for one in everyone:
        for metric in one.metrics.values():
            for name in (*metric.names, *metric.formerly):
                for spelled in (name, name.replace(":", "_"), name.replace(":", ".")):
                    found.setdefault(spelled, name)
    return found


def metric_prefixes(surface: Surface) -> tuple[str, ...]:
    """How the names of an engine's own metrics begin: to the colon, or as far as all are alike."""
    names = [name for one in surface.metrics.values() for name in one.names]
    heads = {name.partition(":")[0] + ":" for name in names if ":" in name}
    if not heads and len(names) > 1:
        heads = {os.path.commonprefix(names).rpartition("_")[0] + "_"} - {"_"}  # noqa: RUF071 - names, not paths
    return tuple(sorted(heads))


def _base(token: str) -> str:
    base = token.split(".", maxsplit=1)[0]
    for suffix in _SUFFIXES:
        base = base.removesuffix(suffix)
    return base


def _candidates(token: str) -> Iterator[str]:
    """The token, and the pairs of its parts: a recording rule puts words before and behind a name."""
    yield token
    parts = token.split(":")
    yield from (f"{first}:{second}" for first, second in pairwise(parts))
    if ":" in token:
        yield from parts


def _in_notes(everyone: Sequence[Surface]) -> set[str]:
    """Routes that are only named in the notes beside others."""
    notes = [route.note for one in everyone for route in one.routes.values()]
    return {match.rstrip("./") for note in notes for match in re.findall(r"(?<![\w{])/[a-z_][\w/-]*", note)}
