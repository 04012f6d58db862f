"""One request as a reader read it. Text lives here and no longer: what is kept of it is chained hashes and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from unmoor.core.traffic import Segment


class Blocks(msgspec.Struct, frozen=True):
    """Content that the source tells apart in blocks of `block_tokens`: one id a block, the last perhaps partial."""

    ids: Sequence[int]
    block_tokens: int


class Segments(msgspec.Struct, frozen=True):
    """Content as named segments, from the prompt's start; each is equal to another whole or not at all."""

    chain: Sequence[Segment]


class Part(msgspec.Struct, frozen=True):
    """One message of a prompt: who speaks, and the text. A completion's prompt is one part without a role."""

    role: str
    text: str


class Prompt(msgspec.Struct, frozen=True):
    """Content as text: the tool definitions (each as the JSON it came as, in order), then the messages in order.

    `messages` and `tool_objects` are the decoded originals, for a model's own chat template. `others` is how many of
    its pieces are images, sounds or files: the text has a hash in the place of each.
    """

    parts: tuple[Part, ...]
    tools: tuple[str, ...] = ()
    messages: Sequence[Mapping[str, object]] = ()
    tool_objects: Sequence[object] = ()
    others: int = 0


Content = Blocks | Segments | Prompt | None
"""What a source says of a prompt's content; None where it says nothing."""


class Entry(msgspec.Struct, frozen=True):
    """One request of a log. What the source does not say is None.

    `at_s` is a reading of the log's clock in seconds, from any origin. `took_s` is from arrival to the last token.
    `input_tokens` is the source's count; for content as text it may be None, and is then derived. So is
    `output_tokens` where `answer_bytes`, the size of the answer's text in UTF-8, is known.
    `sampling` holds the parameters that the request itself set. `schema` names the structured output asked for: its
    kind ("json_schema", "json_object", "regex", "grammar", "choice") and a hash, joined by a colon. `body` and `answer`
    are the request's body and the answer's as decoded, where the log holds them; they live no longer than the entry.
    `http_status` is the status with which it was answered, or 499 where the client went away.
    """

    at_s: float | None
    input_tokens: int | None
    output_tokens: int | None
    content: Content = None
    session: str | None = None
    tenant: str | None = None
    adapter: str | None = None
    model: str | None = None
    schema: str | None = None
    took_s: float | None = None
    tools: tuple[str, ...] = ()
    sampling: Mapping[str, object] = msgspec.field(default_factory=dict)
    answer_bytes: int | None = None
    body: Mapping[str, Any] | None = None
    answer: Mapping[str, Any] | None = None
    http_status: int | None = None
