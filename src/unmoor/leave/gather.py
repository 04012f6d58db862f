"""Brings together what a check looks at: the traffic's uses, and what else the user has of the two sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from unmoor.engines.surface.surface import Surface
from unmoor.leave.adapters.read import read_adapters
from unmoor.leave.case import Case
from unmoor.leave.checkpoint.read import read_checkpoint
from unmoor.leave.launch_flags import read_launch_flags
from unmoor.leave.names_used import find_names
from unmoor.leave.parsing.ask import ask_outputs
from unmoor.leave.recount import recount
from unmoor.leave.schemas.ask import ask_schemas
from unmoor.leave.schemas.files import SchemaFiles, read_schemas
from unmoor.leave.uses import Uses


class Brought(msgspec.Struct, frozen=True, kw_only=True):
    """Where the user has what else can be looked at; None or empty: nowhere.

    `model` is a checkpoint's folder or file, `adapters` a folder of adapters, `schemas` a folder of JSON schemas,
    `start` a file with the command line that starts the source engine, `dashboards` files or folders in which names of
    metrics and routes are looked for.
    """

    model: Path | None = None
    adapters: Path | None = None
    schemas: Path | None = None
    start: Path | None = None
    dashboards: Sequence[Path] = ()


def case_of(source: Surface, target: Surface, uses: Uses, brought: Brought, *, say: Callable[[str], None]) -> Case:
    """Everything read, and every constraint and output asked. `say` tells of what takes long.

    Raises UserError for what was brought and cannot be read.
    """
    more = read_schemas(brought.schemas) if brought.schemas else SchemaFiles()
    model = read_checkpoint(brought.model) if brought.model else None
    flags = read_launch_flags(brought.start, source) if brought.start else None
    return Case(
        uses=uses,
        source=source,
        target=target,
        model=model,
        adapters=read_adapters(brought.adapters) if brought.adapters else (),
        flags=flags,
        names=find_names(brought.dashboards, source) if brought.dashboards else None,
        schemas=ask_schemas(uses, source, target, more=more.constraints, say=say),
        outputs=ask_outputs(uses, source, target, model=model, flags=flags, say=say),
        recount=recount(uses.counted, brought.model) if brought.model else None,
        not_looked_at=list(more.skipped),
    )
