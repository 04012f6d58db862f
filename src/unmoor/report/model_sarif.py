"""A check of a model as SARIF 2.1.0, for code scanning: one result a finding, at the files of the model it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from unmoor.leave.adapters.adapter import Adapter
from unmoor.leave.check_model import ModelReport
from unmoor.leave.checkpoint.bounded import shown
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.checkpoint.folder import PICKLES
from unmoor.leave.checks.checkpoints import printable
from unmoor.leave.finding import Finding, Kind
from unmoor.report.sarif import location, log

_BROKEN, _PICKLED = "UM133", "UM132"
_FILES = (".gguf", ".safetensors", *PICKLES)


def render(
    report: ModelReport, kinds: Mapping[str, Kind], *, version: str, quoted: Callable[[str], str]
) -> dict[str, Any]:
    """The log of one run; `quoted` percent-encodes a path.

    A finding that no file in particular is about stands at the model's configuration.
    """
    return log(
        report.findings,
        kinds,
        lambda finding: [location(quoted(file)) for file in dict.fromkeys(_files(finding, report))],
        version=version,
        properties={"model": report.checkpoint.path, "lost": list(report.lost)},
    )


def _files(finding: Finding, report: ModelReport) -> Iterator[str]:
    """Where the finding stands, by path; the model's configuration where nowhere else."""
    model = report.checkpoint
    adapters = [one for one in report.adapters if f"adapter {shown(one.name)}" in finding.features]
    about: Sequence[Adapter | Checkpoint] = adapters or [model]
    if finding.file or finding.kind == _BROKEN:
        yield from (_within(one.path, finding.file) for one in about)
    if finding.kind == _PICKLED:
        yield from (_within(one.path, printable(name)) for one in about for name in one.pickles)
    for adapter in adapters:
        yield _within(adapter.path, "adapter_config.json")
    said_in = model.quantisation.said_in
    yield _within(model.path, said_in if said_in.endswith((".json", *_FILES)) else "config.json")


def _within(root: str, name: str) -> str:
    """The file in the folder; the file itself where `root` is one, or where the name is that of the folder."""
    if PurePath(root).suffix.lower() in _FILES or name in {"", root}:
        return root
    return str(PurePath(root) / name)
