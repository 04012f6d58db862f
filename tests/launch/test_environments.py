"""Environments: told first, made whole or not at all, and remade after a kill."""

from __future__ import annotations

import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from unmoor.core.errors import EngineMissingError, InstallError, UsageError
from unmoor.engines.contract import InstallSpec
from unmoor.engines.registry import engine
from unmoor.launch.environments import InstallPlan, install_environment, plan_install, read_installed
from unmoor.launch.home import held
from unmoor.launch.pip import accelerator_build


def wheel(folder: Path, *, code: str = "__version__ = '1.2-build7'") -> Path:
    """A real wheel of one module, `tinyengine`."""
    made = folder / "tinyengine-1.2-py3-none-any.whl"
    about = "tinyengine-1.2.dist-info"
    with zipfile.ZipFile(made, "w") as packed:
        packed.writestr("tinyengine.py", code)
        packed.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tinyengine\nVersion: 1.2\n")
        packed.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr(f"{about}/RECORD", "")
    return made


def plan_and_spec(folder: Path, requirement: Path) -> tuple[InstallPlan, InstallSpec]:
    spec = InstallSpec(
        requirements=(str(requirement),),
        publisher="Somebody",
        licence="MIT",
        size_mb=1,
        third_party=True,
        imports="tinyengine",
    )
    plan = InstallPlan(
        name="tiny",
        title="Tiny",
        requirements=spec.requirements,
        publisher=spec.publisher,
        licence=spec.licence,
        size_mb=1,
        third_party=True,
        root=str(folder / "engines" / "tiny"),
    )
    return plan, spec


def test_an_environment_is_told_asked_for_made_and_then_kept(tmp_path: Path) -> None:
    plan, spec = plan_and_spec(tmp_path, wheel(tmp_path))
    said: list[str] = []
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        assert any("Somebody (a third-party build" in line for line in said)
        assert any("MIT" in line for line in said)
        assert not Path(plan.root).exists()
        return True

    done = install_environment(plan, spec, torch_index=None, say=said.append, ask=ask)
    assert asked == ["Install Tiny?"]
    assert done.version == "1.2"
    assert read_installed(Path(plan.root)) == done
    assert Path(done.python).is_relative_to(tmp_path)
    again = install_environment(plan, spec, torch_index=None, say=said.append, ask=ask)
    assert again == done
    assert len(asked) == 1


def test_no_changes_nothing(tmp_path: Path) -> None:
    plan, spec = plan_and_spec(tmp_path, wheel(tmp_path))
    with pytest.raises(UsageError, match="was not installed"):
        install_environment(plan, spec, torch_index=None, say=lambda _: None, ask=lambda _: False)
    assert not (tmp_path / "engines").exists()


def test_a_requirement_that_cannot_be_had_is_told_with_the_logs_tail(tmp_path: Path) -> None:
    plan, spec = plan_and_spec(tmp_path, tmp_path / "tinyengine-1.2-py3-none-any.whl")
    with pytest.raises(InstallError, match="pip could not do it") as raised:
        install_environment(plan, spec, torch_index=None, say=lambda _: None, ask=lambda _: True)
    assert "ERROR" in (raised.value.seen or "")
    assert raised.value.hint
    assert read_installed(Path(plan.root)) is None


def test_an_engine_that_does_not_load_there_is_not_called_installed(tmp_path: Path) -> None:
    plan, spec = plan_and_spec(tmp_path, wheel(tmp_path, code="raise OSError('libwidget.so is missing')"))
    with pytest.raises(InstallError, match="does not load") as raised:
        install_environment(plan, spec, torch_index=None, say=lambda _: None, ask=lambda _: True)
    assert raised.value.seen == "OSError: libwidget.so is missing"
    assert read_installed(Path(plan.root)) is None


INSTALLS = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
from test_environments import plan_and_spec
from unmoor.launch.environments import install_environment
plan, spec = plan_and_spec(Path({folder!r}), Path({wheel!r}))
install_environment(plan, spec, torch_index=None, say=lambda line: print(line, flush=True), ask=lambda _: True)
"""


def test_a_kill_in_the_middle_leaves_nothing_that_passes_for_whole(tmp_path: Path) -> None:
    made = wheel(tmp_path)
    plan, spec = plan_and_spec(tmp_path, made)
    code = INSTALLS.format(here=str(Path(__file__).parent), folder=str(tmp_path), wheel=str(made))
    venv = Path(plan.root) / "venv" / "bin" / "python"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL) as us:
        while not venv.exists():
            time.sleep(0.02)
        us.kill()
    assert read_installed(Path(plan.root)) is None
    said: list[str] = []
    done = install_environment(plan, spec, torch_index=None, say=said.append, ask=lambda _: True)
    assert done.version == "1.2"
    assert "an unfinished environment is there: it is remade" in said


def test_two_at_once_do_not_meet(tmp_path: Path) -> None:
    plan, spec = plan_and_spec(tmp_path, wheel(tmp_path))
    with held(Path(plan.root)), pytest.raises(InstallError, match="another process is working on 'tiny'"):
        install_environment(plan, spec, torch_index=None, say=lambda _: None, ask=lambda _: True)


@pytest.mark.parametrize(
    ("resolved", "told"),
    [
        ([("torch", "2.13.0+cpu"), ("numpy", "2.3.5"), ("triton", "3.9.0")], None),
        ([("torch", "2.13.0"), ("filelock", "3.0")], None),
        ([("torch", "2.13.0"), ("nvidia-cublas-cu13", "13.1")], "nvidia-cublas-cu13 13.1 would come"),
        ([("torch", "2.13.0+cu130")], "torch 2.13.0+cu130 would come"),
        ([("torch", "2.13.0+rocm7.2")], "torch 2.13.0+rocm7.2 would come"),
        ([], None),
    ],
)
def test_a_torch_for_an_accelerator_gives_itself_away(resolved: list[tuple[str, str]], told: str | None) -> None:
    assert accelerator_build(resolved) == told


def test_an_engine_that_cannot_run_here_says_why() -> None:
    with pytest.raises(EngineMissingError) as raised:
        plan_install(engine("tensorrt-llm"))
    assert raised.value.seen == "it needs an NVIDIA GPU; nothing of it runs on a CPU"


def test_a_third_partys_build_is_called_one() -> None:
    assert any("third-party build" in line for line in plan_install(engine("vllm")).lines())
    assert not any("third-party" in line for line in plan_install(engine("openvino")).lines())
