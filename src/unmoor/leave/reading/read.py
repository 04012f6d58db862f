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
from unmoor.leave.uses import Counted, Rows, Uses
from unmoor.traffic.entry import Entry, Prompt
from unmoor.traffic.log import Traffic
from unmoor.traffic.readers import Cutter, Watch
from unmoor.traffic.readers.contract import Cut

MOST_MODELS = 1000
"""Of so many models' names the requests are remembered."""

MOST_COUNTED = 300
"""So many chat prompts are kept to be counted again, as far as they are short enough."""
_LONGEST_COUNTED = 100_000
_OWN_TEMPLATE = ("chat_template", "chat_template_kwargs", "add_generation_prompt", "continue_final_message")
"""Fields by which a request changes what the model's template writes."""

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
            self._keep_counted(line, entry, entry.body)
        if entry.answer is not None:
            uses.answers += 1
            read_answer(uses, line, entry.answer, entry.body or {})
        read_failure(uses, line, entry.answer or {}, entry.http_status)

    def _keep_counted(self, line: int, entry: Entry, body: Mapping[str, Any]) -> None:
        """Keeps a chat whose tokens its server counted, with nothing in it that a tokenizer alone cannot count."""
        prompt, count = entry.content, _prompt_tokens(entry.answer)
        if count is None or not isinstance(prompt, Prompt) or not prompt.messages or prompt.others:
            return
        told_otherwise = any(body.get(name) is not None for name in _OWN_TEMPLATE)
        size = sum(len(part.text) for part in prompt.parts)
        if len(self.uses.counted) < MOST_COUNTED and not told_otherwise and size <= _LONGEST_COUNTED:
            self.uses.counted.append(Counted(line, prompt, count))

    def _model(self, name: str, line: int) -> None:
        self._models[name] += 1
        rows = self.uses.by_model.get(name)
        if rows is None and len(self.uses.by_model) < MOST_MODELS:
            rows = self.uses.by_model[name] = Rows()
        if rows is not None:
            rows.add(line)


def _prompt_tokens(answer: Mapping[str, Any] | None) -> int | None:
    usage = (answer or {}).get("usage")
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else None


class NotCut:
    """A `Cutter` for readings that do not ask what prompts share."""

    by: Literal["tokens", "bytes"] = "tokens"
    step = 1
    notes: Sequence[Caveat] = ()

    def cut(self, prompts: Sequence[Prompt]) -> list[Cut]:
        """Each prompt as one symbol, the same for all."""
        one = Cut(np.ones(1, dtype=np.uint64), np.ones(1, dtype=np.int64))
        return [one] * len(prompts)
