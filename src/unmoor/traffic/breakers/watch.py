"""Keeps the first prompts of a log while it is read, and finds in them what ruins prefix sharing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.breakers.breaker import Breaker
from unmoor.traffic.breakers.find import find
from unmoor.traffic.breakers.mended import Mended
from unmoor.traffic.breakers.scene import Scene
from unmoor.traffic.entry import Entry, Part, Prompt
from unmoor.traffic.readers.contract import Cutter
from unmoor.traffic.readers.models_apart import ModelsApart

WINDOW_BYTES = 32 * 2**20
"""Text looked at by bytes. The start of a log without a gap keeps the sharing between its requests as it was."""
WINDOW_PROMPTS = 200_000
"""No more prompts than that are kept, however short: each costs some 400 bytes beside its text."""
WINDOW_BYTES_TOKENIZED = 4 * 2**20
"""Text looked at with a tokenizer, which is a hundred times slower."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What ruins sharing; None where there was no text to look at. `mended` where anything was found."""

    breakers: tuple[Breaker, ...] | None = None
    mended: Mended | None = None


class Watch:
    """Sees every request of a log, in its order, and keeps the prompts of its first `window_bytes` of text.

    They are `window_prompts` at most. The text stays in this object's memory, equal messages once, and is never
    written anywhere.
    """

    def __init__(self, window_bytes: int = WINDOW_BYTES, window_prompts: int = WINDOW_PROMPTS) -> None:
        self._room = self._window_bytes = window_bytes
        self._window_prompts = window_prompts
        self._lines: list[int] = []
        self._prompts: list[Prompt] = []
        self._tenants: list[str | None] = []
        self._adapters: list[str | None] = []
        self._models = ModelsApart()
        self._model_salts: list[int] = []
        self._sizes: list[int] = []
        self._texts: dict[str, str] = {}
        self._left_out = 0

    def __call__(self, line: int, entry: Entry) -> None:
        """Looks at one request; `line` is its line in the log, for findings that point back."""
        if not isinstance(entry.content, Prompt):
            return
        size = _size(entry.content)
        full = len(self._prompts) >= self._window_prompts or (size > self._room and self._prompts)
        if self._left_out or full:
            self._left_out += 1
            return
        self._room -= size
        self._lines.append(line)
        self._tenants.append(entry.tenant)
        self._adapters.append(entry.adapter)
        self._model_salts.append(self._models.salt_of(entry.model))
        self._sizes.append(size)
        self._prompts.append(self._kept(entry.content))

    def findings(
        self,
        cutter: Cutter,
        *,
        kv_tokens: int | None = None,
        bytes_per_token: float = 4.0,
        show_text: bool = False,
    ) -> tuple[Breaker, ...] | None:
        """The breakers of `look`."""
        return self.look(cutter, kv_tokens=kv_tokens, bytes_per_token=bytes_per_token, show_text=show_text).breakers

    def look(
        self,
        cutter: Cutter,
        *,
        kv_tokens: int | None = None,
        bytes_per_token: float = 4.0,
        show_text: bool = False,
    ) -> Looked:
        """What ruins sharing in the window, the dearest first as far as one does not hide another.

        Greedy: the dearest is mended, then the rest is looked at again, so each `share_lost` is what that one adds to
        those before it. Adapters share nothing, before a fix and after it, nor do models. Empty where nothing costs
        LEAST_SHARE; None where the log has no text to look at. `kv_tokens` is the capacity at which `gain` is given,
        turned into bytes by `bytes_per_token` where the cutter counts those. `show_text` puts a few words of the
        prompts into each `where`.
        """
        if not self._prompts:
            return Looked()
        kept = self._within(WINDOW_BYTES_TOKENIZED if cutter.by == "tokens" else self._window_bytes)
        prompts, lines, tenants = self._prompts[:kept], self._lines[:kept], self._tenants[:kept]
        scene = Scene(tuple(prompts), tuple(lines), tuple(tenants), _salt_of(self._adapters[:kept], self._model_salts))
        units_per_token = 1.0 if cutter.by == "tokens" else bytes_per_token
        capacity = None if kv_tokens is None else int(kv_tokens * units_per_token)
        found = find(scene, cutter, capacity=capacity, show_text=show_text)
        if found.before is None or found.after is None:
            return Looked(breakers=found.breakers)
        return Looked(
            breakers=found.breakers,
            mended=Mended(
                before=found.before.in_tokens(units_per_token),
                after=found.after.in_tokens(units_per_token),
                salt=scene.salt,
                grain_tokens=max(1, math.ceil(cutter.step / units_per_token)),
            ),
        )

    def notes(self, cutter: Cutter) -> Sequence[Caveat]:
        """What limits the findings: no text at all, or a log that is longer than the window."""
        if not self._prompts:
            text = "what breaks prefix sharing is found in prompts' text, and this log has none"
            return (Caveat(code="breakers_need_text", text=text),)
        kept = self._within(WINDOW_BYTES_TOKENIZED if cutter.by == "tokens" else self._window_bytes)
        total = len(self._prompts) + self._left_out
        rendered = all(len(prompt.parts) == 1 and not prompt.parts[0].role for prompt in self._prompts[:kept])
        if rendered:
            text = "prompts were logged as one text each, without messages and tools: some habits cannot be seen in it"
            return (Caveat(code="breakers_rendered", text=text),)
        if kept == total:
            return ()
        text = f"what breaks prefix sharing was looked for in the first {kept:,} of {total:,} prompts"
        return (Caveat(code="breakers_window", text=text),)

    def _within(self, limit: int) -> int:
        """How many of the kept prompts come before `limit` bytes are full; at least one."""
        room = limit
        for kept, size in enumerate(self._sizes):
            room -= size
            if room < 0:
                return max(kept, 1)
        return len(self._sizes)

    def _kept(self, prompt: Prompt) -> Prompt:
        """The prompt as text only, each text that was seen before kept once."""
        parts = tuple(Part(self._once(part.role), self._once(part.text)) for part in prompt.parts)
        return Prompt(parts=parts, tools=tuple(self._once(tool) for tool in prompt.tools))

    def _once(self, text: str) -> str:
        return self._texts.setdefault(text, text)


def _salt_of(adapters: Sequence[str | None], models: Sequence[int]) -> NDArray[np.int64] | None:
    """One number for each of the adapters' requests, equal where adapter and model are; None where they all are.

    `models` are numbers of the models, at least as many.
    """
    codes: dict[tuple[str | None, int], int] = {}
    salt = [codes.setdefault(pair, len(codes)) for pair in zip(adapters, models, strict=False)]
    return np.array(salt, dtype=np.int64) if len(codes) > 1 else None


def _size(prompt: Prompt) -> int:
    return sum(len(part.text) for part in prompt.parts) + sum(len(tool) for tool in prompt.tools)
