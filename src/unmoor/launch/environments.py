"""One isolated environment for each engine: what would be installed is told first, and nothing outside it is touched.

An environment is whole when `installed.json` is there, which is written last. One without it, left by a process that
was killed, is remade; pip keeps what it had already brought in its own cache.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from unmoor.core.errors import EngineMissingError, InstallError, UsageError
from unmoor.engines.contract import Engine, InstallSpec
from unmoor.launch.home import engines_folder, held, writing
from unmoor.launch.pip import pip_install, refuse_accelerator_torch, run_quietly

Say = Callable[[str], None]
Ask = Callable[[str], bool]

MARKER = "installed.json"


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """An environment that is whole. `python` is its interpreter, `version` what it says of itself."""

    name: str
    python: str
    version: str
    root: str
    requirements: tuple[str, ...]


class InstallPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What will be installed, from whom, how big and under which licence: told before anything is brought."""

    name: str
    title: str
    requirements: tuple[str, ...]
    publisher: str
    licence: str
    size_mb: int
    third_party: bool
    root: str

    def lines(self) -> tuple[str, ...]:
        """The plan in words, a line each."""
        by = f"{self.publisher} (a third-party build: not published by the engine's own project)"
        return (
            f"{self.title}: {', '.join(self.requirements)}",
            f"  published by  {by if self.third_party else self.publisher}",
            f"  licence       {self.licence}",
            f"  size          about {self.size_mb} MB with what it needs",
            f"  into          {self.root}",
        )


def installed(engine_name: str) -> Installed | None:
    """The environment called `engine_name`; None where it is missing or not whole."""
    return read_installed(engines_folder() / engine_name)


def read_installed(root: Path) -> Installed | None:
    """The environment in `root`; None where it is missing or not whole."""
    try:
        found = msgspec.json.decode((root / MARKER).read_bytes(), type=Installed)
    except (OSError, msgspec.DecodeError):
        return None
    return found if os.path.exists(found.python) else None  # noqa: PTH110 - False, not an error, where we may not look


def require(engine_name: str) -> Installed:
    """The environment called `engine_name`. Raises EngineMissingError where it is missing or not whole."""
    found = installed(engine_name)
    if found is None:
        raise EngineMissingError(
            f"'{engine_name}' is not installed here",
            where=str(engines_folder() / engine_name),
            hint=f"unmoor engines install {engine_name}",
        )
    return found


def plan_install(engine: Engine) -> InstallPlan:
    """What `install` would bring for `engine`. Raises EngineMissingError where it cannot run here, and says why."""
    if engine.install is None:
        raise EngineMissingError(
            f"{engine.title} cannot be installed here", where=engine.name, seen=engine.absent_reason
        )
    return plan_environment(engine.name, engine.title, engine.install)


def plan_environment(name: str, title: str, spec: InstallSpec) -> InstallPlan:
    """What `install_environment` would bring."""
    return InstallPlan(
        name=name,
        title=title,
        requirements=spec.requirements,
        publisher=spec.publisher,
        licence=spec.licence,
        size_mb=spec.size_mb,
        third_party=spec.third_party,
        root=str(engines_folder() / name),
    )


def install(engine: Engine, *, torch_index: str | None, say: Say, ask: Ask) -> Installed:
    """The environment of `engine`, made if it is not whole yet.

    `torch_index` is a package index, or a folder, with a CPU build of torch. `ask` is given a question after the plan
    has been said. Raises UsageError when the answer is no; InstallError when pip fails or an accelerator's build of
    torch would come; EngineMissingError where the engine cannot run here.
    """
    plan = plan_install(engine)
    if engine.install is None:  # pragma: no cover - plan_install has raised
        raise AssertionError(engine.name)
    return install_environment(plan, engine.install, torch_index=torch_index, say=say, ask=ask)


