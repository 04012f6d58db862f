from __future__ import annotations

import ast
import re
import typing
from pathlib import Path

import msgspec
import pytest

import unmoor.choose
from unmoor.choose.devices import device_names
from unmoor.choose.facts import load_facts
from unmoor.choose.gates import HARDWARE_SUBJECTS
from unmoor.cli.decide import command
from unmoor.core.decision import Decision
from unmoor.core.plan import Plan

DOCS = Path(__file__).parent.parent.parent / "docs" / "reference"


def fields_below(struct: type[msgspec.Struct]) -> set[str]:
    """Every field name of a struct and of the structs inside it."""
    names: set[str] = set()
    for name, hint in typing.get_type_hints(struct).items():
        names.add(name)
        for inner in structs_in(hint):
            names |= fields_below(inner)
    return names


def structs_in(hint: object) -> list[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [hint]
    return [found for arg in typing.get_args(hint) for found in structs_in(arg)]


@pytest.mark.parametrize(("page", "struct"), [("plan.md", Plan), ("decide.md", Decision)])
def test_every_key_has_its_line_on_the_page(page: str, struct: type[msgspec.Struct]) -> None:
    words = set(re.findall(r"`([^`]+)`", (DOCS / page).read_text()))
    words |= set(re.findall(r"\[+([\w.]+)\]", " ".join(words)))
    assert fields_below(struct) - words - {"traffic.synthetic"} == set()


def test_every_option_has_its_line_on_the_page() -> None:
    page = (DOCS / "decide.md").read_text()
    options = [name for param in command.params for name in param.opts if name.startswith("--")]
    assert [name for name in options if f"| `{name}" not in page] == []


def codes_in(folder: Path) -> set[str]:
    """Every code of a caveat that the sources in `folder` make, read from their syntax; names stand for constants."""
    trees = [ast.parse(path.read_text()) for path in folder.rglob("*.py")]
    constants = {
        target.id: node.value.value
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    given = [
        value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for value in (
            *(word.value for word in node.keywords if word.arg == "code"),
            *(node.args[:1] if isinstance(node.func, ast.Name) and node.func.id == "_nothing" else ()),
        )
    ]
    plain = {value.value for value in given if isinstance(value, ast.Constant)}
    return {str(code) for code in plain | {constants.get(v.id) for v in given if isinstance(v, ast.Name)} if code}


def test_every_caveat_code_has_its_line_on_a_page() -> None:
    codes = codes_in(Path(unmoor.choose.__file__).parent)
    assert {"stale_price", "newer_than_known", "slo_unmet", "no_arrivals", "tail_unmeasured"} <= codes
    pages = "".join((DOCS / page).read_text() for page in ("decide.md", "traffic.md"))  # what a profile means is there
    rows = re.findall(r"^\| (`[^|]*) \|", pages, flags=re.MULTILINE)
    assert sorted(codes - set(re.findall(r"`([^`]+)`", " ".join(rows)))) == []


def test_every_device_that_is_known_has_its_name_on_the_page() -> None:
    page = (DOCS / "plan.md").read_text()
    assert sorted(name for name in device_names() if f"`{name}`" not in page) == []


def test_every_vendor_of_the_gates_has_its_name_on_the_page() -> None:
    page = (DOCS / "plan.md").read_text()
    assert [name for name in load_facts().named(HARDWARE_SUBJECTS) if f"`{name}`" not in page] == []
