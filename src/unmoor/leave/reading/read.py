"""Reads a log for what its requests use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from unmoor.core.evidence import Caveat
from unmoor.leave.reading.answers import read_answer
from unmoor.leave.reading.bodies import BodyReader
from unmoor.leave.uses import Uses
from unmoor.traffic.entry import Entry, Prompt
from unmoor.traffic.readers import Source, read_traffic
from unmoor.traffic.readers.contract import Cut


def read_uses(
    source: Source, *, where: str, format_name: str | None = None, most_broken: int | None = None
) -> tuple[Uses, tuple[Caveat, ...]]:
    """What the requests of a log use, and the doubts of its reading. Raises TrafficError, as `read_traffic` does."""
    reader = UseReader(where)
    traffic = read_traffic(
        source, where=where, format_name=format_name, cutter=NotCut(), most_broken=most_broken, watch=reader.watch
    )
    reader.uses.format = traffic.format
    return reader.uses, traffic.caveats


class UseReader:
    """Collects the uses of requests as they are read."""

    def __init__(self, where: str) -> None:
        self.uses = Uses(source=where, format="")
        self._models: Counter[str] = Counter()
        self.uses.models = self._models
        self._bodies = BodyReader(self.uses)

    def watch(self, line: int, entry: Entry) -> None:
        """Looks at one request."""
        uses = self.uses
        uses.requests += 1
        if entry.model is not None:
            self._models[entry.model] += 1
        if entry.body is None:
            self._bodies.settings_alone(line, entry.sampling)
        else:
            uses.bodies += 1
            self._bodies.read(line, entry.body)
        if entry.answer is not None:
            uses.answers += 1
            read_answer(uses, line, entry.answer, entry.body or {})


class NotCut:
    """A `Cutter` for readings that do not ask what prompts share."""

    by: Literal["tokens", "bytes"] = "bytes"
    step = 1
    notes: Sequence[Caveat] = ()

    def cut(self, prompts: Sequence[Prompt]) -> list[Cut]:
        """Each prompt as nothing."""
        nothing = Cut(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))
        return [nothing] * len(prompts)
