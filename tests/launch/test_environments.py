"""Environments: told first, made whole or not at all, and remade after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from unmoor.core.errors import EngineMissingError, InstallError, UsageError
from unmoor.engines.contract import InstallSpec
from unmoor.engines.registry import engine
from unmoor.launch.environments import InstallPlan, install_environment, plan_install, read_installed
from unmoor.launch.home import held, writing
from unmoor.launch.pip import accelerator_build, failure


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


def until_free(root: Path) -> None:
    for _ in range(600):
        try:
            with held(root):
                return
        except InstallError:
            time.sleep(0.05)
    pytest.fail("the child of a killed install never ended")


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
    until_free(Path(plan.root))
    said: list[str] = []
    done = install_environment(plan, spec, torch_index=None, say=said.append, ask=lambda _: True)
    assert done.version == "1.2"
    assert "an unfinished environment is there: it is remade" in said


def test_two_at_once_do_not_meet(tmp_path: Path) -> None:
    plan, spec = plan_and_spec(tmp_path, wheel(tmp_path))
    with held(Path(plan.root)), pytest.raises(InstallError, match="another process is working on 'tiny'"):
        install_environment(plan, spec, torch_index=None, say=lambda _: None, ask=lambda _: True)


def test_an_environment_that_no_longer_loads_is_made_again(tmp_path: Path) -> None:
    plan, spec = plan_and_spec(tmp_path, wheel(tmp_path))
    done = install_environment(plan, spec, torch_index=None, say=lambda _: None, ask=lambda _: True)
    next(Path(plan.root).rglob("tinyengine.py")).write_text("raise OSError('it was cut short')")
    said: list[str] = []
    assert install_environment(plan, spec, torch_index=None, say=said.append, ask=lambda _: True) == done
    assert "Tiny is there and does not load any more: it is made again" in said
    assert next(Path(plan.root).rglob("tinyengine.py")).read_text() == "__version__ = '1.2-build7'"


def a_file_as_home(root: Path) -> None:
    root.parent.parent.mkdir(parents=True, exist_ok=True)
    root.parent.write_text("")


def a_file_as_environment(root: Path) -> None:
    root.parent.mkdir(parents=True)
    root.write_text("")


@pytest.mark.parametrize("stands_there", [a_file_as_home, a_file_as_environment])
def test_a_place_that_cannot_be_written_is_one_error(tmp_path: Path, stands_there: Callable[[Path], None]) -> None:
    plan, spec = plan_and_spec(tmp_path, wheel(tmp_path))
    stands_there(Path(plan.root))
    with pytest.raises(InstallError, match="it cannot be written there") as raised:
        install_environment(plan, spec, torch_index=None, say=lambda _: None, ask=lambda _: True)
    assert raised.value.seen in {"File exists", "Not a directory"}


def test_whatever_stands_in_an_environments_place_gives_way_and_a_links_goal_stays(tmp_path: Path) -> None:
    plan, spec = plan_and_spec(tmp_path, wheel(tmp_path))
    root, goal = Path(plan.root), tmp_path / "goal"
    goal.mkdir()
    (goal / "kept").write_text("")
    (root / "installed.json").mkdir(parents=True)
    (root / "install.log").mkdir()
    (root / "venv").symlink_to(goal)
    assert install_environment(plan, spec, torch_index=None, say=lambda _: None, ask=lambda _: True).version == "1.2"
    assert (goal / "kept").exists()
    assert not (root / "venv").is_symlink()


def test_a_full_disk_is_told_as_one(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="the disk is full"), writing(tmp_path):
        Path("/dev/full").write_text("x")


def test_neither_the_current_folder_nor_the_users_settings_lend_or_divert_anything(tmp_path: Path) -> None:
    made = wheel(tmp_path)
    plan, _ = plan_and_spec(tmp_path, made)
    elsewhere = tmp_path / "elsewhere"
    for module in ("venv.py", "pip.py", "ensurepip.py"):
        (tmp_path / module).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    code = INSTALLS.format(here=str(Path(__file__).parent), folder=str(tmp_path), wheel=str(made))
    env = {"PIP_TARGET": str(elsewhere), "PIP_NO_DEPS": "1", "PIP_DRY_RUN": "1", "PYTHONPATH": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-P", "-c", code], env={**os.environ, **env}, cwd=tmp_path, check=True, capture_output=True
    )
    assert read_installed(Path(plan.root)) is not None
    assert not elsewhere.exists()
    assert not (tmp_path / "ran").exists()


def test_a_kill_while_the_environment_is_made_still_keeps_others_out(tmp_path: Path) -> None:
    made = wheel(tmp_path)
    plan, _ = plan_and_spec(tmp_path, made)
    code = INSTALLS.format(here=str(Path(__file__).parent), folder=str(tmp_path), wheel=str(made))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL) as us:
        while not (Path(plan.root) / "venv").exists():
            time.sleep(0.01)
        us.kill()
    with pytest.raises(InstallError, match="another process is working on 'tiny'"), held(Path(plan.root)):
        pytest.fail("its child still writes there")
    until_free(Path(plan.root))


def test_a_home_of_nobody_is_told(tmp_path: Path) -> None:
    code = "from unmoor.cli.main import run; raise SystemExit(run(['engines', '--json']))"
    env = {**os.environ, "UNMOOR_HOME": "~nobody-of-that-name/foo"}
    shown = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 1
    assert shown.stderr.startswith("error: UNMOOR_HOME: the home folder cannot be told")


RETRY = "WARNING: Retrying (Retry(total={left}, x)) after connection broken by 'NewConnectionError': /simple/x/"
NOTHING = "ERROR: No matching distribution found for x==1"


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        ([RETRY.format(left=1), RETRY.format(left=0), NOTHING], "did not answer: see to the network"),
        ([RETRY.format(left=4), NOTHING], "does not have it for this Python"),
        ([NOTHING], "does not have it for this Python"),
        (["ERROR: [Errno 28] No space left on device"], "free space"),
    ],
)
def test_an_index_that_was_not_reached_is_not_said_to_lack_the_package(lines: list[str], hint: str) -> None:
    assert hint in (failure("\n".join(lines), where=Path("install.log")).hint or "")


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
