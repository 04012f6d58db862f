"""A check of a model as SARIF 2.1.0, for code scanning: one result a finding, at the files of the model it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from unmoor.leave.check_model import ModelReport
from unmoor.leave.checkpoint.bounded import shown
from unmoor.leave.checkpoint.checkpoint import Problem
from unmoor.leave.checkpoint.folder import PICKLES
from unmoor.leave.finding import Finding, Kind
from unmoor.report.move_sarif import MOST_RELATED, level, location, log, rule

_BROKEN, _PICKLED = "UM133", "UM132"
_FILES = (".gguf", ".safetensors", *PICKLES)


def render(
    report: ModelReport, kinds: Mapping[str, Kind], *, version: str, quoted: Callable[[str], str]
) -> dict[str, Any]:
    """The log of one run; `quoted` percent-encodes a path.

    A finding that no file in particular is about stands at the model's configuration.
    """
    used = list(dict.fromkeys(finding.kind for finding in report.findings))
    results = [_result(finding, used.index(finding.kind), report, quoted) for finding in report.findings]
    properties = {"model": report.checkpoint.path, "lost": list(report.lost)}
    return log([rule(kinds[kind]) for kind in used], results, version=version, properties=properties)


def _result(finding: Finding, index: int, report: ModelReport, quoted: Callable[[str], str]) -> dict[str, Any]:
    first, *rest = (location(quoted(file)) for file in dict.fromkeys(_files(finding, report)))
    result: dict[str, Any] = {
        "ruleId": finding.kind,
        "ruleIndex": index,
        "level": level(finding),
        "message": {"text": f"{', '.join(finding.features)}: {finding.seen} Fix: {finding.fix}"},
        "locations": [first],
        "properties": {"outcome": finding.outcome, "by": finding.by},
    }
    if rest:
        result["relatedLocations"] = rest[:MOST_RELATED]
    return result


def _files(finding: Finding, report: ModelReport) -> Iterator[str]:
    """Where the finding stands, by path; the model's configuration where nowhere else."""
    model = report.checkpoint
    adapters = [one for one in report.adapters if f"adapter {shown(one.name)}" in finding.features]
    if finding.kind == _BROKEN:
        yield from (_within(model.path, one.file) for one in model.problems if _about(finding, one))
        for adapter in adapters:
            yield from (_within(adapter.path, one.file) for one in adapter.problems if _about(finding, one))
    elif finding.kind == _PICKLED and finding.features == ("model",):
        yield from (_within(model.path, name) for name in model.pickles)
    for adapter in adapters:
        yield _within(adapter.path, "adapter_config.json")
    said_in = model.quantisation.said_in
    yield _within(model.path, said_in if said_in.endswith((".json", *_FILES)) else "config.json")


def _about(finding: Finding, problem: Problem) -> bool:
    return finding.seen.startswith(f"{shown(problem.file)}: {problem.what}")


def _within(root: str, name: str) -> str:
    """The file in the folder; the file itself where `root` is one, or where the name is that of the folder."""
    if PurePath(root).suffix.lower() in _FILES or name in {"", root}:
        return root
    return str(PurePath(root) / name)
