"""pip, run as a child: its words go to a log, its progress is told in a few lines, its failures become ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from unmoor.core.errors import InstallError

Say = Callable[[str], None]

WORTH_SAYING_MB = 20.0
# "-I": neither the current folder nor PYTHONPATH may lend packages to an environment that is to be isolated.
PIP = ("-I", "-m", "pip", "--no-input", "--disable-pip-version-check")
# A user's own settings for pip that would put the packages elsewhere, or leave some out. Indexes and proxies stay.
NOT_FOR_US = frozenset(
    f"PIP_{name}" for name in ("TARGET", "PREFIX", "ROOT", "USER", "DRY_RUN", "NO_DEPS", "LOG", "REPORT", "PYTHON")
)
_DOWNLOADING = re.compile(r"\s*Downloading (\S+?)(?:\.metadata)? \(([\d.]+) (kB|MB|GB)\)")
# The last of the tries, told before it is made.
_UNREACHED = re.compile(r"WARNING: Retrying \(Retry\(total=0\b.* connection broken")
_FOUND = re.compile(r"\s*(?:Processing|Using cached) (\S+)(?: \(([\d.]+) (kB|MB|GB)\))?")
_INSTALLING = re.compile(r"Installing collected packages: (.*)")


def pip_install(
    python: Path,
    requirements: Sequence[str],
    *,
    index: str | None,
    log: Path,
    lock: int,
    say: Say,
    exact: bool = False,
) -> None:
    """Installs `requirements` into the environment of `python`. `index` is a further index or a folder of wheels.

    Under `exact` nothing is brought that they say they need. pip inherits `lock`, so that one which outlives us still
    keeps others out. Raises InstallError when it fails.
    """
    alone = ("--no-deps",) if exact else ()
    argv = [str(python), *PIP, "install", "--progress-bar", "off", *alone, *_index(index), *requirements]
    for line in _lines(argv, log=log, lock=lock):
        told = _worth_saying(line)
        if told:
            say(told)


def pip_download(python: str, requirement: str, *, into: Path, log: Path, lock: int, say: Say) -> None:
    """Brings the wheel of `requirement`, without what it depends on. Raises InstallError when pip fails."""
    argv = [python, *PIP, "download", "--progress-bar", "off", "--no-deps", "--only-binary=:all:"]
    for line in _lines([*argv, "--dest", str(into), requirement], log=log, lock=lock):
        told = _worth_saying(line)
        if told:
            say(told)


def refuse_accelerator_torch(
    python: Path, torch: Sequence[str], *, torch_index: str | None, log: Path, lock: int, say: Say
) -> None:
    """Raises InstallError when the torch that would come is built for an accelerator: gigabytes that do not load here.

    pip resolves without installing; a build for an accelerator brings that vendor's own libraries.
    """
    say("looking which build of torch would come")
    report = log.with_name("torch.json")
    argv = [str(python), *PIP, "install", "--dry-run", "--quiet", "--report", str(report), *_index(torch_index), *torch]
    run_quietly(argv, log=log, lock=lock)
    resolved = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    told = accelerator_build([(str(one["name"]), str(one["version"])) for one in resolved])
    if told is not None:
        raise InstallError(
            "the torch on the ordinary package index is built for an accelerator, not for a CPU",
            where=", ".join(torch),
            seen=told,
            expected="a CPU build of torch",
            hint="name an index that has one: --torch-index URL (the PyTorch project keeps a CPU index), or a folder",
        )
    say(
        "torch "
        + next((str(one["version"]) for one in resolved if one["name"] == "torch"), "is there")
        + ": a CPU build"
    )


def accelerator_build(resolved: Sequence[tuple[str, str]]) -> str | None:
    """What gives away a build for an accelerator among resolved (name, version) pairs; None for a CPU build."""
    for name, version in resolved:
        local = version.partition("+")[2]
        if name.startswith(("nvidia-", "pytorch-triton")) or local.startswith(("cu", "rocm", "xpu")):
            return f"{name} {version} would come"
    return None


def run_quietly(argv: Sequence[str], *, log: Path, lock: int | None = None, failed: str | None = None) -> str:
    """What `argv` prints; it is logged too. The child inherits `lock`.

    Raises InstallError, with the log's tail, when it fails.
    """
    return "\n".join(_lines(argv, log=log, lock=lock, failed=failed))


def isolated_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Our environment without what would lend a child other packages, or have pip install elsewhere."""
    return {name: value for name, value in ours.items() if not name.startswith("PYTHON") and name not in NOT_FOR_US}


def _lines(argv: Sequence[str], *, log: Path, lock: int | None = None, failed: str | None = None) -> Iterator[str]:
    """Each line as it is printed. The child is ended when we stop reading."""
    began = log.stat().st_size if log.exists() else 0
    with (
        log.open("a") as kept,
        subprocess.Popen(  # noqa: S603 - no shell; argv is ours
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=isolated_environment(os.environ),
            pass_fds=() if lock is None else (lock,),
        ) as child,
    ):
        try:
            for line in child.stdout or ():
                kept.write(line)
                kept.flush()
                yield line.rstrip("\n")
        except BaseException:
            child.terminate()
            raise
    if child.returncode != 0:
        raise failure(log.read_bytes()[began:].decode(errors="replace"), where=log, failed=failed)


def failure(text: str, *, where: Path, failed: str | None = None) -> InstallError:
    """The error for a child that failed and printed `text`, which lies in the log `where`."""
    lines = [line for line in text.splitlines() if line.strip()]
    # pip's own errors first; then an exception's last line, for what was run and not pip; then whatever came last.
    telling = [line for line in lines if line.startswith("ERROR")] or [
        line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)
    ]
    seen = "\n            ".join(line[:240] for line in telling[-3:] or lines[-1:])
    return InstallError(failed or "pip could not do it", where=str(where), seen=seen, hint=_hint(seen, lines))


def _hint(seen: str, lines: Sequence[str]) -> str:
    if "No space left" in seen:
        return "free space on the disk, then ask again: what was brought is kept"
    # pip that reached no index also ends with "No matching distribution": what it warned of before says which it was.
    if any(_UNREACHED.search(line) for line in lines):
        return "the package index did not answer: see to the network or proxy and ask again; what was brought is kept"
    if "No matching distribution" in seen or "Could not find a version" in seen:
        return "the package index that pip is set up for does not have it for this Python and machine"
    if any(word in seen for word in ("Connection", "Timeout", "timed out", "resolve")):
        return "the package index did not answer: ask again, what was brought is kept"
    return "the log says more; ask again: what was brought is kept"


def _worth_saying(line: str) -> str | None:
    """A line for people, for what takes long; None for the rest."""
    if found := _INSTALLING.match(line):
        return f"  installing {len(found[1].split(', '))} packages"
    if (found := _DOWNLOADING.match(line) or _FOUND.match(line)) and found[2]:
        size_mb = float(found[2]) * {"kB": 0.001, "MB": 1.0, "GB": 1000.0}[found[3]]
        if size_mb >= WORTH_SAYING_MB:
            return f"  bringing {Path(found[1]).name} ({size_mb:.0f} MB)"
    return None


def _index(index: str | None) -> tuple[str, ...]:
    if index is None:
        return ()
    is_index = "://" in index and not index.startswith("file:")
    return ("--extra-index-url" if is_index else "--find-links", index)
