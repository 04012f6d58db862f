"""What a check may look at, and the form that every check has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from unmoor.core.evidence import Caveat
from unmoor.engines.surface.surface import Source, Surface
from unmoor.leave.adapters.adapter import Adapter
from unmoor.leave.checkpoint.checkpoint import Checkpoint
from unmoor.leave.finding import MOST_LINES, TABLE, Finding, Kind, Outcome, Severity
from unmoor.leave.launch_flags import LaunchFlags
from unmoor.leave.names_used import NamesUsed
from unmoor.leave.parsing.parsed import ParserAnswers
from unmoor.leave.recount import Recount
from unmoor.leave.schemas.answers import SchemaAnswers
from unmoor.leave.uses import Rows, Uses


@dataclass(frozen=True, slots=True)
class Case:
    """A move from `source` to `target` of this traffic, and what else the user brought; None or empty: not brought.

    `schemas` answers, of each constraint in the traffic and in the schemas' folder, what a side does with it; `outputs`
    what each side's parsers make of recorded outputs, `recount` what the model's files make of recorded prompts.
    """

    uses: Uses
    source: Surface
    target: Surface
    model: Checkpoint | None = None
    adapters: tuple[Adapter, ...] = ()
    flags: LaunchFlags | None = None
    names: NamesUsed | None = None
    schemas: SchemaAnswers | None = None
    outputs: ParserAnswers | None = None
    recount: Recount | None = None
    not_looked_at: list[str] = field(default_factory=list)

    @property
    def stays(self) -> bool:
        """Whether both sides are one engine at one version: then nothing changes."""
        return (self.source.engine, self.source.version) == (self.target.engine, self.target.version)

    def skipped(self, why: str) -> None:
        """Tells, once, what could not be looked at."""
        if why not in self.not_looked_at:
            self.not_looked_at.append(why)


@dataclass(frozen=True, slots=True)
class Hit:
    """A finding, and every request that it concerns."""

    finding: Finding
    rows: Rows


@dataclass(frozen=True, slots=True)
class Check:
    """One check: the kinds of finding that it may return, and the function that looks."""

    kinds: tuple[Kind, ...]
    look: Callable[[Case], Iterable[Hit]]


def hit(
    kind: Kind,
    outcome: Outcome,
    severity: Severity,
    *,
    features: Sequence[str],
    seen: str,
    fix: str,
    rows: Rows | None = None,
    sources: Sequence[Source] = (),
    by: str = TABLE,
    file: str = "",
    caveats: Sequence[Caveat] = (),
    needs: Sequence[str] = (),
) -> Hit:
    """A finding of `kind` about the requests in `rows`."""
    rows = rows or Rows()
    found = Finding(
        kind=kind.id,
        outcome=outcome,
        severity=severity,
        features=tuple(features),
        seen=seen,
        fix=fix,
        sources=tuple(sources),
        requests=len(rows),
        lines=rows.first(MOST_LINES),
        by=by,
        file=file,
        caveats=tuple(caveats),
        needs=tuple(one for one in needs if one),
    )
    return Hit(found, rows)
