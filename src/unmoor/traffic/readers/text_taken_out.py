"""Records of a gateway that kept no text, or took it out: what is left of them is lengths, and perhaps not that.

LiteLLM writes "redacted-by-litellm" in the place of text (litellm 1.110.2, litellm_core_utils/redact_messages.py); its
spend logs hold "{}" unless they are told to keep prompts. Others write "[REDACTED]", or words of their own, which show
by being far too short for the tokens that are counted. An empty prompt whose tokens are counted held something too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from unmoor.traffic.entry import Blocks, Prompt
from unmoor.traffic.readers.contract import Broken
from unmoor.traffic.readers.openai_usage import usage_of

_MARK = re.compile(r"[\[<({*_\s]*redacted(?:-by-litellm)?[\])>}*_\s]*", re.IGNORECASE)
_LONGEST_MARK = 24
_FEWEST_BYTES_A_TOKEN = 0.5
_MOST_OF_A_TEMPLATE = 96
"""Tokens that a chat template may put around a short text: gpt-oss's, one of the longest, some 70 (seen in 2026)."""

_OTHER_LOGS = frozenset(("hash_ids", "segments", "arrival_s"))  # keys of logs that are read otherwise


def is_mark(text: object) -> bool:
    """Whether this stands in the place of a text that was taken out, a prompt's or an answer's.

    Within a text it is somebody's own. It is looked for where texts stand: to search whole records for it costs as much
    as to hash them.
    """
    return isinstance(text, str) and len(text) <= _LONGEST_MARK and _MARK.fullmatch(text) is not None


def is_too_short(size: int, input_tokens: int) -> bool:
    """Whether a text of `size` bytes cannot be the whole of a prompt of so many tokens: few tokens are under a byte."""
    return size < _FEWEST_BYTES_A_TOKEN * (input_tokens - _MOST_OF_A_TEMPLATE)


def is_redacted(body: Mapping[str, Any]) -> bool:
    """Whether the gateway took the text of this body out."""
    if (messages := body.get("messages")) is not None:
        return isinstance(messages, list) and any(map(_says_so, messages))
    said = body.get("prompt", body.get("input"))
    return is_mark(said) or (isinstance(said, list) and any(map(_says_so, said)))


def _says_so(message: object) -> bool:
    content = message.get("content", message.get("text")) if isinstance(message, dict) else message
    if isinstance(content, list):
        return any(isinstance(part, dict) and is_mark(part.get("text")) for part in content)
    return is_mark(content)


def is_empty(content: Prompt | Blocks) -> bool:
    """Whether there is no text in the prompt at all."""
    return isinstance(content, Prompt) and not content.tools and not any(part.text for part in content.parts)


def is_counted(record: Mapping[str, Any], answer: Mapping[str, Any] | None = None) -> bool:
    """Whether a record without a body says how many tokens its prompt had, itself or in its answer's usage."""
    if _OTHER_LOGS & record.keys():
        return False
    try:
        return usage_of(record, answer or {}).input_tokens is not None
    except Broken:
        return False
