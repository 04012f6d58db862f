"""Reads every import in the house and fails on one that runs up, sideways, or out of a pure room."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "unmoor"

# What each room may know, besides itself. ARCHITECTURE.md draws it.
MAY_KNOW: dict[str, set[str]] = {
    "core": set(),
    "traffic": {"core"},
    "engines": {"core"},
    "fake": {"core", "engines"},
    "choose": {"core", "traffic", "engines"},
    "launch": {"core", "traffic", "engines", "choose", "fake"},
    "measure": {"core", "traffic", "engines", "choose"},
    "bakeoff": {"core", "traffic", "engines", "choose", "launch", "measure"},
    "leave": {"core", "traffic", "engines", "choose", "launch", "measure", "bakeoff"},
    "report": {"core", "traffic", "engines", "choose", "launch", "measure", "bakeoff", "leave", "fake"},
    "cli": {"core", "traffic", "engines", "choose", "launch", "measure", "bakeoff", "leave", "report", "fake"},
}
PURE = {"core", "traffic", "engines", "choose", "report"}
HANDS_ONLY = {"asyncio", "socket", "subprocess", "time", "threading", "http", "urllib", "httptools", "uvloop", "select"}
# Third-party packages and the rooms they stay in; numpy and msgspec may go anywhere.
STAYS_IN = {
    "click": {"cli"},
    "jinja2": {"report", "traffic"},  # in traffic: models' own chat templates
    "tokenizers": {"traffic"},
    "backports": {"traffic"},
    "httptools": {"measure", "fake"},
    "aiconfigurator_core": {"choose"},
    "pyarrow": {"measure"},
    "prometheus_client": {"measure"},
}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides which room it knows"
            yield node.lineno, node.module or ""


def modules() -> list[Path]:
    return sorted(p for p in SRC.rglob("*.py") if p.parent != SRC and not {"servers", "probes"} & set(p.parts))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SRC)))
def test_imports_go_down_only(path: Path) -> None:
    room = path.relative_to(SRC).parts[0]
    assert room in MAY_KNOW, f"{room} is not a room of ARCHITECTURE.md"
    for line, name in imports(path):
        top = name.split(".")[0]
        if top == "unmoor" and name != "unmoor":
            other = name.split(".")[1]
            assert other == room or other in MAY_KNOW[room], f"{path}:{line}: {room} may not know {other}"
        if room in PURE:
            assert top not in HANDS_ONLY, f"{path}:{line}: {room} is pure and imports {top}"
        if top in STAYS_IN:
            assert room in STAYS_IN[top], f"{path}:{line}: {top} stays in {', '.join(sorted(STAYS_IN[top]))}"


def test_servers_and_probes_import_nothing_of_ours() -> None:
    for path in [*(SRC / "launch" / "servers").rglob("*.py"), *(SRC / "launch" / "probes").rglob("*.py")]:
        for line, name in imports(path):
            assert name.split(".")[0] != "unmoor", f"{path}:{line}: runs in an engine's environment, where we are not"


def test_engine_names_stay_home() -> None:
    """No `if engine ==` in the flow: an engine's name in code outside its own file is a defect."""
    names = {"vllm", "sglang", "tensorrt-llm", "openvino"}
    homes = {SRC / "engines", SRC / "launch" / "servers"}
    for path in SRC.rglob("*.py"):
        if any(home in path.parents for home in homes):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                seen = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)}
                assert not seen & names, f"{path}:{node.lineno}: the flow asks which engine it is"
