"""From bytes to tokens: what the text of a whole log comes to, by one ratio, measured on it where it says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Prompt
from unmoor.traffic.log import UNKNOWN, Grain, Whole
from unmoor.traffic.ranked import Weighted, value_at
from unmoor.traffic.readers.contract import Cutter
from unmoor.traffic.scratch import MEMORY, Scratch
from unmoor.traffic.token_ends import in_tokens
from unmoor.traffic.tree import PromptTree

_EVEN = 1.5
_FEWEST_BYTES, _MOST_BYTES = 1.0, 8.0
ASSUMED_BYTES_PER_TOKEN = 4.0
"""Where nothing in the log tells: English text in the vocabularies of current models is near it."""


def size_of(prompt: Prompt) -> int:
    """The prompt's text in bytes of UTF-8, without what a chat template would put around it."""
    return sum(map(_bytes, prompt.tools)) + sum(_bytes(part.text) for part in prompt.parts)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, kw_only=True, eq=False)
class TextSizes:
    """The sizes of a log's prompts in the cutter's unit, and of its answers in bytes, one row a request.

    `counted` are the prompts' tokens as the source counts them, or UNKNOWN; `of_prompts` is UNKNOWN where the text is,
    and `counted` is then known. `text_only` is whether the prompt is text alone, of which bytes a token are measured.
    `prompt_bytes` is all prompts' text.
    """

    cutter: Cutter
    of_prompts: Whole
    of_answers: Whole
    prompt_bytes: int
    counted: NDArray[np.int32]
    text_only: NDArray[np.bool_]
    scratch: Scratch = MEMORY

    @cached_property
    def measured_on(self) -> int:
        """How many requests say how many tokens the text of their prompt has, with nothing else in it."""
        return sum(int(np.count_nonzero(self._measured(some))) for some in self.scratch.stretches(len(self.counted)))

    def _measured(self, some: slice) -> NDArray[np.bool_]:
        counted, of_prompts = self.counted[some] != UNKNOWN, self.of_prompts[some] != UNKNOWN
        measured: NDArray[np.bool_] = self.text_only[some] & counted & of_prompts
        return measured

    @cached_property
    def bytes_per_token(self) -> float:
        """Of a tokenizer's own count, of the source's, or assumed.

        Of the source's it is the median over all bytes: requests whose count holds more than their text (a
        hidden prompt) do not move it while they hold less than half of the bytes.
        """
        if self.cutter.by == "tokens":
            tokens = int(np.maximum(self.of_prompts, 0).sum(dtype=np.int64))
            return self.prompt_bytes / tokens if tokens else ASSUMED_BYTES_PER_TOKEN
        if not self.measured_on:
            return ASSUMED_BYTES_PER_TOKEN
        return value_at(self._ratios, self._measured_bytes / 2)

    @cached_property
    def _measured_bytes(self) -> int:
        return sum(int(bytes_.sum()) for _, bytes_ in self._ratios() if bytes_ is not None)

    def _ratios(self) -> Iterator[Weighted]:
        """Bytes a token of each request that says its tokens, and its bytes."""
        for some in self.scratch.stretches(len(self.counted)):
            known = self._measured(some)
            bytes_, tokens = self.of_prompts[some][known].astype(np.int64), self.counted[some][known]
            yield bytes_ / tokens, bytes_

    @property
    def grain(self) -> Grain:
        """How finely the cutter tells content apart, in tokens."""
        if self.cutter.by == "tokens":
            return Grain(by="tokens", tokens=self.cutter.step)
        ratio = self.bytes_per_token
        tokens = max(1, math.ceil(self.cutter.step / ratio))
        return Grain(by="bytes", tokens=tokens, bytes_per_token=ratio, ratio_measured=self.measured_on > 0)

    @property
    def notes(self) -> tuple[Caveat, ...]:
        """What the cutter assumed, and where the ratio is from."""
        if self.cutter.by == "tokens":
            return tuple(self.cutter.notes)
        ratio, count = self.bytes_per_token, self.measured_on
        if not count:
            which = "request" if self.text_only.all() else "request of text alone"
            text = f"Tokens are bytes over {ratio:g}, which is assumed: no {which} says how many tokens its prompt has."
            return (*self.cutter.notes, Caveat(code="tokens_assumed", text=text))
        were = "request that says" if count == 1 else "requests that say"
        text = f"Tokens are bytes over {ratio:.3g}, measured on {count:,} {were} how many tokens the prompt has."
        return (*self.cutter.notes, Caveat(code="tokens_measured", text=text), *self._uneven)

    @property
    def _uneven(self) -> tuple[Caveat, ...]:
        """A doubt where requests disagree on bytes a token, or all of them are far from what text comes to."""
        least, most = (value_at(self._ratios, self._measured_bytes * share) for share in (0.1, 0.9))
        if most <= _EVEN * least and least >= _FEWEST_BYTES and most <= _MOST_BYTES:
            return ()
        text = (
            f"Bytes a token differ from request to request, {least:.2g} to {most:.2g} (10th to 90th percentile): "
            "counts hold more than the text, or several tokenizers were at work; shares may be off by as much."
        )
        return (Caveat(code="tokens_uneven", text=text),)

    def in_tokens(self, tree: PromptTree) -> PromptTree:
        """The tree with its ends in tokens: rounded, and each above its parent's."""
        return tree if self.cutter.by == "tokens" else in_tokens(tree, self.bytes_per_token, self.scratch)

    def inputs(self) -> NDArray[np.int32]:
        """The prompts' tokens: the source's count where there is one, else the text's."""
        unknown = self.counted == UNKNOWN
        if not unknown.any():
            return self.counted
        ratio = self.bytes_per_token if self.cutter.by == "bytes" else 1.0
        told = self.scratch.copy(self.counted)
        for some in self.scratch.stretches(len(told)):
            derived = np.maximum(1, np.rint(self.of_prompts[some] / ratio)).astype(told.dtype)
            told[some] = np.where(unknown[some], derived, told[some])
        return told

    def outputs(self, counted: NDArray[np.int32]) -> NDArray[np.int32]:
        """The answers' tokens: the source's count where there is one, else by the answer's bytes, if known."""
        derived = (counted == UNKNOWN) & (self.of_answers != UNKNOWN)
        if not derived.any():
            return counted
        told = self.scratch.copy(counted)
        for some in self.scratch.stretches(len(told)):
            by_bytes = np.ceil(self.of_answers[some] / self.bytes_per_token).astype(told.dtype)
            told[some] = np.where(derived[some], by_bytes, told[some])
        return told
