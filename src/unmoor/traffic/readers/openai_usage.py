"""Where a log of OpenAI-format requests counts tokens: in an answer's usage, beside it, or in the record itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from unmoor.traffic.readers.lines import MOST_TOKENS, in_range
from unmoor.traffic.readers.nested_json import object_in

Tree = Mapping[str, Any]

USAGES = ("usage", "usageDetails")
"""The keys beside an answer under which tokens are counted."""
_OUTPUTS = ("completion_tokens", "output_tokens", "completionTokens")
_OUTPUTS_OR_BARE = (*_OUTPUTS, "output")
_CACHED = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Beside `prompt_tokens` they are a part of it (LiteLLM), beside `input_tokens` they come on top (Anthropic).

OpenAI's own `input_tokens` holds the cached ones, which it names one level down, in `input_tokens_details`.
"""
_WITH_CACHED = ("prompt_tokens", "promptTokens")
_LONGEST_NUMBER = 12


class Usage(NamedTuple):
    """One record's counts; each is None where it is not said, or is 0 as for a request that failed before it was read.

    Both raise Broken for a negative one.
    """

    counts: Tree
    in_record: bool
    """Whether they stand in the record itself, where `input` and `output` are text."""

    @property
    def input_tokens(self) -> int | None:
        """A prompt's tokens, with the cached ones, which Anthropic's and Langfuse's counts have beside them."""
        whole = _count(self.counts, _WITH_CACHED)
        if whole is not None:
            return whole
        if self.counts.get("input_tokens") is not None:
            parts = ["input_tokens", *_CACHED]
        elif not self.in_record and self.counts.get("input") is not None:
            parts = ["input", *(name for name in self.counts if name.startswith("input_")), *_CACHED]
        else:
            return None
        return sum(_count(self.counts, (name,)) or 0 for name in parts) or None

    @property
    def output_tokens(self) -> int | None:
        """An answer's tokens."""
        return _count(self.counts, _OUTPUTS if self.in_record else _OUTPUTS_OR_BARE)


def usage_of(record: Tree, answer: Tree, names: Sequence[str] = USAGES) -> Usage:
    """Where this record counts tokens; `names` are those of USAGES that it has."""
    found = object_in(answer.get("usage"))
    if not found:
        found = next((beside for name in names if (beside := object_in(record.get(name)))), None)
    return Usage(record, in_record=True) if found is None else Usage(found, in_record=False)


def _count(counts: Tree, names: Sequence[str]) -> int | None:
    for name in names:
        value = counts.get(name)
        if value is None:
            continue
        if isinstance(value, str) and value.isdecimal() and len(value) < _LONGEST_NUMBER:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            continue
        in_range(name, value, least=0, most=MOST_TOKENS)
        return int(value) or None
    return None
