"""The grammar libraries, run for real: what they say of schemas, and that no schema can stop or fill the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from uuid import uuid4

import pytest

from unmoor.core.errors import InstallError
from unmoor.launch.environments import installed
from unmoor.launch.probe import run_probe
from unmoor.launch.schema_compilers import NAME, Compilers, ask_compilers, compilers


@pytest.fixture(scope="module")
def where() -> Compilers:
    found = compilers(())
    if found is None:
        pytest.skip(f"needs `unmoor engines install {NAME}`")
    return found


def question(name: str, library: str, content: object, *values: object, kind: str = "json_schema") -> dict[str, object]:
    text = content if isinstance(content, str) else json.dumps(content)
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return {"id": name, "library": library, "kind": kind, "content": text, "values": texts}


def test_both_libraries_are_in_the_small_environment_at_the_pinned_versions(where: Compilers) -> None:
    assert where.name == NAME
    assert where.versions == {"xgrammar": "0.2.8", "llguidance": "1.7.6"}


def test_objects_are_closed_to_one_library_and_open_to_the_other(where: Compilers) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    told = ask_compilers(
        where,
        [
            question("x", "xgrammar", schema, {"a": 1}, {"a": 1, "b": 2}, '{"a":'),
            question("l", "llguidance", schema, {"a": 1}, {"a": 1, "b": 2}, '{"a":'),
        ],
    )
    assert told["x"]["accepted"] == [True, False, False]
    assert told["l"]["accepted"] == [True, True, False]


TAG = {"structures": [{"begin": "<f>", "schema": {"type": "integer"}, "end": "</f>"}], "triggers": ["<f"]}


@pytest.mark.parametrize("library", ["xgrammar", "llguidance"])
def test_other_kinds_of_constraint_are_compiled_too(where: Compilers, library: str) -> None:
    told = ask_compilers(
        where,
        [
            question("regex", library, "a+b{1,3}", "aabb", "abbbb", kind="regex"),
            question("choice", library, ["yes", 'n"o'], "yes", 'n"o', "never", kind="choice"),
            question("ebnf", library, 'root ::= "a" | "b"', "a", "c", kind="grammar"),
            question("lark", library, 'start: "a" | "b"', "a", "c", kind="grammar"),
            question("broken", library, "a(", "a", kind="regex"),
            question("tag", library, TAG, "so <f>1</f>", "so <f>x</f>", kind="structural_tag"),
        ],
    )
    assert told["regex"]["accepted"] == [True, False]
    assert told["choice"]["accepted"] == [True, True, False]
    assert told["ebnf"]["accepted"] == [True, False]
    assert told["lark"]["accepted"] == [True, False]
    assert told["broken"]["outcome"] == "error"
    assert told["tag"]["accepted"] == [True, False]


def test_a_schema_that_explodes_costs_its_own_answer_and_not_the_run(where: Compilers) -> None:
    deep: object = {"type": "integer"}
    for _ in range(400):
        deep = {"type": "array", "items": deep}
    huge = {"type": "array", "minItems": 10**9, "items": {"type": "string", "minLength": 10**9}}
    many = {"enum": [f"x{number}" * 40 for number in range(100_000)]}
    questions = [
        question(f"{name} {library}", library, content, 1)
        for name, content in (("deep", deep), ("huge", huge), ("many", many), ("plain", {"type": "integer"}))
        for library in ("xgrammar", "llguidance")
    ]
    bounds = {"cpu_s": 0.5, "memory_bytes": 2 << 30, "budget_s": 60.0}
    lines = run_probe(where.python, "schema_probe", [bounds, *questions], timeout_s=300)
    told = {line["id"]: line for line in lines if "id" in line}
    assert list(told) == [one["id"] for one in questions]
    assert told["plain xgrammar"]["accepted"] == [True]
    assert told["plain llguidance"]["accepted"] == [True]
    assert told["deep xgrammar"]["outcome"] == "too_slow"
    assert told["many xgrammar"]["outcome"] == "too_slow"
    assert told["huge llguidance"]["outcome"] in {"too_large", "too_slow"}


def test_once_the_budget_is_used_up_the_rest_is_not_asked(where: Compilers) -> None:
    many = {"enum": [f"x{number}" * 40 for number in range(100_000)]}
    bounds = {"cpu_s": 0.2, "memory_bytes": 2 << 30, "budget_s": 0.1}
    questions = [question("slow", "xgrammar", many), question("plain", "xgrammar", {"type": "integer"}, 1)]
    told = run_probe(where.python, "schema_probe", [bounds, *questions], timeout_s=300)
    assert [line["outcome"] for line in told if "id" in line] == ["too_slow", "not_asked"]


LATE = """
import json, sys
from unmoor.core.errors import EngineDiedError
from unmoor.launch.probe import run_probe
schema = json.dumps({"enum": [f"x{number}" * 40 for number in range(100_000)]})
bounds = {"cpu_s": 60.0, "memory_bytes": 2 << 30, "budget_s": 60.0}
slow = {"id": "slow", "library": "xgrammar", "kind": "json_schema", "content": schema, "values": []}
try:
    run_probe(sys.argv[1], "schema_probe", [bounds, slow], timeout_s=1)
except EngineDiedError as error:
    print(error.message)
"""


def test_a_probe_that_takes_too_long_is_ended_with_its_children(where: Compilers) -> None:
    mark = f"UNMOOR_TEST_MARK={uuid4()}"
    env = os.environ | dict([mark.split("=")])
    argv = [sys.executable, "-c", LATE, where.python]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert "has not answered within 1 s" in done.stdout
    assert [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and has(entry, mark)] == []


def has(process: Path, mark: str) -> bool:
    """Whether the process was started with `mark` in its environment."""
    try:
        return mark.encode() in (process / "environ").read_bytes()
    except OSError:
        return False


def test_an_interpreter_that_is_not_there_is_told() -> None:
    with pytest.raises(InstallError, match="cannot be used"):
        run_probe("/nowhere/python", "schema_probe", [], timeout_s=10)


def test_without_the_libraries_the_probe_says_so() -> None:
    script = files("unmoor") / "launch" / "probes" / "schema_probe.py"
    bounds = json.dumps({"cpu_s": 1, "memory_bytes": 1 << 30, "budget_s": 1})
    asked = "\n".join([bounds, json.dumps(question("a", "xgrammar", {}))])
    done = subprocess.run([sys.executable, "-I", str(script)], input=asked, capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert told[:2] == [{"library": "xgrammar", "version": None}, {"library": "llguidance", "version": None}]
    assert told[2] == {"id": "a", "outcome": "not_asked"}


def test_an_engines_own_environment_is_preferred(where: Compilers) -> None:
    if installed("vllm") is None:
        pytest.skip("needs `unmoor engines install vllm`")
    found = compilers(("openvino", "vllm"))
    assert found is not None
    assert found.name == "vllm"
    assert where.name == NAME