def install_environment(
    plan: InstallPlan, spec: InstallSpec, *, torch_index: str | None, say: Say, ask: Ask
) -> Installed:
    """The environment of `plan`, made if it is not whole, does not load or was made from other requirements."""
    found = read_installed(Path(plan.root))
    if found is not None and found.requirements == spec.requirements:
        say(f"{plan.title} is there: seeing whether it loads")
        if _loads(found, spec):
            say(f"{plan.title} {found.version} is installed already: {found.root}")
            return found
        say(f"{plan.title} is there and does not load any more: it is made again")
    for line in plan.lines():
        say(line)
    if not ask(f"Install {plan.title}?"):
        raise UsageError(f"{plan.title} was not installed", hint="nothing was changed; --yes answers yes")
    root = Path(plan.root)
    with held(root) as lock, writing(root):
        return _make(plan, spec, lock=lock, torch_index=torch_index, say=say)


def _make(plan: InstallPlan, spec: InstallSpec, *, lock: int, torch_index: str | None, say: Say) -> Installed:
    root = Path(plan.root)
    python, log = _empty_venv(root, lock=lock, say=say), root / "install.log"
    if spec.needs_cpu_torch:
        torch = tuple(one for one in spec.requirements if one.startswith("torch=="))
        refuse_accelerator_torch(python, torch, torch_index=torch_index, log=log, lock=lock, say=say)
        pip_install(python, torch, index=torch_index, log=log, lock=lock, say=say)
    pip_install(python, spec.requirements, index=None, log=log, lock=lock, say=say, exact=spec.exact)
    if spec.remove_after:
        say(f"removing {', '.join(spec.remove_after)}, which must not stay")
        run_quietly([str(python), "-m", "pip", "uninstall", "--yes", *spec.remove_after], log=log, lock=lock)
    version = _probe(python, spec, log=log, lock=lock)
    done = Installed(
        name=plan.name, python=str(python), version=version, root=str(root), requirements=spec.requirements
    )
    part = root / f"{MARKER}.part"
    part.write_bytes(msgspec.json.encode(done))
    part.replace(root / MARKER)
    say(f"{plan.title} {version} is installed")
    return done


def _empty_venv(root: Path, *, lock: int, say: Say) -> Path:
    """The interpreter of a new environment in `root`; whatever stood there goes."""
    root.mkdir(parents=True, exist_ok=True)
    _clear(root / MARKER)
    if os.path.lexists(root / "venv"):
        say("an unfinished environment is there: it is remade")
        _clear(root / "venv")
    _clear(root / "install.log")
    say("making an environment")
    try:
        # "-I": a venv.py in the current folder must not be run instead. The child keeps the lock should we be killed.
        run_quietly([sys.executable, "-I", "-m", "venv", str(root / "venv")], log=root / "install.log", lock=lock)
    except InstallError as error:
        raise InstallError(
            "a virtual environment could not be made",
            where=str(root / "venv"),
            seen=error.seen,
            hint=_venv_hint((root / "install.log").read_text(errors="replace"), error.hint),
        ) from None
    return root / "venv" / "bin" / "python"


def _venv_hint(said: str, otherwise: str | None) -> str | None:
    if "ensurepip is not available" in said or "No module named" in said:
        return "on Debian and Ubuntu the venv module is a package of its own: apt install python3-venv"
    return otherwise


def _clear(path: Path) -> None:
    """Removes what stands there; of a link, the link alone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _loads(found: Installed, spec: InstallSpec) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        try:
            _probe(Path(found.python), spec, log=Path(folder) / "probe.log", lock=None)
        except (InstallError, OSError):  # an OSError: the interpreter itself cannot be run
            return False
    return True


def _probe(python: Path, spec: InstallSpec, *, log: Path, lock: int | None) -> str:
    """The version that is told once the module has been imported there. Raises InstallError when it cannot be."""
    module = spec.imports
    told = f"version('{spec.distribution}')" if spec.distribution else "getattr(m, '__version__', None)"
    # What follows a dash names a build, not a version.
    code = (
        f"import {module} as m; from importlib.metadata import version; "
        f"print('version', ({told} or version('{module}')).partition('-')[0])"
    )
    argv = [str(python), "-I", "-c", code]
    told = run_quietly(argv, log=log, lock=lock, failed=f"'{module}' does not load in its environment")
    return next(line.removeprefix("version ") for line in told.splitlines() if line.startswith("version "))
