"""The check of a model: which engines load it and its adapters, on which hardware; what is wrong with its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.engines.surface.surface import Surface
from unmoor.leave.adapters.adapter import Adapter
from unmoor.leave.adapters.base_model import fit, with_model
from unmoor.leave.adapters.support import AdapterVerdict, adapter_verdict
from unmoor.leave.adapters.support import refused_for_all as adapter_refused
from unmoor.leave.case import Hit
from unmoor.leave.checkpoint.bounded import shown
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.checkpoint.support import Verdict, refused_for_all, verdicts
from unmoor.leave.checks.adapters import adapter_file_hits, adapter_hits, base_hits
from unmoor.leave.checks.checkpoints import file_hits, kv_scale_hits, variant_hits
from unmoor.leave.finding import Finding

_ORDER = {"lost": 0, "translated": 1, "same": 2}


class ModelReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that a check of a model found.

    `verdicts` has one for each engine and kind of hardware that was looked at, `adapter_verdicts` one for each adapter
    and engine. `lost` says why something is lost, one sentence each: empty where nothing is.
    """

    checkpoint: Checkpoint
    adapters: tuple[Adapter, ...]
    verdicts: tuple[Verdict, ...]
    adapter_verdicts: tuple[AdapterVerdict, ...]
    findings: tuple[Finding, ...]
    lost: tuple[str, ...]
    caveats: tuple[Caveat, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether the files are such that nothing can load them."""
        return any(problem.fatal for problem in self.checkpoint.problems)


def check_model(
    checkpoint: Checkpoint,
    adapters: Sequence[Adapter],
    surfaces: Sequence[Surface],
    hardware: Sequence[str],
    *,
    all_wanted: bool,
) -> ModelReport:
    """What each of `surfaces` does with the checkpoint on each of `hardware` (keys of `concepts.HARDWARE`).

    `all_wanted`: the user named these engines, so that one of them which refuses is a loss; else only when all do.
    """
    adapters = [with_model(adapter, checkpoint) for adapter in adapters]
    found = tuple(one for surface in surfaces for one in verdicts(checkpoint, surface, hardware))
    if any(problem.fatal for problem in checkpoint.problems):
        found = tuple(refused_for_all(one, "the files are broken") for one in found)
    hits = list(_hits(checkpoint, adapters, surfaces, hardware, all_wanted=all_wanted))
    findings = tuple(sorted((one.finding for one in hits), key=lambda one: (_ORDER[one.outcome], one.kind)))
    served = tuple(_served(adapter, surface, checkpoint) for surface in surfaces for adapter in adapters)
    return ModelReport(
        checkpoint=checkpoint,
        adapters=tuple(adapters),
        verdicts=found,
        adapter_verdicts=served,
        findings=tuple(dict.fromkeys(findings)),
        lost=tuple(_lost(checkpoint, adapters, surfaces, found, findings, all_wanted=all_wanted)),
        caveats=tuple(dict.fromkeys(caveat for surface in surfaces for caveat in surface.caveats)),
    )


def _served(adapter: Adapter, surface: Surface, model: Checkpoint) -> AdapterVerdict:
    verdict, fits = adapter_verdict(adapter, surface), fit(adapter, model)
    return adapter_refused(verdict, "it does not fit the model") if fits.wrong or fits.missing else verdict


def _hits(
    checkpoint: Checkpoint,
    adapters: Sequence[Adapter],
    surfaces: Sequence[Surface],
    hardware: Sequence[str],
    *,
    all_wanted: bool,
) -> Iterator[Hit]:
    """What is wrong with the files, then what each engine does otherwise; what is unknown only of engines named."""
    yield from file_hits(checkpoint)
    yield from kv_scale_hits(checkpoint, None)
    for adapter in adapters:
        yield from adapter_file_hits(adapter)
        yield from base_hits(adapter, checkpoint)
    for surface in surfaces:
        own = [*variant_hits(checkpoint, None, surface, hardware)]
        own += [one for adapter in adapters if not _is_broken(adapter) for one in adapter_hits(adapter, None, surface)]
        yield from (one for one in own if all_wanted or one.finding.outcome != "same")


def _lost(
    checkpoint: Checkpoint,
    adapters: Sequence[Adapter],
    surfaces: Sequence[Surface],
    found: Sequence[Verdict],
    findings: Sequence[Finding],
    *,
    all_wanted: bool,
) -> Iterator[str]:
    if any(problem.fatal for problem in checkpoint.problems):
        yield "The model's files are broken: nothing can load them."
        found = ()
    for adapter in adapters:
        if _is_broken(adapter):
            yield f"The files of the adapter {shown(adapter.name)} are broken: nothing can load them."
    if any(one.kind == "UM134" and one.outcome == "lost" for one in findings):
        yield "An adapter does not fit the model."
    refusing = _refusing(found)
    if all_wanted:
        yield from (
            f"{title} loads the model, as it is, on none of the hardware that was looked at." for title in refusing
        )
        yield from _adapters_lost(adapters, surfaces)
    elif refusing and len(refusing) == len(surfaces):
        yield "No engine loads the model, as it is, on any hardware that was looked at."


def _refusing(found: Sequence[Verdict]) -> list[str]:
    """The engines that refuse on all hardware of which anything is known, if on any; not where it may yet load."""
    by_engine: dict[str, set[str]] = {}
    may_load = {one.engine for one in found if one.unsaid}
    for one in (one for one in found if one.engine not in may_load):
        by_engine.setdefault(f"{one.title} {one.version}", set()).add(one.loads)
    return [title for title, loads in by_engine.items() if "refused" in loads and loads <= {"refused", "unknown"}]


def _adapters_lost(adapters: Sequence[Adapter], surfaces: Sequence[Surface]) -> Iterator[str]:
    for surface in surfaces:
        for adapter in adapters:
            if not _is_broken(adapter) and any(
                one.finding.outcome == "lost" for one in adapter_hits(adapter, None, surface)
            ):
                yield f"{surface.title} {surface.version} does not serve the adapter {shown(adapter.name)} as it is."


def _is_broken(adapter: Adapter) -> bool:
    return any(problem.fatal for problem in adapter.problems)
