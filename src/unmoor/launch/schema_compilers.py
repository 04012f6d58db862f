"""Where grammar libraries are: in an installed engine's environment, else in a small one of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from unmoor.engines.contract import InstallSpec
from unmoor.launch.environments import Installed, install_environment, installed, plan_environment
from unmoor.launch.probe import Line, run_probe

NAME = "schema-compilers"

# xgrammar's package names torch, transformers and triton among its needs: gigabytes, for masks on tensors. Its compiled
# part needs the ffi alone (looked at on 2026-12-01).
COMPILERS = InstallSpec(
    requirements=(
        "llguidance==1.7.6",
        "xgrammar==0.2.8",
        "apache-tvm-ffi==0.1.15.post2",
        "typing_extensions==4.16.0",
    ),
    publisher="the llguidance, XGrammar and Apache TVM projects, Python's typing",
    licence="MIT, Apache-2.0, PSF-2.0",
    size_mb=25,
    imports="llguidance",
    exact=True,
)

CPU_S = 5.0
MEMORY_BYTES = 4 << 30
BUDGET_S = 60.0
TIMEOUT_S = 900.0


class Compilers(NamedTuple):
    """An environment with grammar libraries: what it is called, its interpreter, each library's version."""

    name: str
    python: str
    versions: dict[str, str]


def install_compilers(*, say: Callable[[str], None], ask: Callable[[str], bool]) -> Installed:
    """The libraries' own environment, made if it is not whole yet. Raises as `install_environment` does."""
    plan = plan_environment(NAME, "The schema compilers", COMPILERS)
    return install_environment(plan, COMPILERS, torch_index=None, say=say, ask=ask)


def compilers(engines: Iterable[str]) -> Compilers | None:
    """The first environment with a grammar library: of one of `engines`, else the small one; None: there is none.

    An engine's own environment comes first because its versions are those that will serve.
    """
    for name in (*engines, NAME):
        found = installed(name)
        if found is None:
            continue
        told = run_probe(found.python, "schema_probe", [_bounds()], timeout_s=TIMEOUT_S)
        versions = {str(line["library"]): str(line["version"]) for line in told if line.get("version")}
        if versions:
            return Compilers(name, found.python, versions)
    return None


def ask_compilers(where: Compilers, questions: Sequence[Line]) -> dict[str, Line]:
    """What the libraries in `where` answer, by each question's "id"; `probes/schema_probe.py` tells both forms."""
    told = run_probe(where.python, "schema_probe", [_bounds(), *questions], timeout_s=TIMEOUT_S)
    return {str(line["id"]): line for line in told if "id" in line}


def _bounds() -> Line:
    return {"cpu_s": CPU_S, "memory_bytes": MEMORY_BYTES, "budget_s": BUDGET_S}
