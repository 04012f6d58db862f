"""Reads a log for what its requests use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from unmoor.core.evidence import Caveat
from unmoor.leave.reading.answers import read_answer
from unmoor.leave.reading.bodies import BodyReader
from unmoor.leave.reading.failures import read_failure
from unmoor.leave.uses import Rows, Uses
from unmoor.traffic.entry import Entry, Prompt
from unmoor.traffic.log import Traffic
from unmoor.traffic.readers import Cutter, Watch
from unmoor.traffic.readers.contract import Cut

MOST_MODELS = 1000
"""Of so many models' names the requests are remembered."""

ReadTraffic = Callable[[Cutter, Watch], Traffic]
"""Reads a log, cut so and watched by this, as `traffic.readers.read_traffic` does."""


def read_uses(read: ReadTraffic) -> tuple[Uses, Traffic]:
    """What the requests of a log use, and the log in columns (without content). Raises what `read` raises."""
    reader = UseReader()
    traffic = read(NotCut(), reader.watch)
    reader.uses.source, reader.uses.format = traffic.source, traffic.format
    return reader.uses, traffic


class UseReader:
    """Collects the uses of requests as they are read."""

    def __init__(self) -> None:
        self.uses = Uses()
        self._models: Counter[str] = Counter()
        self.uses.models = self._models
        self._bodies = BodyReader(self.uses)
        self._line = -1
        self._body: Mapping[str, Any] | None = None

    def watch(self, line: int, entry: Entry) -> None:
        """Looks at one request; of a body with several prompts, which comes once for each, only the first time."""
        if line == self._line and entry.body is not None and entry.body is self._body:
            return
        self._line, self._body = line, entry.body
        uses = self.uses
        uses.requests += 1
        if entry.model is not None:
            self._model(entry.model, line)
        if entry.body is None:
            self._bodies.settings_alone(line, entry.sampling)
        else:
            uses.bodies += 1
            self._bodies.read(line, entry.body)
        if entry.answer is not None:
            uses.answers += 1
            read_answer(uses, line, entry.answer, entry.body or {})
        read_failure(uses, line, entry.answer or {}, entry.http_status)

    def _model(self, name: str, line: int) -> None:
        self._models[name] += 1
        rows = self.uses.by_model.get(name)
        if rows is None and len(self.uses.by_model) < MOST_MODELS:
            rows = self.uses.by_model[name] = Rows()
        if rows is not None:
            rows.add(line)


class NotCut:
    """A `Cutter` for readings that do not ask what prompts share."""

    by: Literal["tokens", "bytes"] = "tokens"
    step = 1
    notes: Sequence[Caveat] = ()

    def cut(self, prompts: Sequence[Prompt]) -> list[Cut]:
        """Each prompt as one symbol, the same for all."""
        one = Cut(np.ones(1, dtype=np.uint64), np.ones(1, dtype=np.int64))
        return [one] * len(prompts)
