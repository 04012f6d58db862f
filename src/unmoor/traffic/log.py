"""A whole log in columns, one row a request in order of arrival: what every analysis of traffic works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.scratch import MEMORY, Scratch
from unmoor.traffic.tree import PromptTree

Whole = NDArray[np.int64] | NDArray[np.int32]
Small = NDArray[np.int32]
Real = NDArray[np.float64]

UNKNOWN = -1
"""In a column of whole numbers: the source does not say. In a column of real numbers it is NaN."""


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """A column of names, each kept once: row i has `names[code[i]]`, or no name where `code[i]` is UNKNOWN."""

    code: Small
    names: Sequence[str] = ()


class Grain(msgspec.Struct, frozen=True, kw_only=True):
    """How finely a source tells content apart.

    A shared prefix is known to within `tokens`: 1 where it is exact, 512 for a Mooncake trace. By "bytes", token counts
    are bytes over `bytes_per_token`, which was measured on this log (`ratio_measured`) or assumed.
    """

    by: Literal["tokens", "blocks", "segments", "bytes"]
    tokens: int
    bytes_per_token: float | None = None
    ratio_measured: bool = False


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """What the requests asked for besides text, as counts of requests.

    `sampling[parameter][value]` counts the requests that set that value (as compact JSON; beyond 50 values of one
    parameter the rest count under "..."). `tools` counts by a tool's name, `models` by the model asked for.
    """

    sampling: dict[str, dict[str, int]] = {}
    tools: dict[str, int] = {}
    models: dict[str, int] = {}
    with_tools: int = 0


class BreakerShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a fingerprint keeps of a habit that ruins sharing: its kind, and the shares (0-1) of prompt tokens it costs.

    `what`, `share_lost` and `gain` are those of `breakers.Breaker`; where it was found is not kept.
    """

    what: str
    share_lost: float
    gain: float


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """What a fingerprint says of the log behind it that its own lines cannot show.

    `breakers` None: nobody looked. `whole_blocks`: its blocks were cut from something finer, or from other blocks.
    """

    features: Features
    breakers: tuple[BreakerShare, ...] | None
    skipped_lines: int = 0
    whole_blocks: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """A log in columns; all columns have one row a request, in order of arrival.

    `arrival_s` counts from the first arrival and is NaN throughout where the log has no times: then the order is that
    of the log. `input_tokens` is the source's count. `node` is where in `tree` the prompt ends; UNKNOWN throughout, and
    `tree` and `grain` None, where the source says nothing of content. A tree's own count of a prompt's tokens,
    `tree.end[node]`, may differ from `input_tokens` where content is told apart by bytes. `line` is the line of the
    log, for findings that point back. `skipped` are the numbers and kinds of broken lines, the first few of
    `skipped_lines`. `breakers` are those that a fingerprint carries; None where nobody looked, and for a log of
    requests, in whose text they are to be found. `whole_blocks` is whether blocks of `grain` are an engine's, of which
    it serves whole ones: those of a fingerprint, unless they are the blocks of the trace behind it. `scratch` is where
    analyses keep arrays as long as these columns, as the reader did.
    """

    arrival_s: Real
    input_tokens: Whole
    output_tokens: Whole
    took_s: Real
    node: Small
    line: Whole
    session: Names
    tenant: Names
    adapter: Names
    schema: Names
    tree: PromptTree | None
    grain: Grain | None
    features: Features
    source: str
    format: str
    fingerprint: str
    skipped_lines: int = 0
    skipped: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    breakers: tuple[BreakerShare, ...] | None = None
    whole_blocks: bool = False
    scratch: Scratch = MEMORY

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def timed(self) -> bool:
        """Whether the log has times."""
        return len(self) > 0 and not bool(np.isnan(self.arrival_s[0]))

    @property
    def duration_s(self) -> float | None:
        """From the first arrival to the last, in seconds; None without times."""
        return float(self.arrival_s[-1] - self.arrival_s[0]) if self.timed else None

    def first(self, count: int) -> Traffic:
        """The first `count` requests to arrive, and the part of the tree that they walk.

        `features` stay those of the whole log.
        """
        if count >= len(self):
            return self
        rows = ("arrival_s", "input_tokens", "output_tokens", "took_s", "node", "line")
        names = ("session", "tenant", "adapter", "schema")
        kept = {name: getattr(self, name)[:count] for name in rows}
        coded = {name: replace(getattr(self, name), code=getattr(self, name).code[:count]) for name in names}
        if self.tree is not None:
            kept["tree"], kept["node"] = self.tree.under(kept["node"])
        return replace(self, **kept, **coded)
