"""Where an engine's own tool and reasoning parsers are: in its environment, else in a small one that has them alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from unmoor.engines.output_parsers import parser_environments
from unmoor.launch.environments import Installed, install_environment, installed, plan_environment
from unmoor.launch.probe import Line, run_probe

ITEM_S = 10.0
BUDGET_S = 60.0
TIMEOUT_S = 900.0


class Replies(NamedTuple):
    """What an engine's parsers made of outputs, by each question's "id"; and who they are.

    `names` are the parsers that this version has, of both kinds. `toy_tokenizer`: the model's own did not stand behind
    them.
    """

    engine: str
    version: str
    environment: str
    names: Mapping[str, frozenset[str]]
    toy_tokenizer: bool
    answers: Mapping[str, Line]


def install_parsers(name: str, *, say: Callable[[str], None], ask: Callable[[str], bool]) -> Installed:
    """The parsers' environment called `name`, made if it is not whole yet. Raises as `install_environment` does."""
    spec = parser_environments()[name]
    plan = plan_environment(name, name, spec)
    return install_environment(plan, spec, torch_index=None, say=say, ask=ask)


def parsers_environment(engine: str) -> Installed | None:
    """The environment with the parsers of `engine`: its own, else that of its parsers alone; None: there is none."""
    return installed(engine) or installed(f"{engine}-parsers")


def ask_parsers(
    engine: str, questions: Sequence[Line], *, tokenizer: Path | None = None, template: str | None = None
) -> Replies | None:
    """What the parsers of `engine`, installed here, make of raw outputs; `probes/parser_probe.py` tells the forms.

    None: it is not installed, or has no parsers that can be asked. Raises EngineDiedError and InstallError as
    `run_probe` does.
    """
    where = parsers_environment(engine)
    if where is None:
        return None
    head = {
        "package": engine.replace("-", "_"),
        "tokenizer": str(tokenizer) if tokenizer else None,
        "template": template,
        "item_s": ITEM_S,
        "budget_s": BUDGET_S,
    }
    first, *told = run_probe(where.python, "parser_probe", [head, *questions], timeout_s=TIMEOUT_S)
    if first["version"] is None:
        return None
    return Replies(
        engine=engine,
        version=str(first["version"]),
        environment=where.name,
        names={kind: frozenset(first[kind]) for kind in ("tool", "reasoning")},
        toy_tokenizer=first["tokenizer"] == "toy",
        answers={str(line["id"]): line for line in told},
    )
